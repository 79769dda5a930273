package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
)

// Keys of runs, in their rows. They leave updated_at: nothing that anybody watches has
// changed. Of a lease its end identifies the call, also after it has expired, as long as
// no other call was granted the key.
const (
	sqlBeginSchedules = `SELECT s.schedule_id, s.deleted_at, s.paused, s.paused_until
 FROM json_each(?) j CROSS JOIN schedules s ON s.schedule_id = j.value`
	// While a call is open it counts as sent: its process may be dead and cannot say.
	sqlBeginCall = `UPDATE open_runs SET holder = nullif(?2, 0), lease_until = ?3, deliveries = deliveries + 1, first_sent_at = COALESCE(first_sent_at, ?4)
 WHERE idempotency_key = ?1 AND status = 2`
	sqlRelease = `UPDATE open_runs SET holder = NULL, lease_until = NULL, deliveries = ?3, first_sent_at = CASE WHEN ?3 > 0 THEN first_sent_at END
 WHERE idempotency_key = ?1 AND lease_until = ?2 AND status = 2`
	sqlExtend    = `UPDATE open_runs SET lease_until = ?3 WHERE idempotency_key = ?1 AND lease_until = ?2 AND state = 3`
	sqlHasEnded  = `SELECT EXISTS (SELECT 1 FROM ended_runs e INDEXED BY ended_runs_key WHERE e.idempotency_key = ?)`
	sqlMoveKey   = `UPDATE open_runs SET holder = ?3 WHERE idempotency_key = ?1 AND holder = ?2 AND lease_until IS NOT NULL AND state = 3`
	sqlFirstSent = `SELECT COALESCE((SELECT o.first_sent_at FROM open_runs o WHERE o.idempotency_key = ?1),
 (SELECT e.first_sent_at FROM ended_runs e INDEXED BY ended_runs_key WHERE e.idempotency_key = ?1))`
)

var sqlBeginRuns = `SELECT ` + beginColumns + `, s.deleted_at, s.paused, s.paused_until` + ofKeys + `
 CROSS JOIN schedules s ON s.sid = o.sid`

// Begin decides which keys may be called, and records the calls before they are made.
func (s *Store) Begin(ctx context.Context, reqs []schedule.BeginRequest, now time.Time) ([]schedule.BeginResult, error) {
	var results []schedule.BeginResult
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		results = make([]schedule.BeginResult, len(reqs))
		b := beginning{now: now, facts: make(map[schedule.Key]*ledger.BeginFacts, len(reqs))}
		if err := b.read(ctx, s, t, reqs); err != nil {
			return err
		}
		for i := range reqs {
			f := b.facts[reqs[i].Key]
			f.Grant = b.grants[reqs[i].Grant.Ref()]
			outside := f.Run == nil
			results[i] = ledger.Begin(&reqs[i], f, now)
			f.Enter(&results[i])
			if err := b.record(ctx, t, &results[i], outside); err != nil {
				return fmt.Errorf("key %s: %w", reqs[i].Key, err)
			}
		}
		return b.endRefused(ctx, t)
	})
	if err != nil {
		return nil, fmt.Errorf("begin calls: %w", err)
	}
	if slices.ContainsFunc(results, func(r schedule.BeginResult) bool { return r.Settled }) {
		s.wakes.call()
	}
	return results, nil
}

// beginning is one open Begin.
type beginning struct {
	now     time.Time
	facts   map[schedule.Key]*ledger.BeginFacts
	grants  map[schedule.GrantRef]*schedule.Grant
	refused []schedule.Settlement
}

// read reads what Begin must know of each key.
func (b *beginning) read(ctx context.Context, s *Store, t tx, reqs []schedule.BeginRequest) error {
	keys := make([]schedule.Key, len(reqs))
	refs := make([]schedule.GrantRef, len(reqs))
	for i := range reqs {
		keys[i], refs[i] = reqs[i].Key, reqs[i].Grant.Ref()
	}
	if err := b.readOpen(ctx, t, keys); err != nil {
		return fmt.Errorf("read open runs: %w", err)
	}
	unknown := func(q schedule.BeginRequest) bool { return b.facts[q.Key] == nil }
	if slices.ContainsFunc(reqs, unknown) {
		runs, err := readRuns(ctx, t, sqlEndedRuns, keyList(keys))
		if err != nil {
			return fmt.Errorf("read ended runs: %w", err)
		}
		for i := range runs {
			b.facts[runs[i].Key] = &ledger.BeginFacts{Run: &runs[i]}
		}
	}
	if slices.ContainsFunc(reqs, unknown) {
		if err := b.readOutside(ctx, t, slices.DeleteFunc(slices.Clone(reqs), func(q schedule.BeginRequest) bool { return !unknown(q) })); err != nil {
			return err
		}
	}
	if err := b.readDefinitions(ctx, s, t); err != nil {
		return err
	}
	if err := b.readHolders(ctx, s, t); err != nil {
		return err
	}
	var err error
	b.grants, err = readGrants(ctx, t, refs)
	return err
}

// readOpen reads open runs with their schedules: nearly all keys are of such a run.
func (b *beginning) readOpen(ctx context.Context, t tx, keys []schedule.Key) error {
	var row openRow
	var deleted, until instant
	var paused flag
	targets := append(columnsOfBegin.targets(&row), &deleted, &paused, &until)
	return t.query(ctx, sqlBeginRuns, func(scan scan) error {
		if err := scan(targets...); err != nil {
			return err
		}
		r := row.Run
		b.facts[r.Key] = &ledger.BeginFacts{
			Run: &r, Lease: row.Lease, Deleted: !deleted.IsZero(), Pause: schedule.Pause{Paused: bool(paused), Until: until.Time},
		}
		return nil
	}, keyList(keys))
}

// readOutside reads the records of keys that the ledger does not have, and the schedules
// that their requests name.
func (b *beginning) readOutside(ctx context.Context, t tx, reqs []schedule.BeginRequest) error {
	keys := make([]schedule.Key, len(reqs))
	ids := make([]string, len(reqs))
	for i := range reqs {
		keys[i], ids[i] = reqs[i].Key, reqs[i].ScheduleID
	}
	records, err := readRequests(ctx, t, keys)
	if err != nil {
		return fmt.Errorf("read records of keys: %w", err)
	}
	var id string
	var deleted, until instant
	var paused flag
	of := make(map[string]ledger.BeginFacts)
	err = t.query(ctx, sqlBeginSchedules, func(scan scan) error {
		err := scan(&id, &deleted, &paused, &until)
		of[id] = ledger.BeginFacts{Deleted: !deleted.IsZero(), Pause: schedule.Pause{Paused: bool(paused), Until: until.Time}}
		return err
	}, list(ids))
	if err != nil {
		return fmt.Errorf("read schedules: %w", err)
	}
	for i := range reqs {
		f := of[ids[i]]
		if there, known := records[keys[i]]; known {
			f.Known = &there
		}
		b.facts[keys[i]] = &f
	}
	return nil
}

func (b *beginning) readDefinitions(ctx context.Context, s *Store, t tx) error {
	ids := make([]revision.ID, 0, len(b.facts))
	for _, f := range b.facts {
		if f.Run != nil {
			ids = append(ids, revision.Of(f.Run))
		}
	}
	definitions, err := s.definitionsOf(ctx, t, ids)
	if err != nil {
		return err
	}
	for _, f := range b.facts {
		if f.Run != nil {
			f.Definition = definitions[revision.Of(f.Run)]
		}
	}
	return nil
}

// readHolders reads the holders of leases that run.
func (b *beginning) readHolders(ctx context.Context, s *Store, t tx) error {
	holders := make(map[int32]*ledger.Holder)
	for _, f := range b.facts {
		lease := f.Lease
		if f.Known != nil {
			lease = f.Known.Lease
		}
		if lease.Holder == 0 || !b.now.Before(lease.Until) {
			continue
		}
		h := holders[lease.Holder]
		if h == nil {
			h = &ledger.Holder{No: lease.Holder}
			if err := t.query(ctx, sqlInstanceGeneration, func(scan scan) error { return scan(&h.Generation) }, h.No); err != nil {
				return fmt.Errorf("read holder %d: %w", h.No, err)
			}
			s.look(h)
			holders[h.No] = h
		}
		f.Holder = h
	}
	return nil
}

// record writes the decision of Begin.
func (b *beginning) record(ctx context.Context, t tx, result *schedule.BeginResult, outside bool) error {
	key := result.Request
	switch result.Permission {
	case schedule.Granted, schedule.GrantedAgain, schedule.Refused:
	default:
		return nil // nothing changes
	}
	switch {
	case outside:
		return writeRequest(ctx, t, &key, b.now)
	case key.Done:
		b.refused = append(b.refused, endOfKey(&key, b.now))
		return nil
	}
	n, err := t.exec(ctx, sqlBeginCall, keyArg(key.Key), key.Lease.Holder, key.Lease.Until.UnixMicro(), b.now.UnixMicro())
	if err == nil && n != 1 {
		err = fmt.Errorf("its run is not LAUNCHING")
	}
	return err
}

// endOfKey ends the run of a key for which no call was made.
func endOfKey(key *schedule.ExecutionRequest, now time.Time) schedule.Settlement {
	o := &key.Outcome
	return schedule.Settlement{Key: key.Key, To: o.Status, Reason: o.Reason, ErrorMessage: o.ErrorMessage, CompletedAt: now}
}

func (b *beginning) endRefused(ctx context.Context, t tx) error {
	_, err := settle(ctx, t, b.refused, b.now)
	return err
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
