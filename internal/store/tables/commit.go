package tables

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
)

// What runs commit.
const (
	sqlSaveState = `INSERT INTO handlers (sid, state, state_revision, state_run, updated_at) VALUES ($1, $2, 1, $3, $4)
ON CONFLICT (sid) DO UPDATE SET state = excluded.state, state_revision = handlers.state_revision + 1, state_run = excluded.state_run, updated_at = excluded.updated_at`
	sqlForgetState = `DELETE FROM handlers WHERE sid = (SELECT s.sid FROM schedules s WHERE s.schedule_id = $1)`
	sqlFirstState  = `INSERT INTO handlers (sid, state, state_revision, updated_at) SELECT s.sid, $2, 1, $3 FROM schedules s WHERE s.schedule_id = $1
ON CONFLICT (sid) DO NOTHING`
	sqlNextState = `UPDATE handlers SET state = $2, state_revision = state_revision + 1, state_run = NULL, updated_at = $3
WHERE sid = (SELECT s.sid FROM schedules s WHERE s.schedule_id = $1) AND state_revision = $4`
	sqlGetState = `SELECT h.state, h.state_revision, h.state_run, h.updated_at FROM handlers h JOIN schedules s ON s.sid = h.sid WHERE s.schedule_id = $1`

	// Of schedules that retention has deleted.
	sqlPruneStates = `DELETE FROM handlers WHERE sid IN (SELECT h.sid FROM handlers h
WHERE h.updated_at < $1 AND NOT EXISTS (SELECT 1 FROM schedules s WHERE s.sid = h.sid) LIMIT $2)`

	sqlSkipLooped = `UPDATE inbox SET state = 4, reason = $2, ended_at = $3 WHERE seq = $1 AND state = 1`
)

// committer is the schedule of a run that commits.
type committer struct {
	sid                int32
	scheduleID, userID string
}

// commit writes what runs commit, and returns the consumers to wake.
func (d *Dialect) commit(ctx context.Context, q Queries, ends []HandlerEnd, now time.Time) ([]WokenConsumer, error) {
	if len(ends) == 0 {
		return nil, nil
	}
	// Rows of handlers are locked in one order.
	slices.SortStableFunc(ends, func(a, b HandlerEnd) int { return cmp.Compare(a.SID, b.SID) })
	schedules, err := d.committers(ctx, q, ends)
	if err != nil {
		return nil, err
	}
	hops, err := d.hopsOf(ctx, q, ends)
	if err != nil {
		return nil, err
	}
	var calls []Call
	publications := make(map[string]*topic.Publication)
	for i := range ends {
		run, c := ends[i].Run, ends[i].Commit
		s, there := schedules[ends[i].SID]
		if !there {
			return nil, fmt.Errorf("run %s: its schedule is gone", run.Key)
		}
		if c.State != nil {
			calls = append(calls, Call{sqlSaveState, []any{s.sid, string(c.State), run.Key, now}})
		}
		if len(c.Events) == 0 {
			continue
		}
		p := publications[s.userID]
		if p == nil {
			p = &topic.Publication{UserID: s.userID, Now: now}
			publications[s.userID] = p
		}
		before, took := hops[run.Key]
		if !took {
			before = -1
		}
		p.Add(run.Key, s.scheduleID, c.Events, before)
	}
	if err := q.ExecAll(ctx, calls); err != nil {
		return nil, fmt.Errorf("write states: %w", err)
	}
	return d.publishAll(ctx, q, publications)
}

// publishAll writes publications, in the order of their owners.
func (d *Dialect) publishAll(ctx context.Context, q Queries, publications map[string]*topic.Publication) (wake []WokenConsumer, err error) {
	for _, userID := range slices.Sorted(maps.Keys(publications)) {
		_, _, woken, err := d.insertPublication(ctx, q, publications[userID])
		if err != nil {
			return nil, fmt.Errorf("publish events of %s: %w", schedule.Quote(userID), err)
		}
		wake = append(wake, woken...)
	}
	return wake, nil
}

func (d *Dialect) committers(ctx context.Context, q Queries, ends []HandlerEnd) (map[int32]committer, error) {
	var sids []int32
	for i := range ends {
		sids = append(sids, ends[i].SID)
	}
	rows, err := collect(ctx, q, func(c *committer) []any { return []any{&c.sid, &c.scheduleID, &c.userID} }, d.SchedulesBySID, Rows{slices.Compact(sids)})
	if err != nil {
		return nil, fmt.Errorf("read schedules: %w", err)
	}
	of := make(map[int32]committer, len(rows))
	for _, c := range rows {
		of[c.sid] = c
	}
	return of, nil
}

// hopsOf is the greatest number of hops among the events of each run that publishes.
func (d *Dialect) hopsOf(ctx context.Context, q Queries, ends []HandlerEnd) (map[schedule.Key]int32, error) {
	var keys []schedule.Key
	for i := range ends {
		if len(ends[i].Commit.Events) > 0 && ledger.MayHaveEvents(ends[i].Run) {
			keys = append(keys, ends[i].Run.Key)
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	var key schedule.Key
	var n int32
	hops := make(map[schedule.Key]int32, len(keys))
	err := q.Each(ctx, d.HopsOf, []any{&key, &n}, func(bad error) error {
		hops[key] = n
		return bad
	}, keys)
	if err != nil {
		return nil, fmt.Errorf("read hops: %w", err)
	}
	return hops, nil
}

// GetState returns the state of a schedule; the zero value: it has none.
func (t *Tables) GetState(ctx context.Context, scheduleID string) (schedule.State, error) {
	var s schedule.State
	if _, err := one(ctx, t.read, []any{&s.Value, &s.Revision, &s.Run, &s.At}, sqlGetState, scheduleID); err != nil {
		return s, fmt.Errorf("read the state of %s: %w", scheduleID, err)
	}
	return s, nil
}

// SetState replaces the state of a schedule if it has the revision; the zero value: it has another.
func (t *Tables) SetState(ctx context.Context, scheduleID string, revision int64, state json.RawMessage, now time.Time) (after schedule.State, err error) {
	n := 0
	err = t.write(ctx, func(ctx context.Context, q Queries) (err error) {
		if revision == 0 {
			n, err = q.Exec(ctx, sqlFirstState, scheduleID, string(state), now)
		} else {
			n, err = q.Exec(ctx, sqlNextState, scheduleID, string(state), now, revision)
		}
		return err
	})
	if err != nil {
		return after, fmt.Errorf("set the state of %s: %w", scheduleID, err)
	}
	if n == 1 {
		after = schedule.State{Value: state, Revision: revision + 1, At: now.UTC().Truncate(time.Microsecond)}
	}
	return after, nil
}
