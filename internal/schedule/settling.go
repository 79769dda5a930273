package schedule

import "time"

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
			s.ErrorMessage = "answered " + string(o.Status) + " after its cancel was asked for"
		}
	}
	return s
}
