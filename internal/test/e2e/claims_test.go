package e2e_test

import (
	"testing"
	"time"
)

// TestTheCheckerKnowsWhatWasClaimedBefore holds the checker to what it may
// forgive: a run beyond the end of its schedule that was armed before the end
// was set, and no other.
func TestTheCheckerKnowsWhatWasClaimedBefore(t *testing.T) {
	t.Parallel()
	edited := time.Date(2026, 11, 21, 23, 12, 17, 687e6, time.UTC)
	end := edited.Truncate(time.Second).Add(2 * time.Second)
	rule := definition{CronExpr: "*/5 * * * * *", JitterMS: 2000}
	ended := rule
	ended.EndAt = end
	for _, tt := range []struct {
		name   string
		before definition
		runAt  time.Time
		fireAt time.Time
		want   bool
	}{
		{"jitter had brought the slot beyond the new end into what was armed", rule, end.Add(time.Second), edited.Add(900 * time.Millisecond), true},
		{"the slot fires later than what may be armed", rule, end.Add(time.Second), edited.Add(1100 * time.Millisecond), false},
		{"the instant was no slot before the edit either", rule, end.Add(2 * time.Second), edited.Add(900 * time.Millisecond), false},
		{"the schedule had that end before the edit", ended, end.Add(time.Second), edited.Add(900 * time.Millisecond), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &registered{definition: ended, before: tt.before, stoppedAt: end, changedAt: edited}
			if got := s.claimedBefore(t, run{RunAt: tt.runAt, FireAt: tt.fireAt}); got != tt.want {
				t.Errorf("claimedBefore is %t, want %t", got, tt.want)
			}
		})
	}
}
