package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
)

// predecessor is the leaders row that a takeover replaces.
type predecessor struct {
	epoch   int64
	expires time.Time
	expired bool
}

// succeed ends the rows that the previous term left open, and begins the new term.
func succeed(ctx context.Context, tx pgx.Tx, term schedule.Term, req *schedule.TakeoverRequest, before predecessor) error {
	reason := schedule.EndLockFreed
	if before.expired {
		reason = schedule.EndExpired
	}
	if _, err := tx.Exec(ctx, sqlTermSucceed, term.Shard, before.epoch, before.expires, string(reason)); err != nil {
		return fmt.Errorf("end the term before: %w", err)
	}
	first, last := term.Buckets()
	if _, err := tx.Exec(ctx, sqlTermStart, term.Shard, term.Epoch, first, last, req.Holder, req.Host, req.TTL.Milliseconds()); err != nil {
		return fmt.Errorf("begin the term: %w", err)
	}
	return nil
}

// noteStall splits the term's row around a time without answers.
func noteStall(ctx context.Context, tx pgx.Tx, term schedule.Term, stall *schedule.Stall) error {
	n, err := affect(ctx, tx, sqlTermStall, term.Shard, term.Epoch, interval(stall.FromAgo), string(stall.End.Reason),
		noneOrText(schedule.Storable(stall.End.Detail, schedule.MaxEndDetail)))
	if err != nil || n == 0 { // the term was won by an older version
		return err
	}
	_, err = affect(ctx, tx, sqlTermContinue, term.Shard, term.Epoch, interval(stall.UntilAgo))
	return err
}

// utc is a column's time; zero where it is NULL.
func utc(t pgtype.Timestamptz) time.Time {
	if !t.Valid {
		return time.Time{}
	}
	return t.Time.UTC()
}
