package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Finish settles the runs of keys with definite answers.
func (s *Store) Finish(ctx context.Context, done []schedule.FinishRequest, now time.Time) (finished []schedule.Finished, err error) {
	wake := false
	err = s.write(ctx, func(ctx context.Context, t tx) error {
		finished = make([]schedule.Finished, len(done))
		wake, err = finish(ctx, t, done, finished, now)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("finish calls: %w", err)
	}
	if wake {
		s.wakes.call()
	}
	return finished, nil
}

func finish(ctx context.Context, t tx, done []schedule.FinishRequest, finished []schedule.Finished, now time.Time) (wake bool, err error) {
	keys := make([]schedule.Key, len(done))
	for i := range done {
		keys[i] = done[i].Key
	}
	open, err := openRowsOf(ctx, t, keys)
	if err != nil {
		return false, err
	}
	var all settled
	var rest []int // in done
	for i := range done {
		f, r := &done[i], open[done[i].Key]
		switch {
		case r == nil:
			rest = append(rest, i)
		case !ledger.MayAnswer(&r.Run, &f.Outcome):
			finished[i] = schedule.Finished{Outcome: ledger.OutcomeOf(&r.Run)}
		default:
			e := ledger.SettlementOf(&r.Run, f, now)
			finished[i] = schedule.Finished{Outcome: f.Outcome, Settled: all.settle(r, &e, now)}
			wake = wake || f.WakeLeader && r.Status.Terminal()
		}
	}
	if err := all.write(ctx, t, now); err != nil {
		return false, err
	}
	return wake, finishRest(ctx, t, done, rest, finished, now)
}

// finishRest answers for keys whose run has ended, or that the ledger does not have.
func finishRest(ctx context.Context, t tx, done []schedule.FinishRequest, rest []int, finished []schedule.Finished, now time.Time) error {
	if len(rest) == 0 {
		return nil
	}
	keys := make([]schedule.Key, len(rest))
	for i, at := range rest {
		keys[i] = done[at].Key
	}
	runs, err := readRuns(ctx, t, sqlEndedRuns, keyList(keys))
	if err != nil {
		return fmt.Errorf("read ended runs: %w", err)
	}
	ended := make(map[schedule.Key]*schedule.Run, len(runs))
	for i := range runs {
		ended[runs[i].Key] = &runs[i]
	}
	for _, at := range rest {
		f := &done[at]
		if r := ended[f.Key]; r != nil {
			finished[at] = schedule.Finished{Outcome: ledger.OutcomeOf(r)}
			event, late := ledger.LateAnswer(r, &f.Outcome, now)
			if !late {
				continue
			}
			if err := t.insertEvents(ctx, r.ScheduleID, []schedule.Event{event}, now); err != nil {
				return err
			}
			continue
		}
		outcome, err := finishRequest(ctx, t, f, now)
		if err != nil {
			return fmt.Errorf("key %s: %w", f.Key, err)
		}
		finished[at] = schedule.Finished{Outcome: outcome}
	}
	return nil
}

// finishRequest records the outcome of a key that the ledger does not have, and returns
// the one that counts.
func finishRequest(ctx context.Context, t tx, f *schedule.FinishRequest, now time.Time) (schedule.Outcome, error) {
	records, err := readRequests(ctx, t, []schedule.Key{f.Key})
	known, there := records[f.Key]
	if err != nil || !there {
		return f.Outcome, err
	}
	after := ledger.FinishKey(known, f)
	return after.Outcome, writeRequest(ctx, t, &after, now)
}

// Release ends the lease of a call with an unknown outcome if it is still the granted
// one.
func (s *Store) Release(ctx context.Context, key schedule.Key, lease time.Time, calls int32, now time.Time) error {
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		n, err := t.exec(ctx, sqlRelease, keyArg(key), micros(lease), int64(calls))
		if err == nil && n == 0 {
			_, err = t.exec(ctx, sqlReleaseRequest, keyArg(key), micros(lease), int64(calls), now.UnixMicro())
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("release key %s: %w", key, err)
	}
	return nil
}

// Extend renews the leases of open calls that are still held.
func (s *Store) Extend(ctx context.Context, open []schedule.LeaseExtension, now time.Time) (held []time.Time, err error) {
	err = s.write(ctx, func(ctx context.Context, t tx) error {
		held = make([]time.Time, len(open))
		type call struct {
			key  schedule.Key
			held int64
		}
		extended := make(map[call]time.Time, len(open))
		for i, x := range open {
			c := call{x.Key, x.Held.UnixMicro()}
			if until, again := extended[c]; again {
				held[i] = until
				continue
			}
			until := now.Add(x.Lease).UTC().Truncate(time.Microsecond)
			n, err := execEither(ctx, t, sqlExtend, sqlExtendRequest, keyArg(x.Key), micros(x.Held), until.UnixMicro())
			if err != nil {
				return fmt.Errorf("key %s: %w", x.Key, err)
			}
			ended := false
			if n == 0 {
				if err := t.query(ctx, sqlHasEnded, func(scan scan) error { return scan(&ended) }, keyArg(x.Key)); err != nil {
					return fmt.Errorf("key %s: %w", x.Key, err)
				}
			}
			if n == 1 || ended {
				held[i], extended[c] = until, until
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("extend leases: %w", err)
	}
	return held, nil
}

// MoveKeys gives keys that the number From still holds to the number To, and returns
// those.
func (s *Store) MoveKeys(ctx context.Context, m schedule.KeyMove) (moved []schedule.Key, err error) {
	err = s.write(ctx, func(ctx context.Context, t tx) error {
		moved = nil
		for _, k := range m.Keys {
			n, err := execEither(ctx, t, sqlMoveKey, sqlMoveRequest, keyArg(k), m.From, m.To)
			if err != nil {
				return err
			}
			if n == 1 {
				moved = append(moved, k)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("move keys to instance %d: %w", m.To, err)
	}
	return moved, nil
}

// execEither changes the key of an open run, or else its record.
func execEither(ctx context.Context, t tx, ofRun, ofRecord string, args ...any) (n int64, err error) {
	if n, err = t.exec(ctx, ofRun, args...); err == nil && n == 0 {
		n, err = t.exec(ctx, ofRecord, args...)
	}
	return n, err
}

// CloseKey cancels a key without a call.
func (s *Store) CloseKey(ctx context.Context, key schedule.Key, reason schedule.Reason, now time.Time) (closed bool, after schedule.ExecutionRequest, err error) {
	err = s.write(ctx, func(ctx context.Context, t tx) error {
		known, outside, err := keyAsItIs(ctx, t, key)
		if err != nil {
			return err
		}
		if after, closed = ledger.CloseKey(known, reason, now); !closed {
			return nil
		}
		if outside {
			return writeRequest(ctx, t, &after, now)
		}
		_, err = settle(ctx, t, []schedule.Settlement{endOfKey(&after, now)}, now)
		return err
	})
	if err != nil {
		return false, schedule.ExecutionRequest{}, fmt.Errorf("close key %s: %w", key, err)
	}
	if closed {
		s.wakes.call()
	}
	return closed, after, nil
}

// keyAsItIs reads one key. outside: the ledger does not have it.
func keyAsItIs(ctx context.Context, t tx, key schedule.Key) (known schedule.ExecutionRequest, outside bool, err error) {
	open, err := openRowsOf(ctx, t, []schedule.Key{key})
	if err != nil {
		return known, false, err
	}
	if r := open[key]; r != nil {
		return ledger.KeyOf(&r.Run, r.Lease), false, nil
	}
	ended, err := readRuns(ctx, t, sqlEndedRuns, keyList([]schedule.Key{key}))
	if err != nil {
		return known, false, fmt.Errorf("read ended run: %w", err)
	}
	if len(ended) > 0 {
		return ledger.KeyOf(&ended[0], schedule.KeyLease{}), false, nil
	}
	records, err := readRequests(ctx, t, []schedule.Key{key})
	if there, recorded := records[key]; recorded {
		return there, true, err
	}
	return schedule.ExecutionRequest{Key: key}, true, err
}
