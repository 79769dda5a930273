package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/tables"
)

// The kinds of changes; see schema/postgres/00028_core.sql.
const (
	changeSchedule = 1
	changeRun      = 2
	changeEnd      = 3
	changeCancel   = 4
	changeWake     = 5
)

// note adds a change that names runs.
func note(ctx context.Context, tx pgx.Tx, kind int16, rows []*openRow) error {
	if len(rows) == 0 {
		return nil
	}
	first, last := rows[0].Bucket, rows[0].Bucket
	for _, r := range rows {
		first, last = min(first, r.Bucket), max(last, r.Bucket)
	}
	if _, err := tx.Exec(ctx, sqlNote, kind, first, last, column(rows, rowKey)); err != nil {
		return fmt.Errorf("note changed runs: %w", err)
	}
	return nil
}

// noteWoken notes wake rows of consumers, and wakes their leaders after the commit.
func noteWoken(ctx context.Context, tx pgx.Tx, woken []tables.WokenConsumer) error {
	ids := make([]string, len(woken))
	var buckets bucketRange
	for i := range woken {
		ids[i] = woken[i].ScheduleID
		b := schedule.Bucket(woken[i].OverlapKey)
		buckets.add(b, b)
		wakeListeners(tx, woken[i].OverlapKey)
	}
	if _, err := tx.Exec(ctx, sqlNoteWoken, changeWake, buckets.first, buckets.last, ids); err != nil {
		return fmt.Errorf("note which consumers were woken: %w", err)
	}
	return nil
}

// claimReader is the ledger.Reader of one claim transaction.
type claimReader struct {
	ctx         context.Context // ledger.Reader's methods take none
	store       *Store
	tx          pgx.Tx
	term        schedule.Term
	position    ledger.Position
	definitions map[schedule.RevisionID]*schedule.Definition // all that Facts returned
}

// Changes reads what was committed since the position, and reads again what that
// names. The level is READ COMMITTED: the later statements see at least what the
// first one saw.
func (r *claimReader) Changes() (ledger.Changes, error) {
	named, err := r.readNamed()
	if err != nil {
		return ledger.Changes{}, err
	}
	var changes ledger.Changes
	open := make(map[schedule.Key]bool) // in changes
	if len(named.keys) > 0 {
		if err := r.readRuns(named, &changes, open); err != nil {
			return ledger.Changes{}, fmt.Errorf("read changed runs: %w", err)
		}
	}
	if len(named.schedules) > 0 || len(changes.Runs) > 0 {
		if err := r.readSchedules(named, &changes, open); err != nil {
			return ledger.Changes{}, fmt.Errorf("read changed schedules: %w", err)
		}
	}
	if err := r.readWakes(named, &changes); err != nil {
		return ledger.Changes{}, err
	}
	for key := range named.ended {
		if !open[key] { // else it was deleted and inserted again
			changes.Ended = append(changes.Ended, key)
		}
	}
	return changes, nil
}

// changesNamed is what rows of changes name.
type changesNamed struct {
	schedules map[string]bool
	keys      map[schedule.Key]bool // to be read again
	ended     map[schedule.Key]bool
	woken     map[string]bool // consumers whose wake rows are to be read again
}

// readNamed reads the rows after the position and moves it.
func (r *claimReader) readNamed() (*changesNamed, error) {
	generation, snapshot, ok := strings.Cut(string(r.position), " ")
	if !ok {
		return nil, ledger.ErrPositionLost
	}
	var (
		next pgtype.Text
		kind pgtype.Int2
		ids  []string
		keys [][]byte
		out  = &changesNamed{make(map[string]bool), make(map[schedule.Key]bool), make(map[schedule.Key]bool), make(map[string]bool)}
	)
	first, last := r.term.Buckets()
	err := each(r.ctx, r.tx, []any{&next, &kind, &ids, &keys}, func() error {
		if !kind.Valid {
			r.position = ledger.Position(next.String)
			return nil
		}
		for _, id := range ids {
			if kind.Int16 == changeWake {
				out.woken[id] = true
			} else {
				out.schedules[id] = true
			}
		}
		into := out.keys
		if kind.Int16 == changeEnd {
			into = out.ended
		}
		for _, key := range keys {
			into[schedule.Key(key)] = true
		}
		return nil
	}, sqlChanges, snapshot, first, last)
	if stateOf(err) == stateInvalidText { // no snapshot
		return nil, ledger.ErrPositionLost
	}
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(string(r.position), generation+" ") {
		return nil, ledger.ErrPositionLost
	}
	return out, nil
}

func (r *claimReader) readRuns(named *changesNamed, changes *ledger.Changes, open map[schedule.Key]bool) error {
	first, last := r.term.Buckets()
	runs, err := r.store.shardRuns(r.ctx, r.tx, sqlChangedRuns, keyBytes(slices.Collect(maps.Keys(named.keys))))
	if err != nil {
		return err
	}
	gone := maps.Clone(named.keys)
	for i := range runs {
		delete(gone, runs[i].Key)
		open[runs[i].Key] = true
		if runs[i].bucket >= first && runs[i].bucket <= last {
			changes.Runs = append(changes.Runs, runs[i].Run)
		}
	}
	maps.Copy(named.ended, gone)
	return nil
}

// readSchedules reads the schedules that are named, and those of the changed runs
// that are paused or deleted, with all of their planned runs.
func (r *claimReader) readSchedules(named *changesNamed, changes *ledger.Changes, open map[schedule.Key]bool) error {
	ids := maps.Clone(named.schedules)
	for i := range changes.Runs {
		ids[changes.Runs[i].ScheduleID] = true
	}
	states, err := scheduleStates(r.ctx, r.tx, slices.Collect(maps.Keys(ids)))
	if err != nil {
		return err
	}
	changes.Schedules = slices.DeleteFunc(states, func(s ledger.ScheduleNow) bool {
		return !s.Deleted && !s.Pause.Paused && !named.schedules[s.ScheduleID]
	})
	if len(changes.Schedules) == 0 {
		return nil
	}
	at := make(map[string]*ledger.ScheduleNow, len(changes.Schedules))
	for i := range changes.Schedules {
		at[changes.Schedules[i].ScheduleID] = &changes.Schedules[i]
	}
	first, last := r.term.Buckets()
	runs, err := r.store.shardRuns(r.ctx, r.tx, sqlPlannedOfSchedules, slices.Collect(maps.Keys(at)), first, last)
	for i := range runs {
		open[runs[i].Key] = true
		of := at[runs[i].ScheduleID]
		of.Planned = append(of.Planned, runs[i].Run)
	}
	return err
}

// readWakes reads the wake rows of consumers that were woken, edited, paused, resumed or deleted.
func (r *claimReader) readWakes(named *changesNamed, changes *ledger.Changes) (err error) {
	maps.Copy(named.woken, named.schedules)
	if len(named.woken) == 0 {
		return nil
	}
	first, last := r.term.Buckets()
	changes.Woken = slices.Collect(maps.Keys(named.woken))
	changes.Wakes, err = dialect.WakesOf(r.ctx, queries{r.tx}, changes.Woken, first, last)
	return err
}

// scheduleState is the state of a schedule.
type scheduleState struct {
	deleted, paused bool
	note, by        pgtype.Text
	until           pgtype.Timestamptz
}

func (w *scheduleState) targets() []any {
	return []any{&w.deleted, &w.paused, &w.note, &w.by, &w.until}
}

// now is the state of the schedule. A pause whose end cannot be read has none.
func (w *scheduleState) now(id string) ledger.ScheduleNow {
	var d decoding
	return ledger.ScheduleNow{ScheduleID: id, Deleted: w.deleted, Pause: schedule.Pause{
		Paused: w.paused, Note: w.note.String, By: w.by.String, Until: d.time("paused_until", w.until),
	}}
}

func scheduleStates(ctx context.Context, tx pgx.Tx, ids []string) (states []ledger.ScheduleNow, err error) {
	err = eachSchedule(ctx, tx, func(now ledger.ScheduleNow) { states = append(states, now) }, sqlScheduleStates, ids)
	return states, err
}

// InFlight returns the runs that are in flight.
func (r *claimReader) InFlight(keys []schedule.Key) (map[schedule.Key]bool, error) {
	return keysOf(r.ctx, r.tx, sqlInFlight, keyBytes(keys))
}

// Facts returns the definitions of revisions and the grants that these name.
func (r *claimReader) Facts(ids []schedule.RevisionID) (ledger.Facts, error) {
	set := make(map[schedule.RevisionID]struct{}, len(ids))
	for _, id := range ids {
		set[id] = struct{}{}
	}
	definitions, err := r.store.definitionsOf(r.ctx, r.tx, set)
	if err != nil {
		return ledger.Facts{}, err
	}
	maps.Copy(r.definitions, definitions)
	refs := make([]schedule.GrantRef, 0, len(definitions))
	for _, d := range definitions {
		refs = append(refs, d.GrantRef())
	}
	grants, err := dialect.ReadGrants(r.ctx, queries{r.tx}, refs)
	return ledger.Facts{Definitions: definitions, Grants: grants}, err
}

// sqlSuperseded are planned runs whose schedule has claimed a run of a later slot.
const sqlSuperseded = `
SELECT o.idempotency_key FROM open_runs o
WHERE o.idempotency_key = ANY($1::bytea[]) AND o.status = 1 AND (
	EXISTS (SELECT FROM open_runs l WHERE l.sid = o.sid AND l.run_at > o.run_at AND l.status > 1 AND (l.queue_no IS NULL OR l.epoch > 0))
	OR EXISTS (SELECT FROM ended_runs l WHERE l.sid = o.sid AND l.run_at > o.run_at AND CASE WHEN l.queue_no IS NULL THEN l.claimed_at IS NOT NULL ELSE l.epoch > 0 END))`

// Superseded returns the planned runs for which a newer slot has started.
func (r *claimReader) Superseded(keys []schedule.Key) (map[schedule.Key]bool, error) {
	return keysOf(r.ctx, r.tx, sqlSuperseded, keyBytes(keys))
}
