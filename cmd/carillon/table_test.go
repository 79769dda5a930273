package main

import (
	"testing"
	"time"
)

func TestDistancesFromNow(t *testing.T) {
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
		{name: "an hour and a half rounds up", off: -90 * time.Minute, want: "2h ago"},
		{name: "almost two days", off: 47 * time.Hour, want: "in 47h"},
		{name: "two days", off: 48 * time.Hour, want: "in 2d"},
		{name: "a long time", off: -800 * 24 * time.Hour, want: "2y ago"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := (&page{now: noon}).ago(noon.Add(tt.off)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestSpansHaveNoIdleUnits(t *testing.T) {
	for ms, want := range map[uint32]string{0: "0s", 250: "250ms", 5000: "5s", 90_000: "1m30s", 3_600_000: "1h", 5_400_000: "1h30m", 3_605_000: "1h0m5s", 600_000: "10m", 86_400_000: "24h"} {
		if got := span(ms); got != want {
			t.Errorf("%d: got %q, want %q", ms, got, want)
		}
	}
}
