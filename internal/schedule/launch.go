package schedule

import (
	"encoding/json"
	"time"
)

// StartRequest asks the launcher to start one claimed run. The same key with
// the same request always answers the same outcome.
type StartRequest struct {
	Key              Key
	ScheduleID       string
	WorkflowID       string
	Version          int32
	UserID           string
	ScheduledFor     time.Time // run_at
	FireAt           time.Time // the executor is not called before
	Trigger          Trigger
	Attempt          int32
	MaxAttempts      int32 // see Run; 0: not known
	Epoch            int64
	ExecutionGrantID string
	Input            json.RawMessage
	RunTimeout       time.Duration
	MaxRun           time.Duration // from its acceptance on; 0: no bound
	TraceParent      string        // W3C header that names the sender's span; empty: the sender has none
	SendUntil        time.Time     // nothing is sent after it, but a key that may have been sent is asked for once more; zero: no limit
	WakeLeader       bool          // see FinishRequest; for senders in this process only
	QueueID          string        // of the dispatch queue that the run is in; for senders in this process only
	GroupID          string        // of the group of that queue that the run is in; for senders in this process only
	InQueue          bool          // the run is of a dispatch queue: it can wait again; for senders in this process only
}

// StartRequest is the launcher's request for the launch.
func (l *Launch) StartRequest() StartRequest {
	return StartRequest{
		Key: l.Run.Key, ScheduleID: l.Run.ScheduleID,
		WorkflowID: l.Definition.WorkflowID, Version: l.Definition.Version, UserID: l.Definition.UserID,
		ScheduledFor: l.Run.RunAt, FireAt: l.Run.FireAt,
		Trigger: l.Run.Trigger, Attempt: l.Run.Attempt, MaxAttempts: l.Run.MaxAttempts, Epoch: l.Run.Epoch,
		ExecutionGrantID: l.Definition.ExecutionGrantID, Input: l.EffectiveInput(),
		RunTimeout: l.Definition.RunTimeout(), MaxRun: MaxRun(nil, l.Definition), SendUntil: l.Run.TimeoutAt, InQueue: l.Run.Queue.In(),
	}
}

// LeastResend is less than any pause between two calls of one run.
const LeastResend = 500 * time.Millisecond

// StartReply is a definite answer to a StartRequest, unless it is Queued. Where the outcome is
// unknown there is an error instead, and the same key may be sent again.
type StartReply struct {
	Outcome    Outcome
	LaunchedAt time.Time // when the executor was called; zero if it was not, or refused
	Deliveries int32     // Run.Deliveries after it; 0: unchanged
	Settled    bool      // the launcher has settled the run in the ledger; else the sender does
	// Queued: the run was handed over to a queue, and there is no outcome yet.
	// The consumer of the queue settles it.
	Queued bool
}

// CancelRequest asks the launcher to cancel a run in flight.
type CancelRequest struct {
	Key          Key
	ScheduleID   string
	ScheduledFor time.Time // run_at; zero if a caller of the launcher does not know it
	WorkflowID   string
	RunID        string // may be empty while the outcome is unknown
	Reason       Reason // cancelled or replaced; deadline: the run has ended
}

// CancelOf is the request to cancel a run.
func CancelOf(r *Run) CancelRequest {
	req := CancelRequest{Key: r.Key, ScheduleID: r.ScheduleID, ScheduledFor: r.RunAt, WorkflowID: r.WorkflowID, RunID: r.RunID, Reason: r.CancelReason}
	if r.Status.Terminal() {
		req.Reason = r.Reason
	}
	return req
}

// RunRef names a run to an executor that is asked about it.
type RunRef struct {
	Key          Key
	ScheduleID   string
	ScheduledFor time.Time // run_at
}
