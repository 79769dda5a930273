package launcher

import (
	"context"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
)

// Store keeps the launcher's keys: in the rows of their runs, and for keys that the
// ledger does not have (graph runs, starts from workers on another database) in
// execution_requests.
type Store interface {
	// GetState returns the state of a schedule; the zero value: it has none.
	GetState(ctx context.Context, scheduleID string) (schedule.State, error)
	// EventsOf returns what a run of a consumer has taken, in the order of the events; nil: it is none.
	EventsOf(ctx context.Context, key schedule.Key) (*topic.Batch, error)
	// Begin decides which keys may be called, and records those calls before they are
	// made, in one transaction. It checks again that the key's run is LAUNCHING without
	// cancel_requested_at, that its schedule is neither deleted nor (for triggers
	// schedule and catchup) paused at now, and what the grant allows (package grant). A
	// run that is refused ends in that transaction. A key without a run is only checked
	// against its schedule, if it has one, and its grant. A granted key has its lease in
	// Request.Lease.
	Begin(ctx context.Context, reqs []schedule.BeginRequest, now time.Time) ([]schedule.BeginResult, error)
	// Finish settles the runs of keys with definite answers, each if its status allows
	// (ledger.MayAnswer). The first end of a run stays: an answer that tells another one
	// later leaves an event. A key without a run is recorded as DONE.
	Finish(ctx context.Context, done []schedule.FinishRequest, now time.Time) ([]schedule.Finished, error)
	// Release ends the leases of calls with unknown outcomes, so that the keys can be
	// sent again. Calls is 0 if no attempt has written a request to a connection. Held is
	// the Lease.Until that the caller got from Begin or the last Extend, to the
	// microsecond. A key that another sender has, or whose outcome is known, does not
	// change.
	Release(ctx context.Context, releases []schedule.KeyRelease, now time.Time) error
	// Extend extends the leases of open calls, each from now, if the lease is still
	// the one that the caller got last. held has the new Lease.Until; zero: another
	// sender has the key, or it was released. A key whose run has ended counts as held:
	// nobody can take it.
	Extend(ctx context.Context, open []schedule.LeaseExtension, now time.Time) (held []time.Time, err error)
	// CloseKey cancels a key without a call with the reason: its run ends, and every
	// later send is answered with that. closed = false: a call has begun, or the outcome
	// is known already. after is the key after it.
	CloseKey(ctx context.Context, key schedule.Key, reason schedule.Reason, now time.Time) (closed bool, after schedule.ExecutionRequest, err error)
	// MoveKeys gives open keys that the instance number From still holds to the
	// number To, and returns those.
	MoveKeys(ctx context.Context, m schedule.KeyMove) (moved []schedule.Key, err error)
}

// Presence proves to other processes that this one lives (package presence).
type Presence interface {
	// Await returns the number under which this process holds keys. It waits while
	// the process does not hold its presence lock.
	Await(ctx context.Context) (no int32, err error)
	// Holds reports whether this process holds the presence lock of the number now.
	Holds(no int32) bool
}

// unproven is for a launcher without a presence lock: only leases protect its keys.
type unproven struct{}

func (unproven) Await(context.Context) (int32, error) { return 0, nil }
func (unproven) Holds(int32) bool                     { return true }

// WorkflowStore returns the DAG JSON of a version for a run of the owner userID,
// as it was uploaded. Errors: schedule.ErrNotFound if the owner may run none, a
// *schedule.InvalidError if the stored text is not a DAG, anything else if the
// store is unavailable. It is asked again with every check.
type WorkflowStore interface {
	LoadDAG(ctx context.Context, userID, workflowID string, version int32) ([]byte, error)
}
