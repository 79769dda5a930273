package explain

import (
	"fmt"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
)

// Cause is why a slot did not start or finish in time: one word and a sentence. If
// another run blocked the slot, it is the cause of that run. It is empty if only the
// status and reason of the slot's own run are known.
func (a *Answer) Cause() (cause schedule.Cause, sentence string) {
	switch {
	case len(a.Gaps) > 0 && a.leaderless():
		return schedule.CauseNoLeader, a.Gaps[0].String() + "."
	case len(a.Blocking) > 0 && a.blocked():
		b := &a.Blocking[0]
		cause = root(b)
		return cause, "Blocked by " + described(b) + "."
	case a.Run != nil && waitsInQueue(a.Run):
		return schedule.CauseQueued, "The run entered its dispatch queue at " + describe.Instant(a.Run.Queue.EnqueuedAt) + " and waits there."
	case a.Run != nil && a.Run.Stage() == schedule.StatusLaunching:
		if cause = root(a.Run); cause != schedule.CauseNotAccepted {
			return cause, sentenceOf(a.Run.ErrorMessage)
		}
	case a.Run != nil && a.Run.Status == schedule.StatusEnqueued:
		return schedule.CauseNoReport, "The run was accepted at " + describe.Instant(a.Run.LaunchedAt) + " and has not reported since."
	case a.Run != nil && a.Run.Status == schedule.StatusFailed && a.Run.ErrorMessage != "":
		return failedCause(a.Run)
	}
	return "", ""
}

// LateCause is why a run was launched late: its last failed attempt, if failed
// attempts took most of the time until the run ended. It is empty if none failed.
func (a *Answer) LateCause() (cause schedule.Cause, sentence string) {
	r := a.Run
	if r == nil || r.LaunchedAt.IsZero() || 2*r.LaunchedAt.Sub(r.FireAt) < r.CompletedAt.Sub(r.FireAt) {
		return "", ""
	}
	for i := len(a.Attempts) - 1; i >= 0; i-- {
		if t := &a.Attempts[i]; schedule.ErrorCode(t.ErrorCode).OfLaunch() {
			return schedule.Cause(t.ErrorCode), fmt.Sprintf("%s failed before the executor took it at %s: %s.",
				describe.Count(int(r.FailedAttempts), "launch attempt"), describe.Instant(r.LaunchedAt), t.ErrorMessage)
		}
	}
	return "", ""
}

// failedCause is why the slot's own run failed: the error of its launch attempts,
// else its reason with the error.
func failedCause(r *schedule.Run) (cause schedule.Cause, sentence string) {
	if r.LaunchedAt.IsZero() && schedule.ErrorCode(r.ErrorCode).OfLaunch() {
		return schedule.Cause(r.ErrorCode), sentenceOf(r.ErrorMessage)
	}
	text := r.ErrorMessage
	if r.ErrorCode != "" {
		text = r.ErrorCode + ": " + text
	}
	return schedule.Cause(r.Reason), sentenceOf(text)
}

// leaderless reports whether a missing leader can explain the verdict.
func (a *Answer) leaderless() bool {
	if a.Run == nil {
		return a.Verdict == VerdictNotFired || a.Verdict == VerdictDue || a.Verdict == VerdictUnrecorded
	}
	switch a.Run.Reason {
	case schedule.ReasonMissed, schedule.ReasonOverlap, schedule.ReasonQueueFull, schedule.ReasonCoalesced, schedule.ReasonNone, schedule.ReasonAccepted:
		return true
	}
	return false
}

func (a *Answer) blocked() bool {
	return a.Verdict == VerdictWaiting || a.Run != nil && schedule.BlockedBy(a.Run.Reason)
}

// root is why a run is or was in flight for that long.
func root(r *schedule.Run) schedule.Cause {
	if r.LaunchedAt.IsZero() && schedule.ErrorCode(r.ErrorCode).OfLaunch() {
		return schedule.Cause(r.ErrorCode)
	}
	switch {
	case waitsInQueue(r):
		return schedule.CauseQueued
	case r.Stage() == schedule.StatusLaunching:
		return schedule.CauseNotAccepted
	case r.Status == schedule.StatusEnqueued:
		return schedule.CauseNoReport
	case r.Status == schedule.StatusStarted:
		return schedule.CauseStillRunning
	case r.Reason == schedule.ReasonTimeout, r.Reason == schedule.ReasonLost, r.Reason == schedule.ReasonLaunchUnavailable:
		return schedule.Cause(r.Reason)
	}
	return schedule.Cause(schedule.ReasonOverlap)
}

// described describes a blocking run.
func described(r *schedule.Run) string {
	s := "run " + r.Key.String()[:12] + " of " + r.ScheduleID + ", run_at " + describe.Instant(r.RunAt)
	switch {
	case waitsInQueue(r):
		s += ", which waits in its dispatch queue since " + describe.Instant(r.Queue.EnqueuedAt)
	case r.Stage() == schedule.StatusLaunching:
		s += ", which no executor has accepted since " + describe.Instant(r.NotLaunchedBefore())
	case r.Status == schedule.StatusEnqueued:
		s += ", which was accepted at " + describe.Instant(r.LaunchedAt) + " and has not reported since"
	case r.Status == schedule.StatusStarted:
		s += ", which runs since " + describe.Instant(r.StartedAt)
	case !r.CompletedAt.IsZero():
		s += ", which ended " + string(r.Status) + inBrackets(r.Reason.WithCode(r.ErrorCode)) + " at " + describe.Instant(r.CompletedAt)
	}
	if r.ErrorMessage != "" {
		s += ": " + r.ErrorMessage
	}
	return s
}

// waitsInQueue reports whether a run is in a dispatch queue, and not admitted.
func waitsInQueue(r *schedule.Run) bool {
	return r.Queue.In() && r.Stage() == schedule.StatusPlanned
}

func sentenceOf(s string) string {
	if s == "" {
		return ""
	}
	return s + "."
}
