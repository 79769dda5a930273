package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// leadership is the leaders row of a shard.
type leadership struct {
	schedule.Term
	expires  time.Time
	lockHeld bool
	lockKind string
	asked    int64 // the epoch that was asked to resign

	seenUntil time.Time // see ledger.Verdicts; zero: nothing was seen
}

// clock returns the instant by which expiry is judged.
func (s *Store) clock(now time.Time) time.Time {
	if s.opts.Clock != nil {
		return at(s.opts.Clock())
	}
	return at(now)
}

// Takeover makes req.Holder the leader with the next epoch if the row has expired, or if
// it holds the lock that the leader had.
func (s *Store) Takeover(ctx context.Context, req schedule.TakeoverRequest) (term schedule.Term, ok bool, err error) {
	err = s.write(ctx, func(t *tx) error {
		if err := t.ofShards(req.Shards); err != nil {
			return err
		}
		now, row := s.clock(req.Now), t.leaders[req.Shard]
		gone := row == nil || !row.expires.After(now) ||
			req.LockHeld && row.lockHeld && row.Holder != req.Holder && schedule.SameLock(req.LockKind, row.lockKind)
		if !gone {
			return nil
		}
		if row == nil {
			row = &leadership{}
			t.leaders[req.Shard] = row
		}
		expires := row.expires
		term, ok = schedule.Term{Shard: req.Shard, Shards: req.Shards, Holder: req.Holder, Epoch: t.newEpoch()}, true
		row.Term, row.expires, row.lockHeld, row.lockKind = term, now.Add(req.TTL), req.LockHeld, req.LockKind
		t.succeed(term, &req, expires, now)
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

// newEpoch returns one more than the greatest epoch of all shards.
func (s *Store) newEpoch() (epoch int64) {
	for _, row := range s.leaders {
		epoch = max(epoch, row.Epoch)
	}
	return epoch + 1
}

// Renew extends the term; schedule.ErrFenced when it is over.
func (s *Store) Renew(ctx context.Context, term schedule.Term, req schedule.RenewRequest) (askedToResign bool, err error) {
	err = s.write(ctx, func(t *tx) error {
		if err := t.fence(term); err != nil {
			return err
		}
		row, now := t.leaders[term.Shard], s.clock(req.Now)
		if !row.expires.After(now) {
			return fenced(term)
		}
		row.expires, row.lockHeld = now.Add(req.TTL), req.LockHeld
		if req.Stall != nil {
			t.noteStall(term, req.Stall, now)
		}
		askedToResign = row.asked == row.Epoch
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("renew term: %w", err)
	}
	return askedToResign, nil
}

// Resign lets the term expire at once if the row still belongs to it, and records why it
// ended.
func (s *Store) Resign(ctx context.Context, term schedule.Term, r schedule.Resignation) error {
	return s.write(ctx, func(t *tx) error {
		now, expires := s.clock(r.Now), time.Time{}
		if t.fence(term) == nil {
			row := t.leaders[term.Shard]
			if expires = row.expires; expires.After(now) {
				row.expires = now
			}
		}
		t.resignTerm(term, r.End, expires, now)
		return nil
	})
}

// AskToResign records that the current term was asked to end, and wakes all workers.
func (s *Store) AskToResign(ctx context.Context, shard int, now time.Time) (asked schedule.Leadership, err error) {
	err = s.write(ctx, func(t *tx) error {
		row := t.leaders[shard]
		if row == nil || !row.expires.After(s.clock(now)) {
			return schedule.Explain(schedule.ErrNotFound, "no worker leads shard %d", shard)
		}
		row.asked, t.wake = row.Epoch, true
		asked = t.leadershipOf(shard, s.clock(now))
		return nil
	})
	if err != nil {
		return schedule.Leadership{}, fmt.Errorf("ask the leader to resign: %w", err)
	}
	return asked, nil
}

// Leaders returns all rows in order of shard.
func (s *Store) Leaders(ctx context.Context, now time.Time) (rows []schedule.Leadership, err error) {
	err = s.read(ctx, func() error {
		for shard := range s.leaders {
			rows = append(rows, s.leadershipOf(shard, s.clock(now)))
		}
		return nil
	})
	slices.SortFunc(rows, func(a, b schedule.Leadership) int { return cmp.Compare(a.Shard, b.Shard) })
	return rows, err
}

func (s *Store) leadershipOf(shard int, now time.Time) schedule.Leadership {
	row := s.leaders[shard]
	l := schedule.Leadership{Term: row.Term, ExpiresAt: row.expires, Expired: !row.expires.After(now), LockHeld: row.lockHeld, LockKind: row.lockKind}
	l.Shard, l.Shards = shard, s.shards
	l.AskedTo = row.asked == row.Epoch && !l.Expired
	return l
}

// fence refuses a term that is over.
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
	bucket := s.bucket(overlapKey)
	return first <= bucket && bucket <= last
}

// bucket is the hash bucket of an overlap key.
func (s *Store) bucket(overlapKey string) int {
	bucket, known := s.buckets[overlapKey]
	if !known {
		bucket = schedule.Bucket(overlapKey)
		s.buckets[overlapKey] = bucket
	}
	return bucket
}
