package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// predecessor is the leaders row that a takeover replaces.
type predecessor struct {
	epoch   int64
	expires time.Time
}

func readPredecessor(ctx context.Context, t tx, shard int) (p predecessor, err error) {
	var expires instant
	err = t.query(ctx, sqlTerm, func(scan scan) error { return scan(&p.epoch, &expires) }, shard)
	p.expires = expires.Time
	return p, err
}

// succeed ends the rows that the previous term left open, and begins the new term.
func succeed(ctx context.Context, t tx, term schedule.Term, req *schedule.TakeoverRequest, before predecessor) error {
	reason := schedule.EndLockFreed
	if !before.expires.After(req.Now) {
		reason = schedule.EndExpired
	}
	now := req.Now.UnixMicro()
	if _, err := t.exec(ctx, sqlTermSucceed, term.Shard, before.epoch, micros(before.expires), now, string(reason)); err != nil {
		return fmt.Errorf("end the term before: %w", err)
	}
	first, last := term.Buckets()
	if _, err := t.exec(ctx, sqlTermStart, term.Shard, term.Epoch, now, first, last, req.Holder, req.Host, req.TTL.Milliseconds()); err != nil {
		return fmt.Errorf("begin the term: %w", err)
	}
	return nil
}

// noteStall splits the term's row around a time without answers.
func noteStall(ctx context.Context, t tx, term schedule.Term, req *schedule.RenewRequest) error {
	stall := req.Stall
	n, err := t.exec(ctx, sqlTermStall, term.Shard, term.Epoch, req.Now.Add(-stall.FromAgo).UnixMicro(), string(stall.End.Reason),
		word(schedule.Storable(stall.End.Detail, schedule.MaxEndDetail)))
	if err != nil || n == 0 { // the term was won by an older version
		return err
	}
	_, err = t.exec(ctx, sqlTermContinue, term.Shard, term.Epoch, req.Now.Add(-stall.UntilAgo).UnixMicro())
	return err
}
