package cronexpr_test

import (
	"slices"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule/cronexpr"
)

// decade names a zone and ten years in which its clock did something odd.
type decade struct {
	zone      string
	firstYear int
	why       string
}

var decades = []decade{
	{"UTC", 2019, "no change at all"},
	{"America/New_York", 2016, "the usual case"},
	{"America/New_York", 2036, "governed by the rule, past the table, with 31 December of leap years"},
	{"America/New_York", 2096, "across 2100, which is no leap year"},
	{"Europe/London", 2016, "offset zero in winter"},
	{"Europe/Dublin", 2016, "winter time is the negative exception"},
	{"Australia/Lord_Howe", 2016, "half an hour of daylight saving"},
	{"Australia/Lord_Howe", 2036, "half an hour, by rule"},
	{"America/St_Johns", 2004, "changes at 00:01 until 2011"},
	{"Asia/Kathmandu", 1980, "a single gap of 15 minutes at the New Year of 1986"},
	{"Africa/Casablanca", 2010, "four changes a year, around Ramadan"},
	{"Africa/Casablanca", 2080, "the end of its table"},
	{"Pacific/Apia", 2007, "30 December 2011 does not exist"},
	{"Pacific/Kwajalein", 1988, "21 August 1993 does not exist"},
	{"America/Sao_Paulo", 2010, "midnight gaps and midnight folds"},
	{"Asia/Tehran", 2014, "midnight gaps on dates of another calendar"},
	{"Antarctica/Troll", 2016, "jumps of two hours"},
	{"America/Havana", 2017, "midnight gap and 01:00 fold"},
	{"America/Santiago", 2015, "midnight changes in the south"},
	{"Atlantic/Azores", 2016, "midnight gap west of Greenwich"},
	{"Africa/Cairo", 2007, "interrupted summers"},
	{"Asia/Gaza", 2008, "interrupted summers, changes at 00:00 and 00:01"},
	{"Asia/Gaza", 2083, "the end of its table and the leap year 2088"},
	{"Europe/Moscow", 2006, "two changes of standard time"},
	{"America/Caracas", 2007, "half-hour shifts of standard time"},
	{"Asia/Pyongyang", 2012, "half-hour shifts, one of them at 23:30"},
	{"America/Nuuk", 2018, "changes on the evening before"},
	{"Antarctica/Casey", 2010, "shifts of three hours"},
}

var bruteForceExprs = []string{
	"* * * * *", "*/7 * * * *", "0 * * * *", "30 * * * *", "0 */2 * * *", "*/15 2 * * *", "*/30 1 * * *",
	"5/10 * * * SUN",
	"0 0 * * *", "30 0 * * *", "1 0 * * *", "15 2 * * *", "30 2 * * *", "45 1 * * *", "30 23 * * *", "0 3 * * *",
	"0-59 0-23 * * *", "0,30 0-3,22,23 * * *", "0/20 1,2 * * *", "59 0-23/2 * * 0-6", "0 2,3 L * *",
	"30 0,1,2 1,15W,LW * *", "15,45 0-2,23 * 3,4,9-11 SUNL,SUN#1,FRI", "0 0-23 */2 * 1-6/2", "0 12 29 2 *",
}

func TestSlotsAgreeWithBruteForceAroundEveryChange(t *testing.T) {
	t.Parallel()
	for _, d := range decades {
		t.Run(d.zone+"/"+time.Date(d.firstYear, 1, 1, 0, 0, 0, 0, time.UTC).Format("2006"), func(t *testing.T) {
			t.Parallel()
			loc := mustZone(t, d.zone)
			windows := windowsOf(loc, d.firstYear)
			for _, text := range bruteForceExprs {
				e, o := mustParse(t, text), newOracle(text)
				for _, dst := range []cronexpr.DST{cronexpr.Vixie, cronexpr.Literal} {
					tl := e.In(loc, dst)
					for _, w := range windows {
						got, want := firing(tl, w), o.slots(w, dst)
						if !slices.Equal(got, want) {
							t.Fatalf("%s (%s), %s, from %s:\n got%s\nwant%s", text, dst, d.why,
								time.Unix(w.from, 0).In(loc), show(loc, got), show(loc, want))
						}
					}
				}
			}
		})
	}
}

// windowsOf watches the clock from a day and a half before each change until a
// day and a half after, and over each leap year's end.
func windowsOf(loc *time.Location, firstYear int) []window {
	const reach = 36 * 3600
	from := time.Date(firstYear, time.January, 1, 0, 0, 0, 0, time.UTC)
	centres := changes(loc, from, from.AddDate(10, 0, 0))
	for year := firstYear; year < firstYear+10; year++ {
		if year%4 == 0 {
			centres = append(centres, time.Date(year+1, time.January, 1, 0, 0, 0, 0, time.UTC).Unix())
		}
	}
	var windows []window
	for _, centre := range centres {
		windows = append(windows, observe(loc, centre-reach, centre+reach, 60))
	}
	return windows
}

func TestSlotsBySecondAgreeWithBruteForce(t *testing.T) {
	t.Parallel()
	events := []struct{ zone, change, why string }{
		{"America/New_York", "2024-03-10T07:00:00Z", "gap"},
		{"America/New_York", "2024-11-03T06:00:00Z", "fold"},
		{"Australia/Lord_Howe", "2024-04-06T15:00:00Z", "half-hour fold"},
		{"Africa/Monrovia", "1972-01-07T00:44:30Z", "a gap of 44 minutes and 30 seconds"},
		{"America/Sao_Paulo", "2018-02-18T02:00:00Z", "fold into the day before"},
	}
	exprs := []string{
		"* * * * * *", "*/10 * * * * *", "30 */5 * * * *", "15,45 0-59 0-23 * * *", "0/15 30 0-23 * * *",
		"59 59 1,23 * * *", "10-20/3 0/20 * * * *",
	}
	for _, event := range events {
		loc := mustZone(t, event.zone)
		change, err := time.Parse(time.RFC3339, event.change)
		if err != nil {
			t.Fatal(err)
		}
		w := observe(loc, change.Unix()-2*3600, change.Unix()+3*3600, 1)
		for _, text := range exprs {
			o := newOracle(text)
			for _, dst := range []cronexpr.DST{cronexpr.Vixie, cronexpr.Literal} {
				got, want := firing(mustParse(t, text).In(loc, dst), w), o.slots(w, dst)
				if !slices.Equal(got, want) {
					t.Errorf("%s %s (%s), %s:\n got%s\nwant%s", event.zone, text, dst, event.why, show(loc, got), show(loc, want))
				}
			}
		}
	}
}
