package schedule_test

import (
	"testing"

	"github.com/carillon/carillon/internal/schedule"
)

func TestAReasonIsShownWithItsCodeOnce(t *testing.T) {
	for _, c := range []struct {
		name   string
		reason schedule.Reason
		code   string
		want   string
	}{
		{"a code that says more", schedule.ReasonWorkflowFailed, "step_failed", "workflow_failed: step_failed"},
		{"a code that repeats the reason", schedule.ReasonTimeout, "timeout", "timeout"},
		{"no code", schedule.ReasonOverlap, "", "overlap"},
		{"a run that is retried has no reason", schedule.ReasonNone, "executor_unreachable", "executor_unreachable"},
	} {
		if got := c.reason.WithCode(c.code); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
