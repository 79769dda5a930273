package launcher

import (
	"context"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Store keeps execution_requests: the launcher's memory of every key.
type Store interface {
	// Begin records the keys before the executor is called, all in one
	// transaction, and says for each what may be done. In that transaction it
	// re-checks that the key's run, if the ledger has one, is LAUNCHING without
	// cancel_requested_at, and that its schedule is neither deleted nor (for
	// triggers schedule and catchup) paused at now. A key without a run in the
	// ledger is only checked against its schedule, if there is one.
	Begin(ctx context.Context, reqs []BeginRequest, now time.Time) ([]BeginResult, error)
	// Finish records definite outcomes: IN_PROGRESS → DONE. A key that is DONE
	// already keeps its first outcome.
	Finish(ctx context.Context, done []FinishRequest, now time.Time) error
	// Release ends the lease of a call whose outcome is unknown, so that the key
	// may be sent again. sent = false says that in no attempt a request was ever
	// written to a connection.
	Release(ctx context.Context, key schedule.Key, sent bool, now time.Time) error
	// Close ends a key of which no call has begun, as DONE and cancelled with
	// the reason, so that every later send of it is answered from there.
	// closed = false when a call has begun or it is DONE already.
	Close(ctx context.Context, key schedule.Key, reason schedule.Reason, now time.Time) (closed bool, recorded schedule.ExecutionRequest, err error)
}

// BeginRequest asks to call the executor for a key.
type BeginRequest struct {
	Key         schedule.Key
	RequestHash [32]byte
	ScheduleID  string
	Trigger     schedule.Trigger
	FireAt      time.Time // a refusal is final only from then on
	Lease       time.Duration
}

// Permission says what Begin allows.
type Permission int

// The permissions.
const (
	// Granted: the key is ours, call the executor.
	Granted Permission = iota + 1
	// GrantedAgain: an earlier call began and its outcome is unknown; ask the
	// executor by key where it can answer, else send the same key again.
	GrantedAgain
	// Recorded: the key is DONE; answer Request.Outcome.
	Recorded
	// Busy: another call holds the lease.
	Busy
	// Conflict: the key was used for another request.
	Conflict
	// Refused: a check failed and no call has begun; the key is now DONE with
	// Request.Outcome: SKIPPED(paused) or CANCELLED(deleted|cancelled).
	Refused
	// Withheld: a check failed but that is not final (fire_at lies ahead, an
	// earlier call's outcome is unknown, or the run is not LAUNCHING): do not send.
	Withheld
)

// BeginResult answers one BeginRequest.
type BeginResult struct {
	Permission Permission
	Sent       bool                      // an earlier attempt may have reached the executor
	Reason     schedule.Reason           // Refused, Withheld: which check
	Request    schedule.ExecutionRequest // Recorded, Refused, Busy, Conflict: the row
}

// FinishRequest records one definite outcome.
type FinishRequest struct {
	Key     schedule.Key
	Outcome schedule.Outcome
}

// WorkflowStore gives the DAG JSON of a workflow version, as it was sent;
// schedule.ErrNotFound when it does not hold it.
type WorkflowStore interface {
	LoadDAG(ctx context.Context, workflowID string, version int32) ([]byte, error)
}
