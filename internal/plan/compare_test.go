package plan_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
)

// ruled is a timetable of schedule s, created long ago.
func ruled(t interface{ Fatal(...any) }, expr string, edits ...func(*schedule.Definition)) *plan.Timetable {
	d := schedule.Definition{ScheduleID: "s", CronExpr: expr, Timezone: "Europe/Berlin", DST: schedule.DSTVixie}
	for _, edit := range edits {
		edit(&d)
	}
	tt, err := plan.NewTimetable(&d, schedule.MinTime, schedule.MinTime)
	if err != nil {
		t.Fatal(err)
	}
	return tt
}

func jittered(ms uint32) func(*schedule.Definition) {
	return func(d *schedule.Definition) { d.JitterMS = ms }
}

// The oracle is two previews.
func TestCompareAgreesWithTwoPreviews(t *testing.T) {
	exprs := []string{"", "0 * * * *", "*/20 * * * *", "0,20 * * * *", "30 2 * * *", "0 0 1 1 *"}
	rapid.Check(t, func(rt *rapid.T) {
		now := time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 7200_000).Draw(rt, "now")) * time.Millisecond)
		c := plan.Comparison{Now: now, After: now, Until: now.Add(50 * time.Hour), Limit: 10_000, Shown: rapid.IntRange(0, 5).Draw(rt, "shown")}
		draw := func(name string) *plan.Timetable {
			expr := rapid.SampledFrom(exprs).Draw(rt, name)
			if expr == "" {
				return nil
			}
			return ruled(rt, expr, jittered(rapid.SampledFrom([]uint32{0, 0, 60_000, 3_600_000}).Draw(rt, name+" jitter")))
		}
		before, after := draw("before"), draw("after")
		fires := func(tt *plan.Timetable) map[time.Time]time.Time {
			out := make(map[time.Time]time.Time)
			if tt != nil {
				for _, s := range tt.Preview(c.After, c.Until, 10_000) {
					out[s.RunAt] = s.FireAt
				}
			}
			return out
		}
		old, next := fires(before), fires(after)
		added, removed := 0, 0
		for at, fire := range old {
			if fire.After(now) && !next[at].Equal(fire) {
				removed++
			}
		}
		for at, fire := range next {
			was, there := old[at]
			launched := there && !was.After(now) || !there && before == nil && !fire.After(now)
			if !launched && !was.Equal(fire) {
				added++
			}
		}
		got := plan.Compare(before, after, c)
		if got.Added != added || got.Removed != removed || !got.Until.Equal(c.Until) {
			rt.Fatalf("%d come and %d go, want %d and %d", got.Added, got.Removed, added, removed)
		}
		if len(got.FirstAdded) != min(added, c.Shown) || len(got.FirstRemoved) != min(removed, c.Shown) {
			rt.Fatalf("%d and %d are shown of %d and %d", len(got.FirstAdded), len(got.FirstRemoved), added, removed)
		}
	})
}

func TestSameTimesIsTrueWhenNoFireMoves(t *testing.T) {
	base := schedule.Definition{ScheduleID: "s", CronExpr: "0 * * * *", Timezone: "UTC", DST: schedule.DSTVixie}
	for _, tt := range []struct {
		name string
		edit func(*schedule.Definition)
		same bool
	}{
		{name: "nothing", edit: func(*schedule.Definition) {}, same: true},
		{name: "the version", edit: func(d *schedule.Definition) { d.Version = 9 }, same: true},
		{name: "the expression", edit: func(d *schedule.Definition) { d.CronExpr = "1 * * * *" }},
		{name: "the zone", edit: func(d *schedule.Definition) { d.Timezone = "Europe/Berlin" }},
		{name: "the jitter", edit: func(d *schedule.Definition) { d.JitterMS = 1 }},
		{name: "the window", edit: func(d *schedule.Definition) { d.EndAt = schedule.MaxTime.Add(-time.Hour) }},
		{name: "the DST mode", edit: func(d *schedule.Definition) { d.DST = schedule.DSTLiteral }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			edited := base
			tt.edit(&edited)
			if plan.SameTimes(&base, &edited) != tt.same {
				t.Errorf("same times: %v", !tt.same)
			}
		})
	}
}

func TestBusiestCountsByTheMinuteOfTheLaunch(t *testing.T) {
	from := time.Date(2026, 3, 2, 12, 0, 30, 0, time.UTC)
	load := func(expr string, after time.Time, edits ...func(*schedule.Definition)) plan.Load {
		return plan.Load{Timetable: ruled(t, expr, edits...), After: after}
	}
	for _, tt := range []struct {
		name  string
		loads []plan.Load
		want  plan.Launches
	}{
		{name: "nothing", want: plan.Launches{}},
		{name: "one that fires hourly", loads: []plan.Load{load("0 * * * *", from)}, want: plan.Launches{Total: 24, Peak: 1, PeakAt: from.Add(59*time.Minute + 30*time.Second)}},
		{
			name: "two that meet at midnight", loads: []plan.Load{load("0 * * * *", from), load("0 0 * * *", from)},
			want: plan.Launches{Total: 25, Peak: 2, PeakAt: time.Date(2026, 3, 2, 23, 0, 0, 0, time.UTC)},
		},
		{name: "one that begins later", loads: []plan.Load{load("0 * * * *", from.Add(20*time.Hour))}, want: plan.Launches{Total: 4, Peak: 1, PeakAt: time.Date(2026, 3, 3, 9, 0, 0, 0, time.UTC)}},
		{name: "one that fires each second", loads: []plan.Load{load("* * * * * *", from)}, want: plan.Launches{Total: 86_400, Peak: 60, PeakAt: from.Add(30 * time.Second)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := plan.Busiest(tt.loads, from, from.Add(24*time.Hour), nil); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
	t.Run("jitter spreads what would meet", func(t *testing.T) {
		got := plan.Busiest([]plan.Load{load("0 * * * *", from, jittered(1_800_000))}, from, from.Add(24*time.Hour), nil)
		if got.Total < 23 || got.Total > 25 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("too many launches shorten the horizon", func(t *testing.T) {
		loads := []plan.Load{load("* * * * * *", from), load("* * * * * *", from)}
		if got := plan.Horizon(loads, from, from.Add(24*time.Hour), 50_000, nil); !got.Equal(from.Add(6 * time.Hour)) {
			t.Errorf("until %s", got)
		}
		if got := plan.Horizon(loads, from, from.Add(24*time.Hour), 1_000_000, nil); !got.Equal(from.Add(24 * time.Hour)) {
			t.Errorf("until %s", got)
		}
		if got := plan.Horizon(loads, from, from.Add(24*time.Hour), 1, nil); got.Sub(from) > time.Minute {
			t.Errorf("until %s", got)
		}
	})
}
