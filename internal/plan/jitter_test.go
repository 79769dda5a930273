package plan_test

import (
	"crypto/sha256"
	"fmt"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
)

// expectedFireAt is the formula of docs/semantics.md with big integers and given neighbours:
// run_at − a + ⌊u·(a+b+1)/2^64⌋ ms, clamped.
func expectedFireAt(s *schedule.Schedule, prev, runAt, next time.Time) time.Time {
	if s.JitterMS == 0 {
		return runAt
	}
	half := func(d time.Duration) int64 { return min(int64(s.JitterMS), d.Milliseconds()/2) }
	a, b := int64(s.JitterMS), int64(s.JitterMS)
	if !prev.IsZero() {
		a = half(runAt.Sub(prev))
	}
	if !next.IsZero() {
		b = half(next.Sub(runAt))
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s:%d", s.ScheduleID, runAt.Unix()))
	drawn := new(big.Int).SetBytes(sum[:8])
	drawn.Mul(drawn, big.NewInt(a+b+1)).Rsh(drawn, 64)
	fireAt := time.UnixMilli(runAt.UnixMilli() - a + drawn.Int64()).UTC()
	for _, floor := range []time.Time{s.StartAt, s.CreatedAt, s.RevisedAt} {
		if fireAt.Before(floor) {
			fireAt = floor
		}
	}
	if !s.EndAt.IsZero() && fireAt.After(s.EndAt) {
		fireAt = s.EndAt
	}
	return fireAt
}

func TestJitterFollowsTheFormula(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		step := time.Duration(rapid.SampledFrom([]int64{1, 2, 7, 60, 600, 3600, 86_400}).Draw(t, "step")) * time.Second
		start := clock("12:00:00").Add(time.Duration(rapid.Int64Range(0, 100_000).Draw(t, "start")) * time.Second)
		last := rapid.IntRange(0, 30).Draw(t, "slots")
		s := scheduled(func(s *schedule.Schedule) {
			s.ScheduleID = rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "id")
			s.IntervalMS, s.StartAt = uint32(step.Milliseconds()), start
			s.JitterMS = rapid.Uint32Range(0, uint32(schedule.MaxJitter.Milliseconds())).Draw(t, "jitter")
			if rapid.Bool().Draw(t, "ends") {
				s.EndAt = start.Add(time.Duration(last) * step)
			}
			if rapid.Bool().Draw(t, "edited") {
				s.RevisedAt = start.Add(time.Duration(rapid.Int64Range(-3, 3).Draw(t, "revised")) * step / 2)
			}
		})
		tt, err := plan.NewTimetable(&s.Definition, s.CreatedAt, s.RevisedAt)
		if err != nil {
			t.Fatal(err)
		}
		var before time.Time
		for i := range last + 1 {
			runAt := start.Add(time.Duration(i) * step)
			got := tt.Slot(runAt).FireAt
			if want := expectedFireAt(&s, runAt.Add(-step), runAt, runAt.Add(step)); !got.Equal(want) {
				t.Fatalf("slot %d of %s with jitter %d ms: got %s, want %s", i, step, s.JitterMS, clockText(got), clockText(want))
			}
			if got.Before(before) {
				t.Fatalf("slot %d fires at %s, before the slot before it (%s)", i, clockText(got), clockText(before))
			}
			before = got
		}
	})
}

// TestJitterOfUnevenSlots uses a cron expression with uneven distances: minutes 0, 1 and 30 of
// every hour.
func TestJitterOfUnevenSlots(t *testing.T) {
	t.Parallel()
	s := scheduled(func(s *schedule.Schedule) { s.CronExpr = "0,1,30 * * * *" })
	var slots []time.Time
	for at := clock("10:00:00"); at.Before(clock("18:00:00")); at = at.Add(time.Minute) {
		if m := at.Minute(); m == 0 || m == 1 || m == 30 {
			slots = append(slots, at)
		}
	}
	for _, jitter := range []uint32{1, 29_999, 30_000, 30_001, 600_000, 3_600_000} {
		s.JitterMS = jitter
		tt, err := plan.NewTimetable(&s.Definition, s.CreatedAt, s.RevisedAt)
		if err != nil {
			t.Fatal(err)
		}
		for i := 1; i < len(slots)-1; i++ {
			got, want := tt.Slot(slots[i]).FireAt, expectedFireAt(&s, slots[i-1], slots[i], slots[i+1])
			if !got.Equal(want) {
				t.Errorf("jitter %d ms, slot %s: got %s, want %s", jitter, clockText(slots[i]), clockText(got), clockText(want))
			}
		}
	}
}

func TestJitterIsClampedToTheWindow(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name         string
		change       func(*schedule.Schedule)
		never, later string // fire_at is never before `never`, never after `later`
		exactly      bool   // some slot is exactly at the clamp
	}{
		{
			name: "never before start_at", never: "12:00:00", exactly: true,
			change: func(s *schedule.Schedule) { s.StartAt = clock("12:00:00") },
		},
		{
			name: "never before the schedule was created", never: "11:59:59.25", exactly: true,
			change: func(s *schedule.Schedule) { s.CreatedAt = clock("11:59:59.25") },
		},
		{
			name: "never before the revision was made", never: "11:59:58", exactly: true,
			change: func(s *schedule.Schedule) { s.RevisedAt = clock("11:59:58") },
		},
		{
			name: "never after end_at", never: "11:30:00", later: "12:00:00", exactly: true,
			change: func(s *schedule.Schedule) { s.EndAt = clock("12:00:00") },
		},
		{
			name: "free on both sides where nothing is near", never: "11:30:00", later: "12:30:00",
			change: func(*schedule.Schedule) {},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			atClamp := 0
			for i := range 200 { // the offset depends on the id
				tt := timetable(func(s *schedule.Schedule) {
					s.CronExpr, s.JitterMS, s.ScheduleID = "0 * * * *", 1_800_000, fmt.Sprint("s", i)
					c.change(s)
				})
				fireAt := tt.Slot(clock("12:00:00")).FireAt
				if fireAt.Before(clock(c.never)) || c.later != "" && fireAt.After(clock(c.later)) {
					t.Fatalf("id s%d fires at %s", i, clockText(fireAt))
				}
				if fireAt.Equal(clock(c.never)) || c.later != "" && fireAt.Equal(clock(c.later)) {
					atClamp++
				}
			}
			if c.exactly != (atClamp > 50) { // about every second offset points past the clamp
				t.Errorf("%d of 200 slots stand at the clamp", atClamp)
			}
		})
	}
}

func TestJitterOfASingleSlotReachesTheWholeJitter(t *testing.T) {
	t.Parallel()
	s := scheduled(func(s *schedule.Schedule) { s.OnceAt, s.JitterMS = clock("12:00:00"), 5000 })
	tt, err := plan.NewTimetable(&s.Definition, s.CreatedAt, s.RevisedAt)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tt.Slot(s.OnceAt).FireAt, expectedFireAt(&s, time.Time{}, s.OnceAt, time.Time{}); !got.Equal(want) {
		t.Errorf("got %s, want %s", clockText(got), clockText(want))
	}
}

// TestJitterIsUniform counts 20,000 slots of a minutely schedule in 20 cells.
// Chi-square with 19 degrees of freedom exceeds 43.8 once in a thousand; the
// slots are fixed, so the test is too.
func TestJitterIsUniform(t *testing.T) {
	t.Parallel()
	const slots, cells = 20_000, 20
	tt := timetable(func(s *schedule.Schedule) { s.IntervalMS, s.StartAt, s.JitterMS = 60_000, clock("12:00:00"), 10_000 })
	var count [cells]int
	for i := 1; i <= slots; i++ {
		runAt := clock("12:00:00").Add(time.Duration(i) * time.Minute)
		offset := tt.Slot(runAt).FireAt.Sub(runAt).Milliseconds() // -10,000 to 10,000
		count[min(cells-1, int(offset+10_000)*cells/20_001)]++
	}
	chi := 0.0
	for _, n := range count {
		d := float64(n) - slots/cells
		chi += d * d / (slots / cells)
	}
	if chi > 43.8 {
		t.Errorf("chi-square is %.1f: %v", chi, count)
	}
}

// TestJitterNeverChangesBetweenVersions pins two offsets: a worker of another version must not
// move a slot. The keys are sha256 of "invoices:1780315200" and "invoices:1780318800", computed
// outside this program.
func TestJitterNeverChangesBetweenVersions(t *testing.T) {
	t.Parallel()
	tt := timetable(func(s *schedule.Schedule) { s.ScheduleID, s.CronExpr, s.JitterMS = "invoices", "0 * * * *", 300_000 })
	for runAt, want := range map[string]string{"12:00:00": "12:03:40.314", "13:00:00": "13:04:05.011"} {
		if got := clockText(tt.Slot(clock(runAt)).FireAt); got != want {
			t.Errorf("slot %s fires at %s, want %s", runAt, got, want)
		}
	}
}
