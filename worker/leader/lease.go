package leader

import (
	"context"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// LeaseStore keeps the leaders row of a shard: holder, epoch, expiry. The row
// decides who leads; a lock only makes handing over fast.
type LeaseStore interface {
	// Takeover makes holder the leader with epoch+1 if lockHeld or the row has
	// expired (or there is none yet); ok = false otherwise. Expiry is judged and
	// set by database time on Postgres and by now on SQLite.
	Takeover(ctx context.Context, req schedule.TakeoverRequest) (term schedule.Term, ok bool, err error)
	// Renew extends the term; schedule.ErrFenced when the row is no longer this
	// term's or has expired.
	Renew(ctx context.Context, term schedule.Term, ttl time.Duration, now time.Time) error
	// Resign lets the term expire at once, if it still is the row's.
	Resign(ctx context.Context, term schedule.Term, now time.Time) error
	// Leader is the row as it stands, for people: zero Term when there is none.
	Leader(ctx context.Context, shard int) (schedule.Term, time.Time, error)
}
