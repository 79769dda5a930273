package schedule_test

import (
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

func TestARunIsNeverSaidToBeLaunchedBeforeItMayBe(t *testing.T) {
	fireAt := time.Date(2026, 3, 8, 14, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name      string
		claimedAt time.Time
		want      time.Time
	}{
		{"claimed when due", fireAt.Add(3 * time.Millisecond), fireAt.Add(3 * time.Millisecond)},
		{"armed ahead of its instant", fireAt.Add(-250 * time.Millisecond), fireAt},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := schedule.Run{ClaimedAt: c.claimedAt, FireAt: fireAt}
			if got := run.NotLaunchedBefore(); !got.Equal(c.want) {
				t.Errorf("not launched before %s; want %s", got, c.want)
			}
		})
	}
}
