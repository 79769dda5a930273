package leader

import (
	"context"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// LeaseStore keeps the leaders rows, one a shard: holder, epoch, expiry. The
// row decides who leads; a lock only makes handing over fast. Expiry is judged
// and set by database time on Postgres and by now on SQLite.
type LeaseStore interface {
	// Takeover makes holder the leader, with an epoch greater than that of any
	// shard, if the row has expired or there is none yet; or if LockHeld, when the
	// leader had the lock as well, and of the same kind: it is gone. ok = false
	// otherwise, and when the holder leads already. schedule.ErrShardCount when another number of shards
	// than Shards is recorded.
	Takeover(ctx context.Context, req schedule.TakeoverRequest) (term schedule.Term, ok bool, err error)
	// Renew extends the term, and says whether it was asked to resign;
	// schedule.ErrFenced when the row is no longer this term's or has expired.
	Renew(ctx context.Context, term schedule.Term, req schedule.RenewRequest) (askedToResign bool, err error)
	// Resign lets the term expire at once, if it still is the row's. It records why
	// the term ended, also after another worker has taken over and could only infer
	// why.
	Resign(ctx context.Context, term schedule.Term, r schedule.Resignation) error
	// AskToResign asks the leader of a shard to hand over, and wakes all workers;
	// schedule.ErrNotFound when nobody leads it.
	AskToResign(ctx context.Context, shard int, now time.Time) (schedule.Leadership, error)
	// Leaders are all rows as they stand, by shard.
	Leaders(ctx context.Context, now time.Time) ([]schedule.Leadership, error)
}

// TermStore keeps who led which shard, and when.
type TermStore interface {
	// ListTerms is newest first.
	ListTerms(ctx context.Context, f schedule.TermFilter) ([]schedule.LeaderTerm, error)
	// WindowTerms are the terms that decide who led a hash bucket in a window,
	// oldest first.
	WindowTerms(ctx context.Context, w schedule.TermWindow) ([]schedule.LeaderTerm, error)
}

// ProcessStore keeps which server processes run, of whatever roles.
type ProcessStore interface {
	// NoteProcess notes that a process runs; the store sets SeenAt.
	NoteProcess(ctx context.Context, p schedule.ProcessSeen) error
	// ForgetProcess takes a process that ends off the list.
	ForgetProcess(ctx context.Context, processID string) error
	// Processes are those that were seen within a duration, by id.
	Processes(ctx context.Context, within time.Duration) ([]schedule.ProcessSeen, error)
}

// Roster keeps who works and in how many shards.
type Roster interface {
	// Workers are the processes that were seen within so long, by id, as the
	// clock says that notes them.
	Workers(ctx context.Context, within time.Duration, now time.Time) ([]schedule.WorkerSeen, error)
	// Shards is the number that is recorded; 0 = none is.
	Shards(ctx context.Context) (int, error)
	// RecordShards records n where no number of shards is recorded yet, and
	// answers what is.
	RecordShards(ctx context.Context, n int) (recorded int, err error)
	// SetShards records n and ends every term: once it has returned, nothing is
	// written under an older one, and only workers with n shards take over.
	SetShards(ctx context.Context, n int, now time.Time) error
}
