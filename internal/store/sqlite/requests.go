package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Finish records definite outcomes and settles the runs of their keys.
func (s *Store) Finish(ctx context.Context, done []schedule.FinishRequest, now time.Time) (finished []schedule.Finished, err error) {
	wake := false
	err = s.write(ctx, func(ctx context.Context, t tx) error {
		finished, wake = make([]schedule.Finished, len(done)), false
		var settlements []settling
		var places []int // in done
		for i := range done {
			d := &done[i]
			outcome, recorded, err := finish(ctx, t, d, now)
			if err != nil {
				return fmt.Errorf("key %s: %w", d.Key, err)
			}
			if finished[i].Outcome = outcome; recorded {
				settlements = append(settlements, settling{d.Key, func(r *schedule.Run) schedule.Settlement { return ledger.SettlementOf(r, d, now) }})
				places = append(places, i)
			}
		}
		moved, err := settle(ctx, t, settlements, now)
		for i := range moved {
			d := places[i]
			finished[d].Settled = moved[i]
			wake = wake || moved[i] && done[d].WakeLeader && done[d].Outcome.Status.Terminal()
		}
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

// finish records one outcome. recorded = false: an earlier one stays.
func finish(ctx context.Context, t tx, f *schedule.FinishRequest, now time.Time) (_ schedule.Outcome, recorded bool, err error) {
	o := &f.Outcome
	record := func(statement string) (bool, error) {
		n, err := t.exec(ctx, statement, o.OK(), word(o.Status), word(o.Reason), word(o.RunID), word(o.TraceID),
			word(o.ErrorCode), word(o.ErrorMessage), now.UnixMicro(), keyArg(f.Key), f.Unsent)
		return n > 0, err
	}
	if recorded, err := record(sqlFinish); err != nil || recorded {
		return *o, true, err
	}
	requests, err := readRequests(ctx, t, []schedule.Key{f.Key})
	there, known := requests[f.Key]
	switch {
	case err != nil, !known:
		return *o, true, err
	case !o.Supersedes(there.Outcome):
		return there.Outcome, false, nil
	}
	_, err = record(sqlFinishSuperseded)
	return *o, true, err
}

// Release ends the lease of a call with an unknown outcome if it is still the granted
// one.
func (s *Store) Release(ctx context.Context, key schedule.Key, lease time.Time, calls int32, now time.Time) error {
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		_, err := t.exec(ctx, sqlRelease, int64(calls), now.UnixMicro(), keyArg(key), micros(lease))
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
			n, err := t.exec(ctx, sqlExtend, until.UnixMicro(), now.UnixMicro(), keyArg(x.Key), micros(x.Held))
			if err != nil {
				return fmt.Errorf("key %s: %w", x.Key, err)
			}
			if n == 1 {
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

// CloseKey ends a key without a call, as DONE and cancelled.
func (s *Store) CloseKey(ctx context.Context, key schedule.Key, reason schedule.Reason, now time.Time) (closed bool, recorded schedule.ExecutionRequest, err error) {
	err = s.write(ctx, func(ctx context.Context, t tx) error {
		requests, err := readRequests(ctx, t, []schedule.Key{key})
		if err != nil {
			return err
		}
		var known *schedule.ExecutionRequest
		if there, found := requests[key]; found {
			known = &there
		}
		if recorded, closed = ledger.CloseKey(key, known, reason, now); !closed {
			return nil
		}
		_, err = t.exec(ctx, sqlRefuse, keyArg(key), recorded.RequestHash[:], string(schedule.StatusCancelled), word(reason), now.UnixMicro(), nil)
		return err
	})
	if err != nil {
		return false, schedule.ExecutionRequest{}, fmt.Errorf("close key %s: %w", key, err)
	}
	return closed, recorded, nil
}
