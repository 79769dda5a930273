package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Takeover makes req.Holder the leader, one epoch on, if it holds the lock or
// the row has expired at req.Now.
func (s *Store) Takeover(ctx context.Context, req schedule.TakeoverRequest) (schedule.Term, bool, error) {
	var term schedule.Term
	ok := false
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		term, ok = schedule.Term{}, false
		n, err := t.exec(ctx, sqlTakeover, req.Shard, req.Holder, req.Now.Add(req.TTL).UnixMicro(), req.LockHeld, req.Now.UnixMicro())
		if err != nil || n == 0 {
			return err
		}
		ok = true
		term, _, err = readLeader(ctx, t, req.Shard)
		return err
	})
	if err != nil {
		return schedule.Term{}, false, fmt.Errorf("take over shard %d: %w", req.Shard, err)
	}
	return term, ok, nil
}

// Renew extends the term; schedule.ErrFenced when it is over.
func (s *Store) Renew(ctx context.Context, term schedule.Term, ttl time.Duration, now time.Time) error {
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		n, err := t.exec(ctx, sqlRenew, now.Add(ttl).UnixMicro(), term.Shard, term.Holder, term.Epoch, now.UnixMicro())
		if err == nil && n == 0 {
			return fenced(term)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("renew term: %w", err)
	}
	return nil
}

// Resign lets the term expire at once, if it still is the row's.
func (s *Store) Resign(ctx context.Context, term schedule.Term, now time.Time) error {
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		_, err := t.exec(ctx, sqlResign, now.UnixMicro(), term.Shard, term.Holder, term.Epoch)
		return err
	})
	if err != nil {
		return fmt.Errorf("resign: %w", err)
	}
	return nil
}

// Leader is the row as it stands and when it expires.
func (s *Store) Leader(ctx context.Context, shard int) (schedule.Term, time.Time, error) {
	term, expires, err := readLeader(ctx, s.readers, shard)
	if err != nil {
		return schedule.Term{}, time.Time{}, fmt.Errorf("read leader of shard %d: %w", shard, err)
	}
	return term, expires, nil
}

func readLeader(ctx context.Context, q querier, shard int) (term schedule.Term, expires time.Time, err error) {
	var at instant
	err = q.query(ctx, sqlLeader, func(scan scan) error {
		term.Shard = shard
		return scan(&term.Holder, &term.Epoch, &at)
	}, shard)
	return term, at.Time, err
}

// fence refuses whoever is not the leader any more. The write lock is held, so
// no takeover can come between the fence and the commit.
func fence(ctx context.Context, t tx, term schedule.Term) error {
	if term.Holder == "" || term.Epoch == 0 {
		return schedule.Explain(schedule.ErrFenced, "no term was given")
	}
	var rows int64
	err := t.query(ctx, sqlFence, func(scan scan) error { return scan(&rows) }, term.Shard, term.Holder, term.Epoch)
	if err != nil {
		return fmt.Errorf("check term: %w", err)
	}
	if rows == 0 {
		return fenced(term)
	}
	return nil
}

func fenced(term schedule.Term) error {
	return schedule.Explain(schedule.ErrFenced, "shard %d is not led by %s in epoch %d", term.Shard, term.Holder, term.Epoch)
}
