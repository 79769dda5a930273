package schedule

import (
	"encoding/json"
	"slices"
	"time"
)

// Run is one row of open_runs or ended_runs: a slot, or a run by hand, retry or backfill.
type Run struct {
	Key        Key
	ScheduleID string
	Revision   int64 // of the definition that it was planned from
	UserID     string
	WorkflowID string
	Version    int32

	RunAt  time.Time // nominal
	FireAt time.Time // when it may be launched, never earlier

	Status  Status
	Reason  Reason
	Trigger Trigger

	OverlapKey    string        // qualified: user_id/overlap_key
	OverlapPolicy OverlapPolicy // resolved
	Exclusive     bool          // at most one such run in flight per overlap key
	MaxQueued     uint32
	WaitingSince  time.Time // set while it waits for its overlap key; outside the due index

	Attempt     int32 // place in the retry_of chain, 1 = first
	MaxAttempts int32 // the last attempt that Carillon plans by itself; fixed when the run is planned
	// StartBy: an automatic retry of a slot that is open, or a run that waits in a queue for its first
	// admission, does not start later; zero: no limit.
	StartBy time.Time
	RetryOf Key   // zero = none
	Snoozes int32 // how often the executor has snoozed this attempt
	// AttemptsBefore is how many attempts the job had before its budget of attempts was renewed by
	// hand. Its waits are counted from there; in history it is 0.
	AttemptsBefore int32
	// Interruptions is how often in a row a shutdown has interrupted this attempt.
	Interruptions int32
	Deliveries    int32           // calls that reached the executor: their request was written to a connection
	Input         json.RawMessage // nil: the revision's
	Priority      int32

	// RequestedBy is the caller that asked for the run: by hand, as a job, in a backfill or as a retry.
	// The attempts that Carillon plans after it keep it. "": Carillon itself, or an unknown caller.
	RequestedBy string

	RunID   string // given by the executor
	TraceID string

	Epoch             int64     // of the leader that claimed it
	ClaimedAt         time.Time // first claim, or first admission by a queue: not before the end of a run that it waited for
	ClaimedUntil      time.Time // LAUNCHING: not re-sent before
	CancelRequestedAt time.Time
	CancelReason      Reason // what it ends with once the cancel is confirmed

	LaunchedAt  time.Time // the executor was called
	StartedAt   time.Time
	CompletedAt time.Time
	TimeoutAt   time.Time // ENQUEUED, STARTED: last sign of life + run timeout; LAUNCHING: given up (see LaunchUntil)

	// DeadlineAt is max_run_ms after the acceptance of a run that is open; zero: it has no bound.
	// TimeoutAt is never later.
	DeadlineAt time.Time

	ErrorCode      string // LAUNCHING: of the last attempt
	ErrorMessage   string
	FailedAttempts int32  // to launch it; see Attempts
	ExitCode       *int32 // as reported; nil: it was not
	LogURL         string // as reported
	// Progress is that of the last STARTED report; in history it is empty.
	Progress Progress

	FailureClass FailureClass // of a FAILED run; in flight: empty
	// Dead is set where a run failed for good: true until it is retried by hand. Nil of a
	// FAILED run: an automatic retry follows it.
	Dead *bool

	Queue QueuePlace // of a run of a dispatch queue
	// Webhook is the run's own target of the message about its end; empty: that of its queue.
	Webhook string

	// SnoozeUntil is when the run that follows a snoozed one starts. It is set only in the
	// transaction that ends the snoozed run.
	SnoozeUntil time.Time

	CreatedAt time.Time
	UpdatedAt time.Time
}

// Late returns how long the run has been due at now. A slot with run_at ahead is never
// late, even if jitter put its fire_at before.
func (r *Run) Late(now time.Time) time.Duration {
	due := r.FireAt
	if r.RunAt.After(due) {
		due = r.RunAt
	}
	return now.Sub(due)
}

// NotLaunchedBefore returns an instant that was certainly before the call of a claimed
// run: its claim, or its fire_at if it was claimed early, because the launcher waits
// until then.
func (r *Run) NotLaunchedBefore() time.Time {
	if r.FireAt.After(r.ClaimedAt) {
		return r.FireAt
	}
	return r.ClaimedAt
}

// RevisionID names one revision of a schedule. Its definition never changes.
type RevisionID struct {
	ScheduleID string
	Revision   int64
}

// Launch is a claimed run with the definition of its revision: all that is
// needed to send it.
type Launch struct {
	Run        Run
	Definition *Definition
	Again      bool // it was handed out before: by Reclaim, not by Claim
}

// EffectiveInput is the run's own input, else the definition's.
func (l *Launch) EffectiveInput() json.RawMessage {
	if l.Run.Input != nil {
		return l.Run.Input
	}
	return l.Definition.Input
}

// Settlement moves one run forward. The store applies it only where the run's
// status is one of To.Predecessors (or equals To, for heartbeats), and says so.
type Settlement struct {
	Key          Key
	To           Status
	Reason       Reason
	RunID        string // "" leaves it
	TraceID      string
	ErrorCode    string
	ErrorMessage string
	FailureClass FailureClass // as the executor reported it; "": by the reason
	ExitCode     *int32       // of an end; nil leaves it
	LogURL       string       // of an end; "" leaves it
	Result       *RunResult   // of an end; nil: none
	Commit       *Commit      // of a success; nil: none
	LaunchedAt   time.Time    // zero leaves it
	StartedAt    time.Time
	CompletedAt  time.Time
	TimeoutAt    time.Time
	DeadlineAt   time.Time
	SnoozeUntil  time.Time // Reason == snoozed: the same attempt starts again then
	ClaimedUntil time.Time // To == LAUNCHING: outcome unknown, send again not before
	// Deliveries raises Run.Deliveries to this number.
	Deliveries int32
	Unsent     bool // the call that Begin counted was not made
	// Attempt is the failed attempt that To == LAUNCHING records; nil: none.
	Attempt *LaunchAttempt
	// GivesUp says that To == LAUNCHING ends the run if its launch time is over and nobody
	// holds its key.
	GivesUp bool
}

// Moved is the stage to which a settlement has moved its run: To of the settlement, unless
// that gave the run up. The zero value: the settlement did not move it.
type Moved struct {
	To     Status
	Reason Reason
}

// Moved is the run as a settlement has made it.
func (r *Run) Moved() Moved { return Moved{r.Stage(), r.Reason} }

// AnyEnded reports whether any settlement ended its run.
func AnyEnded(moved []Moved) bool {
	return slices.ContainsFunc(moved, func(m Moved) bool { return m.To.Terminal() })
}

// Skip is a run that a plan or a claim has ended before its launch, with its slot.
type Skip struct {
	Settlement
	ScheduleID string
	RunAt      time.Time
}

// ExecutionRequest is what is known of a launcher's key: by the run's own row if the ledger
// has the run, else by a record in execution_requests.
type ExecutionRequest struct {
	Key         Key
	RequestHash [32]byte // of a record; zero: closed before any request was made
	Done        bool     // Outcome is definite: no further call
	Calls       int32    // that may have reached the executor, the open one included
	Lease       KeyLease
	Outcome     Outcome
}

// KeyLease says who may call the executor for a key.
type KeyLease struct {
	Holder int32     // instance_no; 0: unknown, only Until protects the key
	Until  time.Time // no other call before, unless Holder is gone; zero: the key is free
}

// Outcome is a definite answer of an executor, or a refusal of our own.
type Outcome struct {
	Status       Status // ENQUEUED (accepted), SUCCESS, FAILED, SKIPPED or CANCELLED
	Reason       Reason
	RunID        string
	TraceID      string
	ErrorCode    string
	ErrorMessage string
	FailureClass FailureClass  // of a failure, if the executor reported it
	SnoozeFor    time.Duration // of SKIPPED(snoozed)
	ExitCode     *int32        // of an end, if the executor reported it
	Result       *RunResult    // of an end; nil: none
	Commit       *Commit       // of a success; nil: none
}

// OK reports whether the executor accepted the run and no failure is known.
func (o Outcome) OK() bool { return o.Status == StatusEnqueued || o.Status == StatusSuccess }

// Pointers are pointers to the runs of a slice.
func Pointers(runs []Run) []*Run {
	to := make([]*Run, len(runs))
	for i := range runs {
		to[i] = &runs[i]
	}
	return to
}
