package sim

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/memory"
	"github.com/carillon/carillon/internal/topic"
)

// store is one process' access to the ledger: every method is a call that can fail.
type store struct{ *caller }

func (s store) tell(ctx context.Context, at site, id uint64, effect func() error) error {
	return s.call(ctx, at, id, s.storeAway, effect)
}

// lead is a call that a leader makes while it trusts its term.
func (s store) lead(ctx context.Context, at site, term schedule.Term, id uint64, effect func() error) error {
	// The last successful attempt began then, and is trusted for three quarters of TTL.
	if since := s.elapsed() - time.Duration(s.trusts[term.Shard].Load()); since > s.profile.ttl*3/4+time.Millisecond && ctx.Err() == nil && !s.dead.Load() {
		s.violation("%s began to %s in epoch %d, %s after it was last told that it leads", s.name, siteNames[at], term.Epoch, since)
	}
	return s.tell(ctx, at, id, effect)
}

func (s store) Plan(ctx context.Context, req schedule.PlanRequest, decide func([]schedule.PlanCandidate) []schedule.PlanDecision) (out schedule.PlanResult, err error) {
	err = s.lead(ctx, sitePlan, req.Term, shard(req.Term), func() (err error) {
		out, err = s.ledger.Plan(context.WithoutCancel(ctx), req, decide)
		return err
	})
	return out, err
}

func (s store) Heartbeat(ctx context.Context, i schedule.Instance) error {
	return s.tell(ctx, siteHeartbeat, 0, func() error { return s.ledger.Heartbeat(context.WithoutCancel(ctx), i) })
}

func (s store) Prune(ctx context.Context, term schedule.Term, before time.Time, limit int) (n int, err error) {
	err = s.tell(ctx, sitePrune, shard(term), func() (err error) {
		n, err = s.ledger.Prune(context.WithoutCancel(ctx), term, before, limit)
		return err
	})
	return n, err
}

func (s store) LoadOpen(ctx context.Context, term schedule.Term, from, until time.Time) (open ledger.Open, err error) {
	err = s.tell(ctx, siteLoadOpen, shard(term), func() (err error) {
		open, err = s.ledger.LoadOpen(context.WithoutCancel(ctx), term, from, until)
		return err
	})
	if err != nil {
		return ledger.Open{}, err
	}
	open.Position = s.repeated(open.Position)
	return open, nil
}

// repeated is a position some changes before, which the ledger still has: they are read
// again.
func (s store) repeated(p ledger.Position) ledger.Position {
	if !s.profile.repeats {
		return p
	}
	back := 6
	if s.profile.changes > 0 {
		back = min(back, s.profile.changes)
	}
	return memory.Earlier(p, int64(s.dice.of(uint64(s.elapsed())).below(back)))
}

// early has the transaction of a write begin now, though its commit comes with the
// effect: meanwhile the positions of readers pass it. Some of a user's stay open for
// seconds.
func (s store) early(ctx context.Context) (opened context.Context, end func()) {
	if !s.profile.late || s.calm.Load() {
		return ctx, func() {}
	}
	opened, end = s.ledger.Open(ctx)
	if d := s.dice.of(uint64(s.elapsed())); !s.mortal && d.perMille(250) {
		s.sleep(d, d.of(1).span(time.Second, 4*time.Second))
	}
	return opened, end
}

func (s store) Claim(ctx context.Context, req ledger.ClaimRequest, claim *ledger.Claim) (out ledger.Claimed, err error) {
	err = s.lead(ctx, siteClaim, req.Term, shard(req.Term), func() (err error) {
		if n := s.profile.window; n > 0 && claim.State.Planned() > n {
			s.coverage.situations[windowFull].Add(1)
		}
		s.watch.claimsAt(claim.Pass.Now)
		out, err = s.ledger.Claim(context.WithoutCancel(ctx), req, claim)
		if len(out.Missing) > 0 {
			s.violation("%s has judged %d runs that were not as its state has them", s.name, len(out.Missing))
		}
		if err == nil {
			s.watch.claimPassed(claim, &out)
		}
		return err
	})
	if err != nil {
		return ledger.Claimed{}, err
	}
	return out, nil
}

func (s store) Reclaim(ctx context.Context, req ledger.ReclaimRequest) (out ledger.Reclaimed, err error) {
	err = s.lead(ctx, siteReclaim, req.Term, shard(req.Term), func() (err error) {
		out, err = s.ledger.Reclaim(context.WithoutCancel(ctx), req)
		return err
	})
	if err != nil {
		return ledger.Reclaimed{}, err
	}
	return out, nil
}

// idOfAll is the id of a batch, whatever its order.
func idOfAll[T any](items []T, key func(*T) schedule.Key) (id uint64) {
	for i := range items {
		id ^= idOf(key(&items[i]))
	}
	return id
}

func (s store) Settle(ctx context.Context, term schedule.Term, now time.Time, settlements []schedule.Settlement) (moved []schedule.Moved, err error) {
	id := idOfAll(settlements, func(x *schedule.Settlement) schedule.Key { return x.Key })
	err = s.lead(ctx, siteSettle, term, id, func() (err error) {
		moved, err = s.ledger.Settle(context.WithoutCancel(ctx), term, now, settlements)
		return err
	})
	return moved, err
}

func (s store) Sweep(ctx context.Context, req schedule.SweepRequest) (out ledger.Swept, err error) {
	err = s.lead(ctx, siteSweep, req.Term, shard(req.Term), func() (err error) {
		out, err = s.ledger.Sweep(context.WithoutCancel(ctx), req)
		return err
	})
	return out, err
}

// Take looks at consumers.
func (s store) Take(ctx context.Context, req ledger.TakeRequest) (out ledger.Taken, err error) {
	err = s.lead(ctx, siteTake, req.Term, shard(req.Term), func() (err error) {
		out, err = s.ledger.Take(context.WithoutCancel(ctx), req)
		return err
	})
	if err != nil {
		return ledger.Taken{}, err
	}
	return out, nil
}

// GetState returns the state of a schedule.
func (s store) GetState(ctx context.Context, scheduleID string) (schedule.State, error) {
	return s.ledger.GetState(ctx, scheduleID)
}

// EventsOf returns what a run of a consumer has taken.
func (s store) EventsOf(ctx context.Context, key schedule.Key) (batch *topic.Batch, err error) {
	err = s.tell(ctx, siteEventsOf, idOf(key), func() (err error) {
		batch, err = s.ledger.EventsOf(context.WithoutCancel(ctx), key)
		return err
	})
	if err != nil {
		return nil, err
	}
	return batch, nil
}

func (s store) Publish(ctx context.Context, p *topic.Publication) (out []topic.Published, err error) {
	id := idOf(sha256.Sum256([]byte(p.Events[0].Subject + p.Events[0].Type)))
	opened, end := s.early(context.WithoutCancel(ctx))
	defer end()
	err = s.tell(ctx, sitePublish, id, func() (err error) {
		out, err = s.ledger.Publish(opened, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s store) CancelRequests(ctx context.Context, keys []schedule.Key) (runs []schedule.Run, err error) {
	id := idOfAll(keys, func(key *schedule.Key) schedule.Key { return *key })
	err = s.tell(ctx, siteCancelRequests, id, func() (err error) {
		runs, err = s.ledger.CancelRequests(context.WithoutCancel(ctx), keys)
		return err
	})
	if err != nil {
		return nil, err
	}
	return runs, nil
}

// Flights does not fail: nothing depends on it.
func (s store) Flights(ctx context.Context, req ledger.FlightsRequest) ([]ledger.Flight, error) {
	return s.ledger.Flights(context.WithoutCancel(ctx), req)
}

func (s store) Begin(ctx context.Context, reqs []schedule.BeginRequest, now time.Time) (out []schedule.BeginResult, err error) {
	id := idOfAll(reqs, func(x *schedule.BeginRequest) schedule.Key { return x.Key })
	err = s.tell(ctx, siteBegin, id, func() (err error) {
		out, err = s.ledger.Begin(context.WithoutCancel(ctx), reqs, now)
		s.executor.granted(reqs, out)
		s.beganBy(reqs, out)
		return err
	})
	return out, err
}

func (s store) Finish(ctx context.Context, done []schedule.FinishRequest, now time.Time) (finished []schedule.Finished, err error) {
	id := idOfAll(done, func(x *schedule.FinishRequest) schedule.Key { return x.Key })
	opened, end := s.early(context.WithoutCancel(ctx))
	defer end()
	err = s.tell(ctx, siteFinish, id, func() (err error) {
		finished, err = s.ledger.Finish(opened, done, now)
		return err
	})
	return finished, err
}

func (s store) Extend(ctx context.Context, open []schedule.LeaseExtension, now time.Time) (held []time.Time, err error) {
	id := idOfAll(open, func(x *schedule.LeaseExtension) schedule.Key { return x.Key })
	err = s.tell(ctx, siteExtend, id, func() (err error) {
		held, err = s.ledger.Extend(context.WithoutCancel(ctx), open, now)
		return err
	})
	return held, err
}

func (s store) Release(ctx context.Context, releases []schedule.KeyRelease, now time.Time) error {
	id := idOfAll(releases, func(x *schedule.KeyRelease) schedule.Key { return x.Key })
	return s.tell(ctx, siteReleaseKey, id, func() error { return s.ledger.Release(context.WithoutCancel(ctx), releases, now) })
}

// MoveKeys follows the loss of a presence lock.
func (s store) MoveKeys(ctx context.Context, m schedule.KeyMove) ([]schedule.Key, error) {
	if err := presenceOf(s).reach(ctx, m.To); err != nil {
		return nil, err
	}
	moved, err := s.ledger.MoveKeys(ctx, m)
	s.presences.mu.Lock()
	defer s.presences.mu.Unlock()
	for _, key := range moved {
		s.presences.holders[key] = m.To
	}
	return moved, err
}

func (s store) CloseKey(ctx context.Context, key schedule.Key, reason schedule.Reason, now time.Time) (closed bool, recorded schedule.ExecutionRequest, err error) {
	err = s.tell(ctx, siteCloseKey, idOf(key), func() (err error) {
		closed, recorded, err = s.ledger.CloseKey(context.WithoutCancel(ctx), key, reason, now)
		return err
	})
	return closed, recorded, err
}

// nthLoad counts the loads of one instant. The runs of one batch load the same workflow, in
// their order: identical calls would end in any order.
func (w *world) nthLoad() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.elapsed()
	w.loads[at]++
	return w.loads[at] - 1
}

// LoadDAG follows the rule of workflow.Owned without its cache, which would make results
// depend on the order of calls.
func (s store) LoadDAG(ctx context.Context, userID, workflowID string, version int32) (dag []byte, err error) {
	id := binary.LittleEndian.Uint64(append([]byte(workflowID), 0, 0, 0, 0, 0, 0, 0, 0))
	use := schedule.WorkflowUse{UserID: userID, WorkflowID: workflowID, Version: version}
	err = s.tell(ctx, siteLoad, s.nthLoad()<<48|id<<8|uint64(version), func() error {
		standings, err := s.ledger.WorkflowAccess(context.WithoutCancel(ctx), []schedule.WorkflowUse{use})
		if err != nil {
			return err
		}
		from, ok := use.LoadsFrom(standings[0])
		if !ok {
			return schedule.ErrNotFound
		}
		dag, err = s.ledger.LoadDAG(context.WithoutCancel(ctx), from, workflowID, version)
		return err
	})
	return dag, err
}

func (s store) ChangeSchedules(ctx context.Context, req schedule.ChangeRequest, decide func([]schedule.ChangeInput) ([]schedule.Change, error)) error {
	opened, end := s.early(context.WithoutCancel(ctx))
	defer end()
	return s.tell(ctx, siteChange, 0, func() error { return s.ledger.ChangeSchedules(opened, req, decide) })
}

func (s store) ChangeRun(ctx context.Context, key, existing schedule.Key, decide func(schedule.RunInput) (schedule.RunChange, error)) (run schedule.Run, moved bool, err error) {
	opened, end := s.early(context.WithoutCancel(ctx))
	defer end()
	err = s.tell(ctx, siteChangeRun, idOf(key), func() (err error) {
		run, moved, err = s.ledger.ChangeRun(opened, key, existing, decide)
		return err
	})
	return run, moved, err
}

func (s store) FeedBackfills(ctx context.Context, req schedule.FeedRequest, feeder schedule.BackfillFeeder) (out schedule.FeedResult, err error) {
	err = s.lead(ctx, siteFeed, req.Term, shard(req.Term), func() (err error) {
		out, err = s.ledger.FeedBackfills(context.WithoutCancel(ctx), req, feeder)
		return err
	})
	if err != nil {
		return schedule.FeedResult{}, err
	}
	return out, nil
}

func (s store) ChangeBackfill(ctx context.Context, ref schedule.BackfillRef, decide func(schedule.BackfillInput) (schedule.BackfillChange, error)) (after *schedule.Backfill, err error) {
	opened, end := s.early(context.WithoutCancel(ctx))
	defer end()
	err = s.tell(ctx, siteChangeBackfill, 0, func() (err error) {
		after, err = s.ledger.ChangeBackfill(opened, ref, decide)
		return err
	})
	if err != nil {
		return nil, err
	}
	return after, nil
}

func (s store) GetRun(ctx context.Context, key schedule.Key) (run *schedule.Run, err error) {
	err = s.tell(ctx, siteGetRun, idOf(key), func() (err error) {
		run, err = s.ledger.GetRun(context.WithoutCancel(ctx), key)
		return err
	})
	if err != nil {
		return nil, err
	}
	return run, nil
}

// shard names a term's calls.
func shard(t schedule.Term) uint64 { return uint64(t.Shard) }
