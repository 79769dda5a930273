package command

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

func TestADurationWithAPlusLiesAhead(t *testing.T) {
	now := time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC)
	c := &CLI{Now: func() time.Time { return now }}
	for _, tc := range []struct {
		text string
		sign time.Duration
		want string
	}{
		{text: "5m", sign: -1, want: "2026-03-08T11:55:00Z"},
		{text: "+5m", sign: -1, want: "2026-03-08T12:05:00Z"},
		{text: "+7d", sign: -1, want: "2026-03-15T12:00:00Z"},
		{text: "5m", sign: 1, want: "2026-03-08T12:05:00Z"},
		{text: "+5m", sign: 1, want: "2026-03-08T12:05:00Z"},
	} {
		var at *timestamppb.Timestamp
		if err := c.TimeFromNow(&at, tc.sign)(tc.text); err != nil || at.AsTime().Format(time.RFC3339) != tc.want {
			t.Errorf("%s (%d) is %s, %v, want %s", tc.text, tc.sign, at.AsTime(), err, tc.want)
		}
	}
}
