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
	// triggers schedule and catchup) paused at now, and what the request's grant
	// allows (package grant). A key without a run in the ledger is only checked
	// against its schedule, if there is one, and its grant. What is granted comes
	// with its lease, in Request.LeaseUntil.
	Begin(ctx context.Context, reqs []schedule.BeginRequest, now time.Time) ([]schedule.BeginResult, error)
	// Finish records definite outcomes, IN_PROGRESS → DONE, and returns what now
	// stands. A key that is DONE already keeps its first outcome, unless the later
	// one supersedes it (Outcome.Supersedes): then the key's run is settled in the
	// same transaction, for it may have been by the first.
	Finish(ctx context.Context, done []schedule.FinishRequest, now time.Time) (standing []schedule.Outcome, err error)
	// Release ends the lease of a call whose outcome is unknown, so that the key
	// may be sent again. calls is how many calls of the key may have reached the
	// executor; 0 says that in no attempt a request was ever written to a
	// connection. lease is the LeaseUntil that the caller was granted,
	// or given by the last Extend, to the microsecond: if the key has passed to
	// another sender, or is DONE, nothing changes.
	Release(ctx context.Context, key schedule.Key, lease time.Time, calls int32, now time.Time) error
	// Extend keeps the keys of open calls: each gets a lease of so long from now,
	// if its lease is still the one that the caller was granted or given last.
	// held are the new LeaseUntil; zero = the key has passed to another sender, was
	// released, or is DONE.
	Extend(ctx context.Context, open []schedule.LeaseExtension, now time.Time) (held []time.Time, err error)
	// CloseKey ends a key of which no call has begun, as DONE and cancelled with
	// the reason, so that every later send of it is answered from there.
	// closed = false when a call has begun or it is DONE already.
	CloseKey(ctx context.Context, key schedule.Key, reason schedule.Reason, now time.Time) (closed bool, recorded schedule.ExecutionRequest, err error)
}

// WorkflowStore gives the DAG JSON that a run of the owner userID executes as
// this version, as it was sent; schedule.ErrNotFound when there is none that the
// owner may run, a *schedule.InvalidError when what is stored is no DAG, anything
// else when it cannot say. The answer is asked for again with every check.
type WorkflowStore interface {
	LoadDAG(ctx context.Context, userID, workflowID string, version int32) ([]byte, error)
}
