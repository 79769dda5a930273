package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// leadership is the leaders row of a shard.
type leadership struct {
	schedule.Term
	expires time.Time
}

// settings are what is recorded for the whole ledger.
type settings struct{ shards int }

// clock is the instant by which expiry is judged.
func (s *Store) clock(now time.Time) time.Time {
	if s.opts.Clock != nil {
		return at(s.opts.Clock())
	}
	return at(now)
}

// Takeover makes req.Holder the leader, one epoch on, if it holds the lock or
// the row has expired.
func (s *Store) Takeover(ctx context.Context, req schedule.TakeoverRequest) (term schedule.Term, ok bool, err error) {
	err = s.write(ctx, func(t *tx) error {
		now := s.clock(req.Now)
		row := t.leaders[req.Shard]
		if row == nil {
			row = &leadership{Term: schedule.Term{Shard: req.Shard}}
			t.leaders[req.Shard] = row
		} else if !req.LockHeld && row.expires.After(now) {
			return nil
		}
		row.Holder, row.Epoch, row.expires = req.Holder, row.Epoch+1, now.Add(req.TTL)
		term, ok = row.Term, true
		if s.opts.Watch.Takeover != nil {
			t.told = append(t.told, func() { s.opts.Watch.Takeover(term) })
		}
		return nil
	})
	if err != nil {
		return schedule.Term{}, false, fmt.Errorf("take over shard %d: %w", req.Shard, err)
	}
	return term, ok, nil
}

// Renew extends the term; schedule.ErrFenced when it is over.
func (s *Store) Renew(ctx context.Context, term schedule.Term, ttl time.Duration, now time.Time) error {
	err := s.write(ctx, func(t *tx) error {
		if err := t.fence(term); err != nil {
			return err
		}
		row, now := t.leaders[term.Shard], s.clock(now)
		if !row.expires.After(now) {
			return fenced(term)
		}
		row.expires = now.Add(ttl)
		return nil
	})
	if err != nil {
		return fmt.Errorf("renew term: %w", err)
	}
	return nil
}

// Resign lets the term expire at once, if it still is the row's.
func (s *Store) Resign(ctx context.Context, term schedule.Term, now time.Time) error {
	return s.write(ctx, func(t *tx) error {
		if t.fence(term) == nil {
			if row, now := t.leaders[term.Shard], s.clock(now); row.expires.After(now) {
				row.expires = now
			}
		}
		return nil
	})
}

// Leader is the row as it stands and when it expires.
func (s *Store) Leader(ctx context.Context, shard int) (term schedule.Term, expires time.Time, err error) {
	err = s.read(ctx, func() error {
		if row := s.leaders[shard]; row != nil {
			term, expires = row.Term, row.expires
		}
		return nil
	})
	return term, expires, err
}

// Heartbeat notes that a worker process is alive.
func (s *Store) Heartbeat(ctx context.Context, workerID string, startedAt time.Time) error {
	return s.write(ctx, func(t *tx) error {
		t.workers[workerID] = &schedule.WorkerSeen{WorkerID: workerID, StartedAt: at(startedAt), SeenAt: s.clock(s.Now())}
		return nil
	})
}

// fence refuses whoever is not the leader any more.
func (s *Store) fence(term schedule.Term) error {
	if term.Holder == "" || term.Epoch == 0 {
		return schedule.Explain(schedule.ErrFenced, "no term was given")
	}
	row := s.leaders[term.Shard]
	if row == nil || row.Holder != term.Holder || row.Epoch != term.Epoch {
		return fenced(term)
	}
	return nil
}

func fenced(term schedule.Term) error {
	return schedule.Explain(schedule.ErrFenced, "shard %d is not led by %s in epoch %d", term.Shard, term.Holder, term.Epoch)
}

// inShard reports whether an overlap key is one of the term's shard.
func (s *Store) inShard(term schedule.Term, overlapKey string) bool {
	if term.Shards <= 1 {
		return true
	}
	first, last := term.Buckets()
	bucket := schedule.Bucket(overlapKey)
	return first <= bucket && bucket <= last
}
