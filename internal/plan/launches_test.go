package plan_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
)

func timetableOf(t testing.TB, s *schedule.Schedule) *plan.Timetable {
	t.Helper()
	tt, err := plan.NewTimetable(&s.Definition, s.CreatedAt, s.RevisedAt)
	if err != nil {
		t.Fatal(err)
	}
	return tt
}

// The oracle is the preview, for any rule, jitter and window.
func TestLaunchesAreTheFiresOfThePreview(t *testing.T) {
	rules := []func(*schedule.Schedule){
		func(s *schedule.Schedule) { s.CronExpr = "*/7 * * * *" },
		func(s *schedule.Schedule) { s.CronExpr = "0 30 2 * * *" },
		func(s *schedule.Schedule) { s.CronExpr = "*/20 * * * * *" },
		func(s *schedule.Schedule) { s.CronExpr, s.IntervalMS = "", 90_000 },
		func(s *schedule.Schedule) { s.CronExpr, s.OnceAt = "", clock("12:10:00") },
		func(s *schedule.Schedule) { s.CronExpr, s.EndAt = "* * * * *", clock("12:31:00") },
		func(s *schedule.Schedule) { s.CronExpr, s.StartAt = "* * * * *", clock("12:07:00") },
	}
	rapid.Check(t, func(t *rapid.T) {
		s := scheduled(func(s *schedule.Schedule) {
			s.Timezone = rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "America/New_York"}).Draw(t, "zone")
			s.CreatedAt = clock("12:00:00").AddDate(-1, 0, 0)
			s.RevisedAt = s.CreatedAt
		})
		rapid.SampledFrom(rules).Draw(t, "rule")(&s)
		s.JitterMS = uint32(rapid.SampledFrom([]int{0, 1500, 30_000, 600_000, 3_600_000}).Draw(t, "jitter"))
		tt, err := plan.NewTimetable(&s.Definition, s.CreatedAt, s.RevisedAt)
		if err != nil {
			t.Fatal(err)
		}
		from := clock("12:00:00").Add(time.Duration(rapid.IntRange(0, 3_600_000).Draw(t, "from")) * time.Millisecond)
		until := from.Add(time.Duration(rapid.IntRange(1, 86_400_000).Draw(t, "span")) * time.Millisecond)
		var want []time.Time
		for _, slot := range tt.Preview(from.Add(-2*time.Hour), until.Add(2*time.Hour), 20_000) {
			if !slot.FireAt.Before(from) && slot.FireAt.Before(until) {
				want = append(want, slot.FireAt)
			}
		}
		got := slices.Collect(plan.Load{Timetable: tt}.Launches(from, until))
		if !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Fatalf("%d launches in [%s, %s), the preview has %d\n%v\n%v", len(got), from, until, len(want), got, want)
		}
	})
}

func TestAPauseThatEndsLetsNothingFireBeforeItsEnd(t *testing.T) {
	t.Parallel()
	s := scheduled(func(s *schedule.Schedule) { s.CronExpr, s.JitterMS = "* * * * *", 30_000 })
	resumed := clock("12:10:00")
	load := plan.Load{Timetable: timetableOf(t, &s), After: resumed.Add(-time.Second)}
	got := slices.Collect(load.Launches(clock("12:00:00"), clock("12:20:00")))
	if len(got) < 9 || len(got) > 11 || got[0].Before(resumed) {
		t.Errorf("launches are %v, want one a minute and none before %s", got, resumed)
	}
}

// burstAt are schedules that all fire daily at one minute.
func burstAt(t testing.TB, n int, expression string) (members []plan.Member) {
	t.Helper()
	for i := range n {
		s := scheduled(func(s *schedule.Schedule) { s.ScheduleID, s.CronExpr = fmt.Sprintf("nightly-%03d", i), expression })
		members = append(members, plan.Member{Schedule: &s, Load: plan.Load{Timetable: timetableOf(t, &s)}})
	}
	return members
}

func TestFlattenPredictsThePeak(t *testing.T) {
	t.Parallel()
	from := clock("12:00:00")
	until := from.Add(24 * time.Hour)
	members := burstAt(t, 120, "0 2 * * *")
	counts := plan.NewMinutes(from, until)
	for _, m := range members {
		counts.Add(m.Load, from, until, 1)
	}
	if at, n := counts.Busiest(); n != 120 || !counts.At(at).Equal(clock("12:00:00").Add(14*time.Hour)) {
		t.Fatalf("the busiest minute has %d launches at %s, want 120 at 02:00", n, counts.At(at))
	}
	found := plan.Flatten(counts, members, from, until)
	if len(found) != 2 {
		t.Fatalf("found %+v, want a jitter and other minutes", found)
	}
	if f := found[0]; f.Jitter != 0 || f.Peak != 2 || len(f.Moves) != 118 {
		t.Errorf("%d moves make the peak %d, want 118 that make it 2: 120 in an hour", len(f.Moves), f.Peak)
	}
	f := found[1]
	if f.Jitter < 10*time.Minute || f.Peak >= 15 || len(f.Members) != 120 {
		t.Errorf("jitter %s of %d makes the peak %d, want ten minutes or more of all", f.Jitter, len(f.Members), f.Peak)
	}
	// The oracle: the same schedules, changed, and counted by their previews.
	minutes := make(map[time.Time]int)
	for _, m := range members {
		s := *m.Schedule
		s.JitterMS = uint32(f.Jitter.Milliseconds())
		for _, slot := range timetableOf(t, &s).Preview(from, until, 10) {
			minutes[slot.FireAt.Truncate(time.Minute)]++
		}
	}
	most := 0
	for _, n := range minutes {
		most = max(most, n)
	}
	if most != f.Peak || minutes[f.PeakAt] != most {
		t.Errorf("with jitter %s the busiest minute has %d launches, it said %d at %s", f.Jitter, most, f.Peak, f.PeakAt)
	}
}

// A launch that moves past the end of the day launches at its beginning.
func TestFlattenGoesByTheWholeDayWhereverTheWindowEnds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		from        time.Time
		span        time.Duration
		moves, peak int
	}{
		{name: "a day that ends at 02:20", from: clock("02:20:00"), span: 24 * time.Hour, moves: 118, peak: 2},
		{name: "a day that ends at 02:00 and half a minute", from: clock("02:00:30"), span: 24 * time.Hour, moves: 118, peak: 2},
		{name: "a day that begins at 02:00", from: clock("02:00:00").Add(24 * time.Hour), span: 24 * time.Hour, moves: 118, peak: 2},
		{name: "a day less half a second", from: clock("02:20:00"), span: 24*time.Hour - 500*time.Millisecond, moves: 118, peak: 2},
		{name: "three days", from: clock("02:20:00"), span: 72 * time.Hour, moves: 118, peak: 2},
		{name: "six hours, twenty minutes before they end", from: clock("20:20:00"), span: 6 * time.Hour, moves: 114, peak: 6},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			until := test.from.Add(test.span)
			members := burstAt(t, 120, "0 2 * * *")
			counts := plan.NewMinutes(test.from, until)
			for _, m := range members {
				counts.Add(m.Load, test.from, until, 1)
			}
			found := plan.Flatten(counts, members, test.from, until)
			i := slices.IndexFunc(found, func(f plan.Flattening) bool { return f.Jitter == 0 })
			if i < 0 {
				t.Fatalf("found %+v, want other minutes", found)
			}
			if f := found[i]; len(f.Moves) != test.moves || f.Peak != test.peak {
				t.Errorf("%d moves make the peak %d, want %d that make it %d", len(f.Moves), f.Peak, test.moves, test.peak)
			}
			// The oracle: over a week of the moved rules no minute has more.
			moved := make(map[string]string)
			for _, m := range found[i].Moves {
				moved[m.Schedule.ScheduleID] = m.CronExpr
			}
			minutes := make(map[time.Time]int)
			for _, m := range members {
				s := *m.Schedule
				s.CronExpr = cmp.Or(moved[s.ScheduleID], s.CronExpr)
				for _, slot := range timetableOf(t, &s).Preview(test.from, test.from.Add(7*24*time.Hour), 10) {
					minutes[slot.FireAt]++
				}
			}
			for at, n := range minutes {
				if n > test.peak {
					t.Fatalf("with the moves %d launch at %s, want at most %d", n, at, test.peak)
				}
			}
		})
	}
}

func TestFlattenOffersNothingThatDoesNotHelp(t *testing.T) {
	t.Parallel()
	from := clock("12:00:00")
	until := from.Add(time.Hour)
	members := burstAt(t, 30, "* * * * *")
	counts := plan.NewMinutes(from, until)
	for _, m := range members {
		counts.Add(m.Load, from, until, 1)
	}
	for _, f := range plan.Flatten(counts, members, from, until) {
		if f.Jitter == 0 || f.Peak >= 30 {
			t.Errorf("30 a minute are to become %d by %+v", f.Peak, f)
		}
	}
}

func offered(members []plan.Member) (found []plan.Flattening) {
	from := clock("12:00:00")
	until := from.Add(24 * time.Hour)
	counts := plan.NewMinutes(from, until)
	for _, m := range members {
		counts.Add(m.Load, from, until, 1)
	}
	return plan.Flatten(counts, members, from, until)
}

func TestFlattenOffersNothingThatSavesNextToNothing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name           string
		often, inBurst int // schedules that launch every minute, and at 02:00
		peak           int // peak after the best change; 0: no change is offered
	}{
		{name: "two in one minute are no peak", inBurst: 2},
		{name: "three in one minute are two more than need be", inBurst: 3, peak: 1},
		{name: "seven of a hundred are less than a tenth", often: 92, inBurst: 8},
		{name: "eleven of a hundred and four are a tenth", often: 92, inBurst: 12, peak: 93},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			peak := 0
			if found := offered(append(burstAt(t, test.often, "* * * * *"), burstAt(t, test.inBurst, "0 2 * * *")...)); len(found) > 0 {
				peak = found[0].Peak
			}
			if peak != test.peak {
				t.Errorf("a change is offered that makes the peak %d, want %d (0: none)", peak, test.peak)
			}
		})
	}
}

// Pairs that launch elsewhere are no busier than the burst once it is spread.
func TestFlattenMovesOnlySchedulesOfTheBurst(t *testing.T) {
	t.Parallel()
	members := burstAt(t, 120, "0 2 * * *")
	for i, m := range append(append(burstAt(t, 2, "10 5 * * *"), burstAt(t, 2, "10 7 * * *")...), burstAt(t, 2, "10 9 * * *")...) {
		m.Schedule.ScheduleID = fmt.Sprint("a-pair-", i)
		members = append(members, m)
	}
	f := offered(members)[0]
	if f.Jitter != 0 || f.Peak != 2 || len(f.Moves) != 118 {
		t.Errorf("%d moves make the peak %d, want 118 that make it 2", len(f.Moves), f.Peak)
	}
	for _, m := range f.Moves {
		if m.Schedule.CronExpr != "0 2 * * *" {
			t.Errorf("%s is moved from %q to %q, where no more than two launch anyway", m.Schedule.ScheduleID, m.Schedule.CronExpr, m.CronExpr)
		}
	}
}

// BenchmarkForecast10000 measures a forecast without the store.
func BenchmarkForecast10000(b *testing.B) {
	now := clock("12:00:00")
	candidates := ordinary(10_000, now)
	b.ReportAllocs()
	for b.Loop() {
		counts := plan.NewMinutes(now, now.Add(24*time.Hour))
		for i := range candidates {
			load := plan.Load{Timetable: timetableOf(b, &candidates[i].Schedule)}
			counts.Add(load, now, now.Add(24*time.Hour), 1)
		}
	}
}
