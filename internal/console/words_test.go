package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/console"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
)

func TestEveryReasonHasASentence(t *testing.T) {
	for _, reason := range schedule.Reasons {
		if words := console.ReasonWords(string(reason)); !strings.HasSuffix(words, ".") {
			t.Errorf("%s is %q in words", reason, words)
		}
	}
}

func TestLengthsAreShort(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0 µs": 0, "900 µs": 900 * time.Microsecond, "12 ms": 12 * time.Millisecond, "1.5 s": 1500 * time.Millisecond, "4 s": 4 * time.Second,
		"59 s": 59*time.Second + 900*time.Millisecond, "1 min": time.Minute, "7 min 28 s": 448 * time.Second, "2 h": 2 * time.Hour, "3 d 1 h": 73 * time.Hour, "111 d": 111 * 24 * time.Hour,
	} {
		if got := console.Brief(d); got != want {
			t.Errorf("%s is %q, want %q", d, got, want)
		}
	}
}

func TestAnInstantIsShownAsItsReaderHasIt(t *testing.T) {
	paris, err := cronexpr.LoadLocation("Europe/Paris")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 21, 22, 30, 0, 0, time.UTC) // 23:30 in Paris
	for _, test := range []struct {
		name                        string
		at                          time.Time
		text, slot, relative, title string
	}{
		{"today", now.Add(10 * time.Minute), "23:40:00", "23:40", "in 10 min", "Sat 2026-11-21 23:40:00 +01:00 Europe/Paris · Sat 2026-11-21 22:40:00 UTC"},
		{"tomorrow there, today in UTC", now.Add(time.Hour), "Sun 22 Nov 00:30:00", "Sun 22 Nov 00:30", "in 1 h", "Sun 2026-11-22 00:30:00 +01:00 Europe/Paris · Sat 2026-11-21 23:30:00 UTC"},
		{"with seconds, in another year", now.AddDate(-1, 0, 0).Add(5 * time.Second), "21 Nov 2025 23:30:05", "21 Nov 2025 23:30:05", "364 d ago", "Fri 2025-11-21 23:30:05 +01:00 Europe/Paris · Fri 2025-11-21 22:30:05 UTC"},
	} {
		text, slot, relative, title := console.TextOf(test.at, now, paris)
		if text != test.text || slot != test.slot || relative != test.relative || title != test.title {
			t.Errorf("%s: %q, %q, %q, %q", test.name, text, slot, relative, title)
		}
	}
}

func TestAReadingIsTakenAsTheClockOfItsZoneShowsIt(t *testing.T) {
	for _, test := range []struct{ text, zone, want string }{
		{"2026-03-08T01:30", "America/New_York", "2026-03-08T06:30:00Z"},
		{"2026-03-08 03:30:10", "America/New_York", "2026-03-08T07:30:10Z"},
		{"2026-03-08T02:30", "America/New_York", "does not exist in"},
		{"2026-03-08T02:30:00Z", "America/New_York", "2026-03-08T02:30:00Z"},
		{"2026-03-08T02:30:00-05:00", "UTC", "2026-03-08T07:30:00Z"},
		{"2026-03-08", "Europe/Berlin", "2026-03-07T23:00:00Z"},
		{"then", "UTC", "is not a date and time"},
	} {
		at, problem := console.ReadingIn(test.text, test.zone)
		if got := at.UTC().Format(time.RFC3339); problem == "" && got != test.want || problem != "" && !strings.Contains(problem, test.want) {
			t.Errorf("%s in %s is %s, %q; want %s", test.text, test.zone, got, problem, test.want)
		}
	}
}
