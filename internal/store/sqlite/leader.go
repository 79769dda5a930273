package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Takeover makes req.Holder the leader with the next epoch if the row has expired at
// req.Now, or if it holds the lock that the leader had.
func (s *Store) Takeover(ctx context.Context, req schedule.TakeoverRequest) (schedule.Term, bool, error) {
	var term schedule.Term
	ok := false
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		term, ok = schedule.Term{}, false
		if err := ofShards(ctx, t, req.Shards); err != nil {
			return err
		}
		before, err := readPredecessor(ctx, t, req.Shard)
		if err != nil {
			return err
		}
		n, err := t.exec(ctx, sqlTakeover, req.Shard, req.Holder, req.Now.Add(req.TTL).UnixMicro(), req.LockHeld, req.Now.UnixMicro(), req.LockKind)
		if err != nil || n == 0 {
			return err
		}
		ok = true
		term = schedule.Term{Shard: req.Shard, Shards: req.Shards, Holder: req.Holder}
		won, err := readPredecessor(ctx, t, req.Shard)
		if err != nil {
			return err
		}
		term.Epoch = won.epoch
		return succeed(ctx, t, term, &req, before)
	})
	if err != nil {
		return schedule.Term{}, false, fmt.Errorf("take over shard %d: %w", req.Shard, err)
	}
	return term, ok, nil
}

// Renew extends the term; schedule.ErrFenced when it is over.
func (s *Store) Renew(ctx context.Context, term schedule.Term, req schedule.RenewRequest) (askedToResign bool, err error) {
	err = s.write(ctx, func(ctx context.Context, t tx) error {
		n, err := t.exec(ctx, sqlRenew, req.Now.Add(req.TTL).UnixMicro(), req.LockHeld, term.Shard, term.Holder, term.Epoch, req.Now.UnixMicro())
		switch {
		case err != nil:
			return err
		case n == 0:
			return fenced(term)
		}
		if req.Stall != nil {
			if err := noteStall(ctx, t, term, &req); err != nil {
				return err
			}
		}
		return t.query(ctx, sqlAsked, func(scan scan) error { return scan(&askedToResign) }, term.Shard)
	})
	if err != nil {
		return false, fmt.Errorf("renew term: %w", err)
	}
	return askedToResign, nil
}

// Resign lets the term expire at once if the row still belongs to it, and records why it
// ended.
func (s *Store) Resign(ctx context.Context, term schedule.Term, r schedule.Resignation) error {
	end := r.End
	end.Reason = cmp.Or(end.Reason, schedule.EndResigned)
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		now := r.Now.UnixMicro()
		_, err := t.exec(ctx, sqlTermResign, term.Shard, term.Holder, term.Epoch, string(end.Reason),
			word(schedule.Storable(end.Detail, schedule.MaxEndDetail)), end.Reason.Lost(), end.Reason.Amends(), now)
		if err != nil {
			return err
		}
		_, err = t.exec(ctx, sqlResign, now, term.Shard, term.Holder, term.Epoch)
		return err
	})
	if err != nil {
		return fmt.Errorf("resign: %w", err)
	}
	return nil
}

// AskToResign records that the current term was asked to end, and wakes all workers of
// this process.
func (s *Store) AskToResign(ctx context.Context, shard int, now time.Time) (schedule.Leadership, error) {
	var asked schedule.Leadership
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		n, err := t.exec(ctx, sqlAskToResign, shard, now.UnixMicro())
		switch {
		case err != nil:
			return err
		case n == 0:
			return schedule.Explain(schedule.ErrNotFound, "no worker leads shard %d", shard)
		}
		rows, err := leaderships(ctx, t, now)
		for _, l := range rows {
			if l.Shard == shard {
				asked = l
			}
		}
		return err
	})
	if err != nil {
		return schedule.Leadership{}, fmt.Errorf("ask the leader to resign: %w", err)
	}
	s.wakes.call()
	return asked, nil
}

// Leaders returns all rows in order of shard.
func (s *Store) Leaders(ctx context.Context, now time.Time) ([]schedule.Leadership, error) {
	rows, err := leaderships(ctx, s.readers, now)
	if err != nil {
		return nil, fmt.Errorf("list leaders: %w", err)
	}
	return rows, nil
}

func leaderships(ctx context.Context, q querier, now time.Time) ([]schedule.Leadership, error) {
	shards, err := recordedShards(ctx, q)
	if err != nil {
		return nil, err
	}
	var rows []schedule.Leadership
	err = q.query(ctx, sqlLeaders, func(scan scan) error {
		l := schedule.Leadership{Term: schedule.Term{Shards: shards}}
		var expires instant
		err := scan(&l.Shard, &l.Holder, &l.Epoch, &expires, &l.Expired, &l.LockHeld, &l.LockKind, &l.AskedTo)
		l.ExpiresAt = expires.Time
		rows = append(rows, l)
		return err
	}, now.UnixMicro())
	return rows, err
}

// fence refuses a term that is over. The write lock is held, so no takeover can come
// between the fence and the commit.
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
