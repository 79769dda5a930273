package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
	"github.com/carillon/carillon/internal/store/tables"
)

// launching: a call may be made. A run of a queue is ENQUEUED meanwhile.
const launching = `(status = 2 OR queue_state = 4)`

// Begin leaves updated_at: nothing that anybody watches has changed.
const (
	sqlBeginSchedules = `SELECT s.schedule_id, s.deleted_at, s.paused, s.paused_until
 FROM json_each(?) j CROSS JOIN schedules s ON s.schedule_id = j.value`
	// While a call is open it counts as sent: its process may be dead and cannot say.
	sqlBeginCall = `UPDATE open_runs SET holder = nullif(?2, 0), lease_until = ?3, deliveries = deliveries + 1, first_sent_at = COALESCE(first_sent_at, ?4)
 WHERE idempotency_key = ?1 AND ` + launching
)

var sqlBeginRuns = `SELECT ` + beginColumns + `, s.deleted_at, s.paused, s.paused_until, h.state, h.state_revision` + ofKeys + `
 CROSS JOIN schedules s ON s.sid = o.sid LEFT JOIN handlers h ON h.sid = o.sid`

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
	if err := b.readQueues(ctx, t); err != nil {
		return err
	}
	if err := b.readHolders(ctx, s, t); err != nil {
		return err
	}
	var err error
	b.grants, err = dialect.ReadGrants(ctx, queries{t}, refs)
	return err
}

// readOpen reads open runs with their schedules: nearly all keys are of such a run.
func (b *beginning) readOpen(ctx context.Context, t tx, keys []schedule.Key) error {
	var row openRow
	var deleted, until instant
	var paused flag
	var state *string
	var revision *int64
	targets := append(columnsOfBegin.targets(&row), &deleted, &paused, &until, &state, &revision)
	return t.query(ctx, sqlBeginRuns, func(scan scan) error {
		if err := scan(targets...); err != nil {
			return err
		}
		r := row.Run
		b.facts[r.Key] = &ledger.BeginFacts{
			Run: &r, Lease: row.Lease, Deleted: !deleted.IsZero(), Pause: schedule.Pause{Paused: bool(paused), Until: until.Time},
		}
		if state != nil {
			b.facts[r.Key].State = schedule.State{Value: json.RawMessage(*state), Revision: *revision}
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
	records, err := dialect.Records(ctx, queries{t}, keys)
	if err != nil {
		return err
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

// readQueues reads the queues of runs that are in one.
func (b *beginning) readQueues(ctx context.Context, t tx) error {
	var runs []*schedule.Run
	for _, f := range b.facts {
		if f.Run != nil && f.Run.Queue.In() {
			runs = append(runs, f.Run)
		}
	}
	queues, err := tables.QueuesOf(ctx, queries{t}, runs)
	if err != nil {
		return err
	}
	for _, f := range b.facts {
		if f.Run != nil {
			f.Queue = queues[f.Run.Queue.No]
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
		return dialect.WriteRecords(ctx, queries{t}, []schedule.ExecutionRequest{key}, b.now)
	case key.Done:
		b.refused = append(b.refused, ledger.EndOfKey(&key, b.now))
		return nil
	}
	n, err := t.exec(ctx, sqlBeginCall, keyArg(key.Key), key.Lease.Holder, key.Lease.Until.UnixMicro(), b.now.UnixMicro())
	if err == nil && n != 1 {
		err = fmt.Errorf("its run is not LAUNCHING")
	}
	return err
}

func (b *beginning) endRefused(ctx context.Context, t tx) error {
	_, _, err := settle(ctx, t, b.refused, b.now)
	return err
}
