package plan_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
)

func TestSlotsOfATimetable(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		change func(*schedule.Schedule)
		after  string
		want   string // up to four slots
	}{
		{
			name:   "an interval without start_at counts from creation, rounded up, and its first slot is one interval later",
			change: func(s *schedule.Schedule) { s.IntervalMS, s.CreatedAt = 10_000, clock("12:00:00.25") },
			after:  "11:00:00", want: "12:00:11 12:00:21 12:00:31 12:00:41",
		},
		{
			name:   "an interval with start_at has its first slot there",
			change: func(s *schedule.Schedule) { s.IntervalMS, s.StartAt = 10_000, clock("12:00:03") },
			after:  "11:00:00", want: "12:00:03 12:00:13 12:00:23 12:00:33",
		},
		{
			name: "an edit does not move the anchor of an interval",
			change: func(s *schedule.Schedule) {
				s.IntervalMS, s.CreatedAt, s.RevisedAt, s.Revision = 60_000, clock("11:00:07"), clock("11:59:30"), 5
			},
			after: "11:59:30", want: "12:00:07 12:01:07 12:02:07 12:03:07",
		},
		{
			name:   "a slot exactly at after is not later than it",
			change: func(s *schedule.Schedule) { s.IntervalMS, s.StartAt = 10_000, clock("12:00:00") },
			after:  "12:00:10", want: "12:00:20 12:00:30 12:00:40 12:00:50",
		},
		{
			name:   "a fraction of a second after a slot the next one is due",
			change: func(s *schedule.Schedule) { s.IntervalMS, s.StartAt = 10_000, clock("12:00:00") },
			after:  "12:00:09.999", want: "12:00:10 12:00:20 12:00:30 12:00:40",
		},
		{
			name:   "start_at is inclusive",
			change: func(s *schedule.Schedule) { s.CronExpr, s.StartAt = "*/5 * * * *", clock("12:05:00") },
			after:  "11:00:00", want: "12:05:00 12:10:00 12:15:00 12:20:00",
		},
		{
			name:   "start_at between two slots leaves the next",
			change: func(s *schedule.Schedule) { s.CronExpr, s.StartAt = "*/5 * * * *", clock("12:05:01") },
			after:  "11:00:00", want: "12:10:00 12:15:00 12:20:00 12:25:00",
		},
		{
			name:   "end_at is inclusive",
			change: func(s *schedule.Schedule) { s.CronExpr, s.EndAt = "*/5 * * * *", clock("12:10:00") },
			after:  "12:00:00", want: "12:05:00 12:10:00",
		},
		{
			name:   "end_at just before a slot leaves it out",
			change: func(s *schedule.Schedule) { s.CronExpr, s.EndAt = "*/5 * * * *", clock("12:09:59") },
			after:  "12:00:00", want: "12:05:00",
		},
		{
			name: "start_at and end_at may be the same slot",
			change: func(s *schedule.Schedule) {
				s.IntervalMS, s.StartAt, s.EndAt = 1000, clock("12:00:00"), clock("12:00:00")
			},
			after: "11:00:00", want: "12:00:00",
		},
		{
			name:   "once is a single instant",
			change: func(s *schedule.Schedule) { s.OnceAt = clock("12:00:00") },
			after:  "11:00:00", want: "12:00:00",
		},
		{
			name:   "once has no later slot",
			change: func(s *schedule.Schedule) { s.OnceAt = clock("12:00:00") },
			after:  "12:00:00",
		},
		{
			name:   "once outside the window has no slot",
			change: func(s *schedule.Schedule) { s.OnceAt, s.EndAt = clock("12:00:00"), clock("11:59:59") },
			after:  "11:00:00",
		},
		{
			name:   "once at start_at is a slot",
			change: func(s *schedule.Schedule) { s.OnceAt, s.StartAt = clock("12:00:00"), clock("12:00:00") },
			after:  "11:00:00", want: "12:00:00",
		},
		{
			name:   "cron is read in its zone",
			change: func(s *schedule.Schedule) { s.CronExpr, s.Timezone = "0 9 * * *", "Europe/Berlin" },
			after:  "00:00:00", want: "07:00:00 06-02 07:00:00 06-03 07:00:00 06-04 07:00:00",
		},
		{
			name:   "without a rule there are no slots",
			change: func(*schedule.Schedule) {},
			after:  "11:00:00",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := slotTexts(timetable(c.change).Preview(clock(c.after), time.Time{}, 4)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func slotTexts(slots []plan.Slot) string {
	texts := make([]string, len(slots))
	for i, s := range slots {
		texts[i] = clockText(s.RunAt)
	}
	return strings.Join(texts, " ")
}

func TestFromIsInclusive(t *testing.T) {
	t.Parallel()
	tt := timetable(func(s *schedule.Schedule) { s.CronExpr = "*/5 * * * *" })
	for at, want := range map[string]string{
		"12:05:00": "12:05:00", "12:05:00.001": "12:10:00", "12:04:59.999": "12:05:00", "12:05:01": "12:10:00",
	} {
		if got, ok := tt.From(clock(at)); !ok || clockText(got) != want {
			t.Errorf("From(%s) = %s, want %s", at, clockText(got), want)
		}
	}
}

func TestCountIsHalfOpenAndInsideTheWindow(t *testing.T) {
	t.Parallel()
	every5s := func(s *schedule.Schedule) { s.IntervalMS, s.StartAt = 5000, clock("12:00:00") }
	cases := []struct {
		name        string
		change      func(*schedule.Schedule)
		from, until string
		want        int
	}{
		{name: "the first instant counts and the last does not", change: every5s, from: "12:00:00", until: "12:00:10", want: 2},
		{name: "a range inside two slots holds none", change: every5s, from: "12:00:01", until: "12:00:05", want: 0},
		{name: "a slot a moment before the range does not count", change: every5s, from: "12:00:05.001", until: "12:00:11", want: 1},
		{name: "an empty range holds none", change: every5s, from: "12:00:05", until: "12:00:05", want: 0},
		{name: "an inverted range holds none", change: every5s, from: "12:00:05", until: "12:00:00", want: 0},
		{name: "nothing is counted before start_at", change: every5s, from: "11:00:00", until: "12:00:01", want: 1},
		{
			name: "nothing is counted after end_at", from: "12:00:00", until: "13:00:00", want: 3,
			change: func(s *schedule.Schedule) { s.CronExpr, s.EndAt = "*/5 * * * *", clock("12:10:00") },
		},
		{name: "once counts once", change: func(s *schedule.Schedule) { s.OnceAt = clock("12:00:00") }, from: "12:00:00", until: "12:00:01", want: 1},
		{name: "once is not in a range that ends at it", change: func(s *schedule.Schedule) { s.OnceAt = clock("12:00:00") }, from: "11:00:00", until: "12:00:00", want: 0},
		{name: "no rule, no slots", change: func(*schedule.Schedule) {}, from: "11:00:00", until: "12:00:00", want: 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got, more := timetable(c.change).Count(clock(c.from), clock(c.until)); got != c.want || more {
				t.Errorf("got %d (more: %v), want %d", got, more, c.want)
			}
		})
	}
}

func TestPreviewEndsAtItsWindow(t *testing.T) {
	t.Parallel()
	tt := timetable(func(s *schedule.Schedule) { s.CronExpr = "*/5 * * * *" })
	if got := slotTexts(tt.Preview(clock("12:00:00"), clock("12:10:00"), 100)); got != "12:05:00 12:10:00" {
		t.Errorf("until is inclusive: got %s", got)
	}
	if got := tt.Preview(clock("12:00:00"), clock("12:04:59"), 100); len(got) != 0 {
		t.Errorf("an empty window previews nothing, got %s", slotTexts(got))
	}
}

func TestUnreadableDefinitionsAreErrors(t *testing.T) {
	t.Parallel()
	var zone *cronexpr.ZoneError
	d := schedule.Definition{CronExpr: "* * * * *", Timezone: "Atlantis/Capital"}
	if _, err := plan.NewTimetable(&d, created, created); !errors.As(err, &zone) {
		t.Errorf("an unknown zone: got %v, want a *cronexpr.ZoneError", err)
	}
	d = schedule.Definition{CronExpr: "61 * * * *", Timezone: "UTC"}
	if _, err := plan.NewTimetable(&d, created, created); err == nil {
		t.Error("minute 61 was read")
	}
	d = schedule.Definition{IntervalMS: 1500}
	if _, err := plan.NewTimetable(&d, created, created); err == nil {
		t.Error("an interval of 1500 ms was read; slots are whole seconds")
	}
}
