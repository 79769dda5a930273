package schedule_test

import (
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

func TestAQueueSaysOfEachPromiseWhetherItIsKept(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	none, two := uint32(0), uint32(2)
	for _, c := range []struct {
		name   string
		expect schedule.QueueExpect
		since  time.Time
		dead   int
		want   string // a line for each promise
	}{
		{name: "nothing is promised", since: now.Add(-time.Hour), dead: 9},
		{name: "nothing waits", expect: schedule.QueueExpect{WaitWithinMS: 1000}, want: "wait_within_ms kept: no run has waited for more than 1s\n"},
		{name: "a wait at the limit", expect: schedule.QueueExpect{WaitWithinMS: 60_000}, since: now.Add(-time.Minute), want: "wait_within_ms kept: no run has waited for more than 1m\n"},
		{name: "a wait beyond it", expect: schedule.QueueExpect{WaitWithinMS: 60_000}, since: now.Add(-61 * time.Second), want: "wait_within_ms broken: a run has waited for 1m1s, promised are at most 1m\n"},
		{name: "no dead run", expect: schedule.QueueExpect{DeadAtMost: &none}, want: "dead_at_most kept: dead runs: 0, promised are at most 0\n"},
		{name: "the first dead run", expect: schedule.QueueExpect{DeadAtMost: &none}, dead: 1, want: "dead_at_most broken: dead runs: 1, promised are at most 0\n"},
		{name: "more than are counted", expect: schedule.QueueExpect{DeadAtMost: &two}, dead: 1002, want: "dead_at_most broken: dead runs: 1002 or more, promised are at most 2\n"},
		{
			name: "both", expect: schedule.QueueExpect{WaitWithinMS: 1000, DeadAtMost: &two}, since: now.Add(-time.Hour), dead: 2,
			want: "wait_within_ms broken: a run has waited for 1h, promised are at most 1s\ndead_at_most kept: dead runs: 2, promised are at most 2\n",
		},
	} {
		got := ""
		for _, p := range c.expect.Promises(c.since, c.dead, now) {
			kept := "broken"
			if p.Kept {
				kept = "kept"
			}
			got += p.Field + " " + kept + ": " + p.Says + "\n"
		}
		if got != c.want {
			t.Errorf("%s:\n%swant:\n%s", c.name, got, c.want)
		}
	}
}
