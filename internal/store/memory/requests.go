package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Begin decides which keys may be called, and records the calls.
func (s *Store) Begin(ctx context.Context, reqs []schedule.BeginRequest, now time.Time) ([]schedule.BeginResult, error) {
	results := make([]schedule.BeginResult, len(reqs))
	err := s.write(ctx, func(t *tx) error {
		for i := range reqs {
			results[i] = ledger.Begin(&reqs[i], t.beginFacts(&reqs[i]), now)
			switch results[i].Permission {
			case schedule.Granted, schedule.GrantedAgain, schedule.Refused:
				t.putKey(results[i].Request, now)
			}
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
	f := ledger.BeginFacts{Run: t.runs[q.Key], Lease: t.leases[q.Key], Grant: t.grants[q.Grant.Ref()]}
	scheduleID, lease := q.ScheduleID, f.Lease
	if f.Run != nil {
		scheduleID, f.Queue = f.Run.ScheduleID, t.queueOf(f.Run.Queue.No)
		if v := t.revisions[revisionID{f.Run.ScheduleID, f.Run.Revision}]; v != nil {
			f.Definition = &v.Definition
		}
	} else if there := t.requests[q.Key]; there != nil {
		f.Known, lease = &there.ExecutionRequest, there.Lease
	}
	if s := t.schedules[scheduleID]; s != nil {
		f.Deleted, f.Pause = !s.Alive(), s.Pause
	}
	if state := t.states[scheduleID]; state != nil && f.Run != nil {
		f.State = *state
	}
	f.Holder = t.holder(lease.Holder)
	return &f
}

// putKey writes a key: into its run, which ends if the key is done, or as a record.
func (t *tx) putKey(key schedule.ExecutionRequest, now time.Time) {
	r := t.runs[key.Key]
	switch {
	case r == nil:
		t.request(key, now)
	case key.Done:
		end := ledger.EndOfKey(&key, now)
		t.wake = t.settle(&end, now) || t.wake
	default:
		t.hold(r, key, now)
	}
}

// hold writes the key of an open run into its row.
func (t *tx) hold(r *schedule.Run, key schedule.ExecutionRequest, now time.Time) {
	if key.Calls != r.Deliveries {
		t.change(r, func(r *schedule.Run) { r.Deliveries = key.Calls })
	}
	setUndone(t, t.leases, key.Key, key.Lease)
	switch first := t.firstSent[key.Key]; {
	case key.Calls == 0:
		setUndone(t, t.firstSent, key.Key, time.Time{})
	case first.IsZero():
		setUndone(t, t.firstSent, key.Key, at(now))
	}
}

// setUndone writes an entry of a map; the zero value deletes it.
func setUndone[K, V comparable](t *tx, entries map[K]V, key K, value V) {
	before := entries[key]
	put := func(v V) {
		var none V
		if entries[key] = v; v == none {
			delete(entries, key)
		}
	}
	put(value)
	t.undo = append(t.undo, func() { put(before) })
}

// openKey returns a key that may be held: that of an open run, or a record.
func (t *tx) openKey(key schedule.Key) (there schedule.ExecutionRequest, known bool) {
	if r := t.runs[key]; r != nil {
		there = ledger.KeyOf(r, t.leases[key])
		there.Lease = t.leases[key] // also if a report was faster than the answer to the call
		return there, true
	}
	if q := t.requests[key]; q != nil {
		return q.ExecutionRequest, true
	}
	return schedule.ExecutionRequest{Key: key}, false
}

// Finish settles the runs of keys with definite answers to their calls.
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
	r := t.runs[f.Key]
	switch {
	case r == nil:
		return schedule.Finished{Outcome: t.finishRecord(f, now)}
	case !ledger.MayAnswer(r, &f.Outcome):
		if r.Status.Terminal() {
			if event, late := ledger.LateAnswer(r, &f.Outcome, now); late {
				t.note(r.ScheduleID, []schedule.Event{event}, now)
			}
		}
		return schedule.Finished{Outcome: ledger.OutcomeOf(r)}
	}
	s := ledger.SettlementOf(r, f, now)
	settled := t.settle(&s, now)
	setUndone(t, t.leases, f.Key, schedule.KeyLease{})
	t.wake = t.wake || (f.WakeLeader || r.Queue.In() && !r.IsJob()) && s.To.Terminal()
	return schedule.Finished{Outcome: f.Outcome, Settled: settled}
}

// finishRecord records the outcome of a key without a run, and returns the first one.
func (t *tx) finishRecord(f *schedule.FinishRequest, now time.Time) schedule.Outcome {
	there := t.requests[f.Key]
	if there == nil {
		return f.Outcome
	}
	after := ledger.FinishKey(there.ExecutionRequest, f)
	t.request(after, now)
	return after.Outcome
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
			c := call{x.Key, at(x.Held)}
			until, again := extended[c]
			if there, _ := t.openKey(x.Key); !again && !x.Held.IsZero() && there.Lease.Until.Equal(c.held) {
				until = at(now.Add(x.Lease))
				extended[c] = until
				t.putLease(x.Key, schedule.KeyLease{Holder: there.Lease.Holder, Until: until}, now)
			} else if r := t.runs[x.Key]; r != nil && r.Status.Terminal() {
				until = at(now.Add(x.Lease))
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

func (t *tx) putLease(key schedule.Key, lease schedule.KeyLease, now time.Time) {
	if t.runs[key] != nil {
		setUndone(t, t.leases, key, lease)
		return
	}
	record := t.requests[key].ExecutionRequest
	record.Lease = lease
	t.request(record, now)
}

// Release ends the leases of calls with unknown outcomes that are still the granted ones.
func (s *Store) Release(ctx context.Context, releases []schedule.KeyRelease, now time.Time) error {
	err := s.write(ctx, func(t *tx) error {
		for _, r := range releases {
			there, _ := t.openKey(r.Key)
			if there.Done || r.Held.IsZero() || !there.Lease.Until.Equal(at(r.Held)) {
				continue
			}
			there.Calls, there.Lease = r.Calls, schedule.KeyLease{}
			t.putKey(there, now)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("release %d keys: %w", len(releases), err)
	}
	return nil
}

// CloseKey cancels a key without a call.
func (s *Store) CloseKey(ctx context.Context, key schedule.Key, reason schedule.Reason, now time.Time) (closed bool, after schedule.ExecutionRequest, err error) {
	err = s.write(ctx, func(t *tx) error {
		known, _ := t.openKey(key)
		if after, closed = ledger.CloseKey(known, reason, now); closed {
			t.putKey(after, now)
		}
		return nil
	})
	if err != nil {
		return false, schedule.ExecutionRequest{}, fmt.Errorf("close key %s: %w", key, err)
	}
	return closed, after, nil
}
