package schedule

import (
	"fmt"
	"time"
)

// StatusSnooze is what an executor answers or reports for a run that it wants to get again later.
// The run ends SKIPPED(snoozed), or FAILED(snooze_limit) after MaxSnoozes. No run has this status.
const StatusSnooze Status = "SNOOZE"

// The limits of snoozes.
const (
	MaxSnooze  = 30 * 24 * time.Hour
	MaxSnoozes = 1000 // of one attempt
)

// CheckSnooze adds what is wrong with the delay_ms of a snooze.
func CheckSnooze(c *Collect, ms int64) {
	if ms < 0 || ms > MaxSnooze.Milliseconds() {
		c.Add("delay_ms", ms, fmt.Sprintf("is not within 0 to %d", MaxSnooze.Milliseconds()), "")
	}
}

// SnoozeDelay reads the delay_ms of a snooze.
func SnoozeDelay(ms int64) (time.Duration, error) {
	var c Collect
	CheckSnooze(&c, ms)
	return time.Duration(ms) * time.Millisecond, c.Err()
}

// Snoozed reports whether the run ended because its executor asked to get it again later.
func (r *Run) Snoozed() bool { return r.Status == StatusSkipped && r.Reason == ReasonSnoozed }
