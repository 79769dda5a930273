package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Begin records keys before the executor is called and decides which calls are permitted.
func (s *Store) Begin(ctx context.Context, reqs []schedule.BeginRequest, now time.Time) ([]schedule.BeginResult, error) {
	results := make([]schedule.BeginResult, len(reqs))
	err := s.write(ctx, func(t *tx) error {
		for i := range reqs {
			results[i] = ledger.Begin(&reqs[i], t.beginFacts(&reqs[i]), now)
			t.record(&results[i], now)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("begin calls: %w", err)
	}
	return results, nil
}

// beginFacts collects the facts about one key.
func (t *tx) beginFacts(q *schedule.BeginRequest) *ledger.BeginFacts {
	f := ledger.BeginFacts{Known: t.recordOf(q.Key), Grant: t.grants[q.Grant.Ref()]}
	if f.Known != nil {
		f.Holder = t.holder(f.Known.Holder)
	}
	if r := t.runs[q.Key]; r != nil {
		f.Run = ledger.BeginRunOf(r)
	}
	if s := t.schedules[q.ScheduleID]; s != nil {
		f.Deleted, f.Pause = !s.Alive(), s.Pause
	}
	return &f
}

// recordOf returns the record of a key; nil: none.
func (s *Store) recordOf(key schedule.Key) *schedule.ExecutionRequest {
	if r := s.requests[key]; r != nil {
		return &r.ExecutionRequest
	}
	return nil
}

// record writes the decision of Begin, so that a second request with the key finds it.
func (t *tx) record(result *schedule.BeginResult, now time.Time) {
	switch result.Permission {
	case schedule.Granted, schedule.GrantedAgain:
		if !result.Sent {
			t.firstSent[result.Request.Key] = at(now)
		}
		t.request(result.Request)
	case schedule.Refused:
		t.request(result.Request)
	}
}

// Finish records definite outcomes and settles the runs of their keys.
func (s *Store) Finish(ctx context.Context, done []schedule.FinishRequest, now time.Time) ([]schedule.Finished, error) {
	finished := make([]schedule.Finished, len(done))
	err := s.write(ctx, func(t *tx) error {
		for i := range done {
			finished[i] = t.finish(&done[i], now)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("finish calls: %w", err)
	}
	return finished, nil
}

func (t *tx) finish(f *schedule.FinishRequest, now time.Time) schedule.Finished {
	if there := t.requests[f.Key]; there != nil {
		if there.Done && !f.Outcome.Supersedes(there.Outcome) {
			return schedule.Finished{Outcome: there.Outcome}
		}
		row := there.ExecutionRequest
		row.Done, row.LeaseUntil, row.Outcome = true, time.Time{}, f.Outcome
		if f.Unsent {
			row.Calls--
		}
		t.request(row)
	}
	done := schedule.Finished{Outcome: f.Outcome}
	if r := t.runs[f.Key]; r != nil {
		s := ledger.SettlementOf(r, f, now)
		done.Settled = t.settle(&s, now)
		t.wake = t.wake || f.WakeLeader && done.Settled && s.To.Terminal()
	}
	return done
}

// Extend renews the leases of open calls that are still held.
func (s *Store) Extend(ctx context.Context, open []schedule.LeaseExtension, now time.Time) (held []time.Time, err error) {
	err = s.write(ctx, func(t *tx) error {
		type call struct {
			key  schedule.Key
			held time.Time
		}
		held = make([]time.Time, len(open))
		extended := make(map[call]time.Time, len(open))
		for i, x := range open {
			c, there := call{x.Key, at(x.Held)}, t.requests[x.Key]
			until, again := extended[c]
			if !again && there != nil && !there.Done && !x.Held.IsZero() && there.LeaseUntil.Equal(c.held) {
				until = at(now.Add(x.Lease))
				row := there.ExecutionRequest
				row.LeaseUntil, extended[c] = until, until
				t.request(row)
			}
			held[i] = until
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("extend leases: %w", err)
	}
	return held, nil
}

// Release ends the lease of a call with an unknown outcome if it is still the granted
// one.
func (s *Store) Release(ctx context.Context, key schedule.Key, lease time.Time, calls int32, now time.Time) error {
	err := s.write(ctx, func(t *tx) error {
		if there := t.requests[key]; there != nil && !there.Done && !lease.IsZero() && there.LeaseUntil.Equal(at(lease)) {
			row := there.ExecutionRequest
			row.LeaseUntil, row.Sent, row.Calls = time.Time{}, calls > 0, calls
			t.request(row)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("release key %s: %w", key, err)
	}
	return nil
}

// CloseKey ends a key without a call, as DONE and cancelled.
func (s *Store) CloseKey(ctx context.Context, key schedule.Key, reason schedule.Reason, now time.Time) (closed bool, recorded schedule.ExecutionRequest, err error) {
	err = s.write(ctx, func(t *tx) error {
		if recorded, closed = ledger.CloseKey(key, t.recordOf(key), reason, now); closed {
			t.request(recorded)
		}
		return nil
	})
	if err != nil {
		return false, schedule.ExecutionRequest{}, fmt.Errorf("close key %s: %w", key, err)
	}
	return closed, recorded, nil
}
