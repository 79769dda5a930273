package schedule_test

import (
	"testing"

	"github.com/carillon/carillon/internal/schedule"
)

func TestAReasonIsShownWithItsErrorCode(t *testing.T) {
	for _, c := range []struct {
		name   string
		reason schedule.Reason
		code   string
		want   string
	}{
		{"a reason alone", schedule.ReasonOverlap, "", "overlap"},
		{"a code that adds to it", schedule.ReasonLost, "executor_timeout", "lost: executor_timeout"},
		{"a code that repeats it", schedule.ReasonLost, "lost", "lost"},
		{"a code alone, while the run is LAUNCHING", schedule.ReasonNone, "executor_timeout", "executor_timeout"},
	} {
		if got := c.reason.WithCode(c.code); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
