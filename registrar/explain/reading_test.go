package explain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/explain"
)

func shown(text string) time.Time {
	t, ok := explain.ParseReading(text)
	if !ok {
		panic(text)
	}
	return t
}

// The instants are those of the zone data, worked out by hand.
func TestReadingsAreWhenTheClockShowsThem(t *testing.T) {
	for _, tt := range []struct {
		name, zone, shown, first, second string
		from, to                         string // of a gap
	}{
		{name: "a time like any other", zone: "America/New_York", shown: "2026-03-07T02:30", first: "2026-03-07T07:30:00Z"},
		{name: "the last second before a gap", zone: "America/New_York", shown: "2026-03-08 01:59:59", first: "2026-03-08T06:59:59Z"},
		{name: "the first second of a gap", zone: "America/New_York", shown: "2026-03-08 02:00:00", first: "2026-03-08T07:00:00Z", from: "2026-03-08 02:00", to: "2026-03-08 03:00"},
		{name: "the last second of a gap", zone: "America/New_York", shown: "2026-03-08 02:59:59", first: "2026-03-08T07:00:00Z", from: "2026-03-08 02:00", to: "2026-03-08 03:00"},
		{name: "the first second after a gap", zone: "America/New_York", shown: "2026-03-08T03:00", first: "2026-03-08T07:00:00Z"},
		{name: "a time shown twice", zone: "America/New_York", shown: "2026-11-01T01:30", first: "2026-11-01T05:30:00Z", second: "2026-11-01T06:30:00Z"},
		{name: "the first second that is shown once again", zone: "America/New_York", shown: "2026-11-01T02:00", first: "2026-11-01T07:00:00Z"},
		{name: "east of UTC", zone: "Europe/Berlin", shown: "2026-10-25T02:30", first: "2026-10-25T00:30:00Z", second: "2026-10-25T01:30:00Z"},
		{name: "a gap of half an hour", zone: "Australia/Lord_Howe", shown: "2026-10-04T02:15", first: "2026-10-03T15:30:00Z", from: "2026-10-04 02:00", to: "2026-10-04 02:30"},
		{name: "a fold of half an hour", zone: "Australia/Lord_Howe", shown: "2026-04-05T01:45", first: "2026-04-04T14:45:00Z", second: "2026-04-04T15:15:00Z"},
		{name: "a day that never was", zone: "Pacific/Apia", shown: "2011-12-30T12:00", first: "2011-12-30T10:00:00Z", from: "2011-12-30 00:00", to: "2011-12-31 00:00"},
		{name: "no changes at all", zone: "UTC", shown: "2026-03-08T02:30", first: "2026-03-08T02:30:00Z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := explain.ReadingOf(nightly(func(s *schedule.Schedule) { s.Timezone = tt.zone }).SlotFacts, shown(tt.shown))
			want := explain.Reading{Shown: shown(tt.shown), Zone: tt.zone, First: at(tt.first)}
			if tt.second != "" {
				want.Second = at(tt.second)
			}
			if tt.from != "" {
				want.From, want.To = shown(tt.from), shown(tt.to)
			}
			if r != want {
				t.Errorf("got  %+v\nwant %+v", r, want)
			}
		})
	}
}

func TestAReadingIsOfTheClockInForceThen(t *testing.T) {
	f := nightly()
	moved := f.Revisions[0]
	moved.Revision, moved.CreatedAt, moved.Definition.Timezone = 2, at("2026-03-05T00:00:00Z"), "Europe/Berlin"
	f.Schedule.Timezone = "Europe/Berlin"
	f.Revisions = append([]schedule.Revision{moved}, f.Revisions...)
	for before, want := range map[string]string{"2026-03-04T02:30": "2026-03-04T07:30:00Z", "2026-03-06T02:30": "2026-03-06T01:30:00Z"} {
		if r := explain.ReadingOf(f.SlotFacts, shown(before)); !r.First.Equal(at(want)) {
			t.Errorf("%s was at %s, want %s", before, r.First, want)
		}
	}
}

// read puts a reading in, as the registrar does.
func read(f explain.Facts, local string, edits ...func(*explain.Facts)) explain.Facts {
	r := explain.ReadingOf(f.SlotFacts, shown(local))
	f.Reading, f.Asked = &r, r.First
	for _, edit := range edits {
		edit(&f)
	}
	return f
}

func rule(edit func(*schedule.Schedule)) explain.Facts { return nightly(edit) }

func cron(expr string, dst schedule.DST) func(*schedule.Schedule) {
	return func(s *schedule.Schedule) { s.CronExpr, s.DST = expr, dst }
}

func TestTimesThatTheClockNeverShows(t *testing.T) {
	const gap = "2026-03-08 02:30:00 does not exist in America/New_York: at 2026-03-08T07:00:00Z the clock goes from 02:00:00 to 03:00:00"
	for _, tt := range []expectation{
		{
			name:    "a fixed time fired at the end of the gap",
			facts:   read(nightly(), "2026-03-08T02:30", row(ended(schedule.StatusSuccess, ""))),
			verdict: explain.VerdictRan,
			says:    []string{"The slot at 2026-03-08T03:00:00-04:00 EDT (in place of 02:30: the clock goes from 02:00 to 03:00) ran", gap, "runs once, at the end of the gap: this is that slot"},
		},
		{
			name:    "one that the end of the gap does not replace",
			facts:   read(nightly(), "2026-03-08T02:15", row(ended(schedule.StatusSuccess, ""))),
			verdict: explain.VerdictNotASlot, why: explain.WhyGap,
			says: []string{`and it does not match "30 2 * * *": minute 15 does not match 30`, "The slot after is 2026-03-08T03:00:00-04:00 EDT (in place of 02:30"},
		},
		{
			name:    "a literal rule",
			facts:   read(rule(cron("30 2 * * *", schedule.DSTLiteral)), "2026-03-08T02:30"),
			verdict: explain.VerdictNotASlot, why: explain.WhyGap,
			says: []string{"No slot: " + strings.Replace(gap, "The", "the", 1), "dst: literal skips", "The slot before is 2026-03-07T02:30:00-05:00 EST", "The slot after is 2026-03-09T02:30:00-04:00 EDT"},
		},
		{
			name:    "an expression that goes by the clock, though it has a slot at the end of the gap",
			facts:   read(rule(cron("*/30 * * * *", schedule.DSTVixie)), "2026-03-08T02:30", row(ended(schedule.StatusSuccess, ""))),
			verdict: explain.VerdictNotASlot, why: explain.WhyGap,
			says: []string{"follows the clock", "The slot before is 2026-03-08T01:30:00-05:00 EST", "The slot after is 2026-03-08T03:00:00-04:00 EDT"},
		},
		{
			name: "a day that never was",
			facts: read(rule(func(s *schedule.Schedule) {
				s.Timezone, s.CreatedAt, s.RevisedAt = "Pacific/Apia", at("2011-01-01T00:00:00Z"), at("2011-01-01T00:00:00Z")
			}), "2011-12-30T02:30", func(f *explain.Facts) {
				f.Revisions[0].CreatedAt, f.Events[0].Time = f.Schedule.CreatedAt, f.Schedule.CreatedAt
			}),
			verdict: explain.VerdictNotASlot, why: explain.WhyGap,
			says: []string{"the clock goes from 00:00:00 to 2011-12-31 00:00:00", "a gap of more than 3 hours are skipped"},
		},
		{
			name:    "an interval, which no clock governs",
			facts:   read(rule(func(s *schedule.Schedule) { s.CronExpr, s.IntervalMS = "", 3_600_000 }), "2026-03-08T02:30"),
			verdict: explain.VerdictNotASlot, why: explain.WhyGap,
			says: []string{"the slots are every 1 hour of real time, regardless of clock changes", "The slot after is 2026-03-08T03:00:00-04:00 EDT"},
		},
		{
			name:    "one that is started by hand",
			facts:   read(rule(func(s *schedule.Schedule) { s.CronExpr = "" }), "2026-03-08T02:30"),
			verdict: explain.VerdictNotASlot, why: explain.WhyByHand, says: []string{gap},
		},
		{
			name:    "before there was a schedule",
			facts:   read(nightly(), "2025-03-09T02:30"),
			verdict: explain.VerdictNoSchedule, why: explain.WhyNotCreated, says: []string{"2025-03-09 02:30:00 does not exist"},
		},
		{
			name:    "ahead of us",
			facts:   read(nightly(), "2027-03-14T02:30"),
			verdict: explain.VerdictWillFire, says: []string{"will fire at 2027-03-14T07:00:00Z", "this is that slot"},
		},
	} {
		t.Run(tt.name, tt.check)
	}
}

func TestTimesThatTheClockShowsTwice(t *testing.T) {
	f := read(rule(cron("30 1 * * *", schedule.DSTVixie)), "2026-11-01T01:30")
	a := explain.Derive(f)
	second := f
	second.Reading, second.Asked = nil, f.Reading.Second
	b := explain.Derive(second)
	a.Second = &b
	if a.Verdict != explain.VerdictWillFire || !a.At.Equal(at("2026-11-01T05:30:00Z")) || b.Why != explain.WhySecondPass {
		t.Errorf("the first is %s at %s, the second %s(%s)", a.Verdict, a.At, b.Verdict, b.Why)
	}
	for _, part := range []string{
		"2026-11-01 01:30:00 occurs twice in America/New_York: at 2026-11-01T05:30:00Z (this answer) and again at 2026-11-01T06:30:00Z",
		"The second time: No slot: the clock went back and this time occurs again",
	} {
		if !strings.Contains(a.String(), part) {
			t.Errorf("it does not say %q:\n%s", part, &a)
		}
	}
}
