package plan_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
)

// TestPlanningInStepsIsPlanningAtOnce: plan(a..b) + plan(b..c) = plan(a..c), if the steps are
// short enough that nothing is missed.
func TestPlanningInStepsIsPlanningAtOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		from := clock("12:00:00").Add(time.Duration(rapid.IntRange(0, 1_000_000).Draw(t, "from")) * time.Millisecond)
		r := drawRevision(t, from)
		s := schedule.Schedule{Definition: r.definition, Revision: 1, RevisedAt: from, CreatedAt: from, NextRunAt: from}
		cfg := plan.Config{Lookahead: 10 * time.Second, Grace: 5 * time.Second, Tick: time.Second, MaxCatchup: 1}
		longest := int((cfg.Lookahead + cfg.Grace).Milliseconds())

		now, stepwise := from, schedule.PlanDecision{NextRunAt: from}
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			step := decide(t, s, stepwise.NextRunAt, now, cfg)
			stepwise.Rows = append(stepwise.Rows, step.Rows...)
			stepwise.NextRunAt = step.NextRunAt
			now = now.Add(time.Duration(rapid.IntRange(0, longest).Draw(t, "ms")) * time.Millisecond)
		}
		last := decide(t, s, stepwise.NextRunAt, now, cfg)
		stepwise.Rows = append(stepwise.Rows, last.Rows...)

		whole := cfg
		whole.Lookahead += now.Sub(from)
		atOnce := decide(t, s, from, from, whole)
		if !slices.EqualFunc(stepwise.Rows, atOnce.Rows, sameRun) || !last.NextRunAt.Equal(atOnce.NextRunAt) {
			t.Fatalf("in steps %d rows up to %s\nat once %d rows up to %s", len(stepwise.Rows), clockText(last.NextRunAt), len(atOnce.Rows), clockText(atOnce.NextRunAt))
		}
		if !last.PlanAt.Equal(atOnce.PlanAt.Add(now.Sub(from))) && !atOnce.PlanAt.IsZero() {
			t.Fatalf("looks again at %s", clockText(last.PlanAt))
		}
	})
}

func TestTheSamePlanTwice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := clock("12:00:00")
		r := drawRevision(t, now)
		s := schedule.Schedule{Definition: r.definition, Revision: 1, RevisedAt: now, CreatedAt: now}
		cursor := now.Add(time.Duration(rapid.IntRange(1, 600).Draw(t, "cursor")) * time.Second)
		later := now.Add(time.Duration(rapid.IntRange(0, 1200).Draw(t, "now")) * time.Second)
		cfg := plan.Config{Lookahead: 10 * time.Second, Grace: 5 * time.Second, Tick: time.Second, MaxCatchup: 7}
		first, second := decide(t, s, cursor, later, cfg), decide(t, s, cursor, later, cfg)
		if !slices.EqualFunc(first.Rows, second.Rows, sameRun) || !slices.Equal(first.Events, second.Events) || first.Backlog != second.Backlog {
			t.Fatalf("first  %+v\nsecond %+v", first, second)
		}
	})
}

func TestPreviewsAgreeWithThePlanner(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := clock("12:00:00")
		r := drawRevision(t, now)
		s := schedule.Schedule{Definition: r.definition, Revision: 1, RevisedAt: now, CreatedAt: now}
		tt, err := plan.NewTimetable(&s.Definition, now, now)
		if err != nil {
			t.Fatal(err)
		}
		cfg := plan.Config{Lookahead: 10 * time.Minute, Grace: time.Second, Tick: time.Second, MaxCatchup: 1}
		first, _ := tt.Next(now)
		planned := decide(t, s, first, now, cfg).Rows
		shown := tt.Preview(now, now.Add(cfg.Lookahead+s.Jitter()), 10_000)
		same := func(row schedule.Run, slot plan.Slot) bool {
			return row.Key == slot.Key && row.RunAt.Equal(slot.RunAt) && row.FireAt.Equal(slot.FireAt)
		}
		if !slices.EqualFunc(planned, shown, same) {
			t.Fatalf("%d slots planned, %d shown", len(planned), len(shown))
		}
	})
}

func decide(t *rapid.T, s schedule.Schedule, cursor, now time.Time, cfg plan.Config) schedule.PlanDecision {
	s.NextRunAt = cursor
	d, err := plan.Decide(&schedule.PlanCandidate{Schedule: s}, now, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Every slot inside the lookahead has a row after each decision, and the final rows are the same
// for every stride.
func TestAStrideOnlyPlansEarlier(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		from := clock("12:00:00")
		r := drawRevision(t, from)
		s := schedule.Schedule{Definition: r.definition, Revision: 1, RevisedAt: from, CreatedAt: from, NextRunAt: from}
		near := plan.Config{Lookahead: 10 * time.Second, Grace: 5 * time.Second, Tick: time.Second, MaxCatchup: 1}
		far := near
		far.Stride = time.Duration(rapid.IntRange(1, 20).Draw(t, "stride")) * time.Second

		now, nearCursor, farCursor := from, from, from
		var nearRows, farRows []schedule.Run
		farPlanAt := from
		for range rapid.IntRange(1, 40).Draw(t, "looks") {
			d := decide(t, s, nearCursor, now, near)
			nearRows, nearCursor = append(nearRows, d.Rows...), d.NextRunAt
			if !farPlanAt.IsZero() && !farPlanAt.After(now) {
				d := decide(t, s, farCursor, now, far)
				farRows, farCursor, farPlanAt = append(farRows, d.Rows...), d.NextRunAt, d.PlanAt
			}
			if len(farRows) < len(nearRows) || !slices.EqualFunc(nearRows, farRows[:len(nearRows)], sameRun) {
				t.Fatalf("at %s %d rows with a stride of %s, %d without", clockText(now), len(farRows), far.Stride, len(nearRows))
			}
			if n := len(farRows); n > 0 && farRows[n-1].RunAt.After(now.Add(near.Lookahead+s.Jitter()+far.Stride)) {
				t.Fatalf("at %s a row of %s", clockText(now), clockText(farRows[n-1].RunAt))
			}
			now = now.Add(time.Second)
		}
	})
}

func TestADenseScheduleIsLookedAtOnceAStride(t *testing.T) {
	t.Parallel()
	now := clock("12:00:00")
	s := scheduled(func(s *schedule.Schedule) { s.IntervalMS = 1000 })
	s.NextRunAt = now
	d, err := plan.Decide(&schedule.PlanCandidate{Schedule: s}, now, plan.Config{Lookahead: time.Minute, Stride: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	again := d.PlanAt.Sub(now)
	if again <= 15*time.Second || again > 31*time.Second || d.PlanAt != now.Add(time.Duration(len(d.Rows)-60)*time.Second) {
		t.Errorf("%d rows, looked at again after %s; want between half a stride and a stride", len(d.Rows), again)
	}
}

func TestSlotsBeyondMaxRowsAreDueAtOnce(t *testing.T) {
	t.Parallel()
	now := clock("12:00:00")
	s := scheduled(func(s *schedule.Schedule) { s.IntervalMS = 1000 })
	s.NextRunAt = now
	cfg := plan.Config{Lookahead: time.Minute, MaxRows: 25}
	for look, want := range []int{25, 25, 11, 0} {
		d, err := plan.Decide(&schedule.PlanCandidate{Schedule: s}, now, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if done := d.PlanAt.After(now); len(d.Rows) != want || done != (want < 25) {
			t.Errorf("look %d: %d rows, want %d; looked at again at %s", look, len(d.Rows), want, clockText(d.PlanAt))
		}
		for i := range d.Rows {
			if at := s.NextRunAt.Add(time.Duration(i) * time.Second); !d.Rows[i].RunAt.Equal(at) {
				t.Errorf("look %d: row %d is of %s, want %s", look, i, clockText(d.Rows[i].RunAt), clockText(at))
			}
		}
		s.NextRunAt = d.NextRunAt
	}
}

// Otherwise thousands of schedules registered together would always be planned together.
func TestSchedulesPlannedTogetherDriftApart(t *testing.T) {
	t.Parallel()
	const schedules = 3000
	now := clock("12:00:00")
	looks := make(map[time.Duration]int)
	for i := range schedules {
		s := scheduled(func(s *schedule.Schedule) { s.ScheduleID, s.IntervalMS = fmt.Sprintf("s-%d", i), 1000 })
		s.NextRunAt = now
		d, err := plan.Decide(&schedule.PlanCandidate{Schedule: s}, now, plan.Config{Lookahead: time.Minute, Stride: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		looks[d.PlanAt.Sub(now)]++
	}
	for after, n := range looks {
		if n > schedules/15*2 {
			t.Errorf("%d of %d are looked at together, %s later", n, schedules, after)
		}
	}
}
