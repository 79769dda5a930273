package registrar_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// moved edits a definition so that jitter moves the slot at 12:01 later or earlier, by choosing an
// id.
func moved(later bool) func(*schedule.Definition) {
	return func(d *schedule.Definition) {
		d.JitterMS = 20_000
		for i := range 1000 {
			d.ScheduleID = fmt.Sprint("s", i)
			tt, err := plan.NewTimetable(d, schedule.MinTime, schedule.MinTime)
			if err != nil {
				panic(err)
			}
			off := tt.Slot(noon.Add(time.Minute)).FireAt.Sub(noon.Add(time.Minute))
			if later && off > 6*time.Second || !later && off < -6*time.Second {
				return
			}
		}
		panic("no id moves the slot so")
	}
}

// A slot runs the version in force at its run_at, or at its claim if that came earlier.
func TestASlotRunsTheVersionInForce(t *testing.T) {
	queueing := func(d *schedule.Definition) { d.OverlapPolicy = schedule.OverlapQueue }
	catching := func(d *schedule.Definition) { d.CatchupPolicy = schedule.CatchupFireImmediately }
	const second, minute = time.Second, time.Minute
	for _, tt := range []struct {
		name string
		play func(*stage)
		want []string // run_at, version, trigger; "ahead" for planned runs
	}{
		{name: "changed between plan and run_at: the new one", play: func(s *stage) {
			s.deploy(1)
			s.plan()
			s.at(30 * second)
			s.deploy(2)
			s.plan()
			s.at(minute)
			s.claim(0)
		}, want: []string{"12:01:00 w@2 schedule"}},
		{name: "changed a moment after run_at, before the claim: the old one", play: func(s *stage) {
			s.deploy(1)
			s.plan()
			s.at(minute + 10*time.Millisecond)
			s.deploy(2)
			s.plan()
			s.claim(0)
		}, want: []string{"12:01:00 w@1 schedule", "12:02:00 w@2 ahead"}},
		{name: "armed a second ahead, then changed: the old one", play: func(s *stage) {
			s.deploy(1)
			s.plan()
			s.at(minute - second)
			s.claim(second)
			s.deploy(2)
			s.plan()
			s.at(minute)
			s.claim(0)
		}, want: []string{"12:01:00 w@1 schedule"}},
		{name: "changed between run_at and a later fire_at: the old one", play: func(s *stage) {
			s.deploy(1, moved(true))
			s.plan()
			s.at(minute + second)
			s.deploy(2, moved(true))
			s.plan()
			s.at(minute + 21*second)
			s.claim(0)
		}, want: []string{"12:01:00 w@1 schedule", "12:02:00 w@2 ahead"}},
		{name: "claimed at an earlier fire_at, then changed before run_at: the old one", play: func(s *stage) {
			s.deploy(1, moved(false))
			s.plan()
			s.at(minute - 5*second)
			s.claim(0)
			s.deploy(2, moved(false))
			s.plan()
			s.at(minute)
			s.claim(0)
		}, want: []string{"12:01:00 w@1 schedule", "12:02:00 w@2 ahead"}},
		{name: "not claimed at an earlier fire_at, then changed before run_at: the new one", play: func(s *stage) {
			s.deploy(1, moved(false))
			s.plan()
			s.at(minute - 5*second)
			s.deploy(2, moved(false))
			s.plan()
			s.at(minute)
			s.claim(0)
		}, want: []string{"12:01:00 w@2 schedule", "12:02:00 w@2 ahead"}},
		{name: "waiting in its queue: the one in force when it was due", play: func(s *stage) {
			s.deploy(1, queueing)
			s.plan()
			s.at(minute)
			s.claim(0)
			s.plan()
			s.at(2 * minute)
			s.claim(0) // 12:02 waits
			s.at(2*minute + 10*second)
			s.deploy(2, queueing)
			s.plan()
			s.at(3 * minute)
			s.claim(0) // and 12:03 after it
			s.end(schedule.StatusSuccess)
			s.claim(0)
			s.end(schedule.StatusSuccess)
			s.claim(0)
		}, want: []string{"12:01:00 w@1 schedule", "12:02:00 w@1 schedule", "12:03:00 w@2 schedule"}},
		{name: "missed and made up for: the one in force when it was due", play: func(s *stage) {
			s.deploy(1, catching)
			s.at(3*minute + 30*second) // nothing planned since
			s.deploy(2, catching)
			s.plan()
			s.claim(0)
		}, want: []string{"12:01:00 w@1 catchup", "12:02:00 w@1 catchup", "12:03:00 w@1 schedule", "12:04:00 w@2 ahead"}},
		{name: "late within the grace and never planned: the one in force when it was due", play: func(s *stage) {
			s.deploy(1)
			s.at(minute + 20*second)
			s.deploy(2)
			s.plan()
			s.claim(0)
		}, want: []string{"12:01:00 w@1 schedule", "12:02:00 w@2 ahead"}},
		{name: "changed and changed back: one run of the first", play: func(s *stage) {
			s.deploy(1)
			s.plan()
			s.at(10 * second)
			s.deploy(2)
			s.plan()
			s.at(20 * second)
			s.deploy(1)
			s.plan()
			s.at(minute)
			s.claim(0)
		}, want: []string{"12:01:00 w@1 schedule"}},
		{name: "changed while paused: the new one on resume", play: func(s *stage) {
			s.deploy(1)
			s.plan()
			s.at(10 * second)
			_, err := s.Pause(s.Context(), registrar.PauseInput{ScheduleID: "s"})
			s.must(err)
			s.deploy(2)
			s.at(20 * second)
			_, err = s.Resume(s.Context(), registrar.ResumeInput{ScheduleID: "s"})
			s.must(err)
			s.plan()
			s.at(minute)
			s.claim(0)
		}, want: []string{"12:01:00 w@2 schedule"}},
		{name: "a retry: the one of the run that it retries", play: func(s *stage) {
			s.deploy(1)
			s.plan()
			s.at(minute)
			s.claim(0)
			s.end(schedule.StatusFailed)
			s.at(minute + second)
			s.deploy(2)
			_, err := s.RetryRun(s.Context(), registrar.RetryInput{Key: schedule.SlotKey("s", noon.Add(minute))})
			s.must(err)
			s.claim(0)
		}, want: []string{"12:01:00 w@1 schedule", "12:01:00 w@1 retry"}},
		{name: "by hand: the one in force when it was asked for", play: func(s *stage) {
			trigger := func(id string) {
				_, err := s.Trigger(s.Context(), registrar.TriggerInput{ScheduleID: "s", RequestID: id, OverlapPolicy: schedule.OverlapAllow})
				s.must(err)
			}
			s.deploy(1, func(d *schedule.Definition) { d.CronExpr = "" })
			s.at(5 * second)
			trigger("one")
			s.at(6 * second)
			s.deploy(2, func(d *schedule.Definition) { d.CronExpr = "" })
			s.at(7 * second)
			trigger("two")
			s.claim(0)
		}, want: []string{"12:00:05 w@1 manual", "12:00:07 w@2 manual"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onStores(t, func(s *stage) {
				tt.play(s)
				got := s.versions()
				if !slices.Equal(sorted(got), sorted(tt.want)) {
					s.Errorf("runs\n%q, want\n%q", got, tt.want)
				}
			})
		})
	}
}

func sorted(words []string) []string { return slices.Sorted(slices.Values(words)) }
