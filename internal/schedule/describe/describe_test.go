package describe_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
	"github.com/carillon/carillon/internal/schedule/describe"
)

func TestCronInWords(t *testing.T) {
	for _, tt := range []struct{ expr, want string }{
		{"* * * * *", "every minute"},
		{"*/5 * * * *", "every 5 minutes"},
		{"*/7 * * * *", "at minutes 0 and every 7th after of every hour"},
		{"0 * * * *", "every hour on the hour"},
		{"@hourly", "every hour on the hour"},
		{"30 * * * *", "at minute 30 of every hour"},
		{"0,30 * * * *", "at minutes 0 and 30 of every hour"},
		{"30 2 * * *", "at 02:30 every day"},
		{"@daily", "at 00:00 every day"},
		{"0 9,17 * * *", "at 09:00 and 17:00 every day"},
		{"30 5 2 * * *", "at 02:05:30 every day"},
		{"*/10 * * * * *", "every 10 seconds"},
		{"* * * * * *", "every second"},
		{"15 * * * * *", "at second 15 of every minute"},
		{"*/15 9-17 * * MON-FRI", "every 15 minutes from 09:00 to 17:59 on Monday to Friday"},
		{"0 */2 * * *", "at minute 0 of every 2nd hour, from 00:00 on"},
		{"0 9 * * 1-5", "at 09:00 on Monday to Friday"},
		{"0 9 * * 7", "at 09:00 on every Sunday"},
		{"0 9 * * MON,THU", "at 09:00 on every Monday and every Thursday"},
		{"0 0 1,15 * MON", "at 00:00 on the 1st and the 15th of the month and on every Monday"},
		{"0 0 */2 * MON", "at 00:00 on every 2nd day from the 1st of the month if that is Monday"},
		{"0 0 L * *", "at 00:00 on the last day of the month"},
		{"0 0 LW * *", "at 00:00 on the last weekday of the month"},
		{"0 0 15W * *", "at 00:00 on the weekday nearest to the 15th of the month"},
		{"0 0 * * 5L", "at 00:00 on the last Friday of the month"},
		{"0 0 ? * TUE#2", "at 00:00 on the 2nd Tuesday of the month"},
		{"0 0 1 1 *", "at 00:00 on the 1st of the month in January"},
		{"0 0 * MAR-MAY,DEC *", "at 00:00 every day in March to May and December"},
		{"0 0 1 */3 *", "at 00:00 on the 1st of the month in every 3rd month from January"},
		{"not cron", "not cron"},
	} {
		t.Run(tt.expr, func(t *testing.T) {
			if got := describe.Cron(tt.expr); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestSpecInWords(t *testing.T) {
	noon := time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name string
		d    schedule.Definition
		want string
	}{
		{"a cron rule with all there is", schedule.Definition{
			CronExpr: "30 2 * * *", Timezone: "America/New_York", JitterMS: 90_000, StartAt: noon, EndAt: noon.AddDate(0, 0, 7),
		}, "at 02:30 every day, America/New_York time, moved by up to 1 minute 30 seconds either way, from 2026-03-08T12:00:00Z, until 2026-03-15T12:00:00Z"},
		{"an interval", schedule.Definition{IntervalMS: 5_400_000, Timezone: "UTC"}, "every 1 hour 30 minutes, in real time"},
		{"a single instant", schedule.Definition{OnceAt: noon, Timezone: "UTC"}, "once, at 2026-03-08T12:00:00Z"},
		{"a consumer", schedule.Definition{Timezone: "UTC", Consume: schedule.Consume{Topics: []string{"orders", "bills.*"}}}, "on events of orders, bills.*"},
		{"no rule", schedule.Definition{Timezone: "UTC"}, "by hand only"},
		{"a consumer", schedule.Definition{Timezone: "UTC", Consume: schedule.Consume{Topics: []string{"orders", "refunds.*"}}}, "on events of orders, refunds.*"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := describe.Spec(&tt.d); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestSpansInWords(t *testing.T) {
	for _, tt := range []struct {
		d    time.Duration
		want string
	}{
		{0, "no time"},
		{time.Microsecond, "under a millisecond"},
		{time.Millisecond, "1 millisecond"},
		{1500 * time.Millisecond, "1.5 seconds"},
		{time.Second, "1 second"},
		{61 * time.Second, "1 minute 1 second"},
		{24*time.Hour + 3*time.Second, "1 day"},
		{49 * time.Hour, "2 days 1 hour"},
		{-time.Minute, "minus 1 minute"},
	} {
		if got := describe.Span(tt.d); got != tt.want {
			t.Errorf("%s is %q, want %q", tt.d, got, tt.want)
		}
	}
}

func TestMismatchNamesTheFieldsThatDoNotMatch(t *testing.T) {
	sunday := time.Date(2026, 3, 8, 12, 7, 0, 0, time.UTC)
	for _, tt := range []struct {
		expr string
		want []string
	}{
		{"7 12 * * *", nil},
		{"*/5 12 * * *", []string{"minute 7 does not match */5"}},
		{"7 13 * 4 *", []string{"March does not match 4", "hour 12 does not match 13"}},
		{"7 12 * * MON-FRI", []string{"the 8th, a Sunday, does not match day of month * and day of week MON-FRI"}},
		{"30 7 12 * * *", []string{"second 0 does not match 30"}},
	} {
		if diff := cmp.Diff(tt.want, describe.Mismatch(tt.expr, sunday)); diff != "" {
			t.Errorf("%s: %s", tt.expr, diff)
		}
	}
}

// Whatever the grammar takes has words, and a slot never has a mismatch.
func FuzzEveryExpressionHasWords(f *testing.F) {
	for _, seed := range []string{"30 2 * * *", "*/5 9-17 1,15 JAN-MAR MON#2", "0 0 L * ?", "1-9/3 * * 3/2 */2 5L", "@weekly", "0 59 23 LW 12 SUN"} {
		f.Add(seed)
	}
	after := time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, expr string) {
		parsed, err := cronexpr.Parse(expr)
		if err != nil {
			return
		}
		if words := describe.Cron(expr); words == "" || words == expr || strings.Contains(words, "  ") {
			t.Errorf("%q in words is %q", expr, words)
		}
		if slot, ok := parsed.In(time.UTC, cronexpr.Literal).Next(after); ok {
			if wrong := describe.Mismatch(expr, slot); len(wrong) > 0 {
				t.Errorf("%q has a slot at %s, of which it is said that %v", expr, slot, wrong)
			}
		}
	})
}
