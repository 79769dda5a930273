package leader

import (
	"context"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// LeaseStore stores the rows of leaders, one for each shard: holder, epoch, expiry. The row
// decides who leads; a lock only makes a takeover fast. Expiry is judged and set by database
// time on Postgres and by Now on SQLite.
type LeaseStore interface {
	// Takeover makes the holder the leader, with an epoch greater than that of any shard, if
	// the row has expired or does not exist; or, with LockHeld, if the leader had a lock of
	// the same kind: that leader is gone. ok is false otherwise, and if the holder already
	// leads. schedule.ErrShardCount: another number of shards than Shards is recorded.
	Takeover(ctx context.Context, req schedule.TakeoverRequest) (term schedule.Term, ok bool, err error)
	// Renew extends the term and reports whether it was asked to resign.
	// schedule.ErrFenced: the row has expired or belongs to another term.
	Renew(ctx context.Context, term schedule.Term, req schedule.RenewRequest) (askedToResign bool, err error)
	// Resign lets the term expire at once if the row still belongs to it. It records why the
	// term ended, also after another worker has taken over and could only infer why.
	Resign(ctx context.Context, term schedule.Term, r schedule.Resignation) error
	// AskToResign asks the leader of a shard to resign, and wakes all workers.
	// schedule.ErrNotFound: the shard has no leader.
	AskToResign(ctx context.Context, shard int, now time.Time) (schedule.Leadership, error)
	// Leaders returns all rows in order of shard.
	Leaders(ctx context.Context, now time.Time) ([]schedule.Leadership, error)
}

// TermStore stores which worker led which shard, and when.
type TermStore interface {
	// ListTerms returns terms, newest first.
	ListTerms(ctx context.Context, f schedule.TermFilter) ([]schedule.LeaderTerm, error)
	// WindowTerms returns the terms that led a hash bucket in a window, oldest first.
	WindowTerms(ctx context.Context, w schedule.TermWindow) ([]schedule.LeaderTerm, error)
}

// Roster stores the number of shards.
type Roster interface {
	// Shards returns the recorded number of shards; 0: none is recorded.
	Shards(ctx context.Context) (int, error)
	// RecordShards records n if no number of shards is recorded, and returns the recorded
	// number.
	RecordShards(ctx context.Context, n int) (recorded int, err error)
	// SetShards records n and ends all terms: after it has returned, no older term writes,
	// and only workers with n shards take over.
	SetShards(ctx context.Context, n int, now time.Time) error
}
