package render

import (
	"testing"
	"time"
)

func TestDistancesFromNow(t *testing.T) {
	now := time.Date(2026, time.March, 8, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name string
		off  time.Duration
		want string
	}{
		{name: "less than a second", off: 900 * time.Millisecond, want: "now"},
		{name: "a second back", off: -time.Second, want: "1s ago"},
		{name: "almost a minute", off: 59 * time.Second, want: "in 59s"},
		{name: "a minute, but for a moment", off: time.Minute - time.Millisecond, want: "in 1m"},
		{name: "two hours, asked a moment later", off: 2*time.Hour - 300*time.Millisecond, want: "in 2h"},
		{name: "a minute and a half", off: 89*time.Second + 600*time.Millisecond, want: "in 1m30s"},
		{name: "almost ten minutes", off: 10*time.Minute - time.Second, want: "in 9m59s"},
		{name: "a quarter of an hour and some", off: 15*time.Minute + 20*time.Second, want: "in 15m"},
		{name: "almost an hour", off: time.Hour - 20*time.Second, want: "in 1h"},
		{name: "89 minutes are not an hour", off: 89 * time.Minute, want: "in 1h29m"},
		{name: "nor are they when they are over", off: -89 * time.Minute, want: "1h29m ago"},
		{name: "almost two days", off: 47*time.Hour + 59*time.Minute, want: "in 47h59m"},
		{name: "two days, but for a moment", off: 2*24*time.Hour - time.Second, want: "in 2d"},
		{name: "a day and a half is in hours", off: 36 * time.Hour, want: "in 36h"},
		{name: "two days and three quarters", off: -66 * time.Hour, want: "2d18h ago"},
		{name: "a fortnight, to the day", off: 14*24*time.Hour + 5*time.Hour, want: "in 14d"},
		{name: "a long time", off: -800 * 24 * time.Hour, want: "2y70d ago"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := (&Page{Now: now}).Ago(now.Add(tt.off)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestSpansHaveNoIdleUnits(t *testing.T) {
	for ms, want := range map[uint32]string{0: "0s", 250: "250ms", 5000: "5s", 90_000: "1m30s", 3_600_000: "1h", 5_400_000: "1h30m", 3_605_000: "1h0m5s", 600_000: "10m", 86_400_000: "24h"} {
		if got := Millis(ms); got != want {
			t.Errorf("%d: got %q, want %q", ms, got, want)
		}
	}
}

func TestColumnsAreAsWideAsATerminalShowsThem(t *testing.T) {
	for _, tt := range []struct {
		name  string
		color bool
		head  []string
		rows  [][]string
		want  string
	}{
		{name: "each column is as wide as its widest cell", head: []string{"id", "status"}, rows: [][]string{{"a", "RUNNING"}, {"a-long-id", "SUCCESS"}}, want: "ID         STATUS\na          RUNNING\na-long-id  SUCCESS\n"},
		{name: "no line ends with spaces", head: []string{"id", "reason"}, rows: [][]string{{"a", ""}, {"b", "late"}}, want: "ID  REASON\na\nb   late\n"},
		{name: "no rows", head: []string{"id", "status"}, want: "ID  STATUS\n"},
		{name: "a line break and a control character are shown", head: []string{"id", "x"}, rows: [][]string{{"a\nb", "\x1b[2J"}}, want: "ID   X\na b  \\x1b[2J\n"},
		{name: "characters of East Asia take two columns, marks none", head: []string{"id", "x"}, rows: [][]string{{"日本", "1"}, {"e\u0301", "2"}, {"🚀", "3"}}, want: "ID    X\n日本  1\ne\u0301     2\n🚀    3\n"},
		{name: "colour does not change the widths", color: true, head: []string{"status", "id"}, rows: [][]string{{"FAILED", "a"}, {"SUCCESS", "FAILED"}}, want: "STATUS   ID\n\x1b[31mFAILED\x1b[0m   a\n\x1b[32mSUCCESS\x1b[0m  FAILED\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &Page{Color: tt.color}
			p.Table(tt.head, tt.rows)
			if got := p.text.String(); got != tt.want {
				t.Errorf("got\n%q, want\n%q", got, tt.want)
			}
		})
	}
}

func TestFieldsWithoutAValueAreLeftOut(t *testing.T) {
	p := &Page{}
	p.Fields([2]string{"id", "a"}, [2]string{"paused", ""}, [2]string{"zone", "UTC"})
	if got, want := p.text.String(), "id    a\nzone  UTC\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
