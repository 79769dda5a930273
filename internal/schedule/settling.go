package schedule

import (
	"errors"
	"time"
)

// SettlementOf is what a definite answer makes of a run. An answer after the
// run's cancel was asked for is read as a report would be: a run that was to be
// replaced is, and one that was to be cancelled and failed is cancelled.
func SettlementOf(l *Launch, reply StartReply, cancelled Reason, now time.Time) Settlement {
	o := reply.Outcome
	s := Settlement{
		Key: l.Run.Key, To: o.Status, Reason: o.Reason, RunID: o.RunID, TraceID: o.TraceID,
		ErrorCode: o.ErrorCode, ErrorMessage: o.ErrorMessage, LaunchedAt: reply.LaunchedAt,
	}
	if s.LaunchedAt.IsZero() && (o.OK() || o.Reason == ReasonWorkflowFailed) {
		// An earlier delivery was answered, and nobody is left who knows when it
		// was sent.
		s.LaunchedAt = l.Run.NotLaunchedBefore()
	}
	if !o.Status.Terminal() {
		s.TimeoutAt = now.Add(l.Definition.RunTimeout()) // counts from acceptance
		return s
	}
	s.CompletedAt = now
	failed := o.Status == StatusFailed
	if cancelled == ReasonReplaced && (failed || o.OK()) || cancelled != "" && failed {
		s.To, s.Reason = StatusCancelled, cancelled
		if s.ErrorMessage == "" {
			s.ErrorMessage = "answered " + string(o.Status) + " after its cancel was requested"
		}
	}
	return s
}

// busyPause is how long a key rests of which another call is open, and
// queuePause how long at most one that could not be handed over.
const (
	busyPause  = time.Second
	queuePause = 4 * time.Second
	mostPause  = 30 * time.Second
)

// backoff is how long a key rests that was sent so often and whose outcome is
// unknown: it doubles from one second to thirty. A key that was not even tried, because another call of it
// is open, rests for a moment only: the answer may be there any time. Nor does
// one for long whose launch queue is away: no executor needs to be spared.
func backoff(sends int, cause error) time.Duration {
	most := mostPause
	switch {
	case errors.Is(cause, ErrBusy):
		return busyPause
	case errors.Is(cause, ErrQueueAway):
		most = queuePause
	}
	return min(most, time.Second<<min(max(sends-1, 0), 5))
}
