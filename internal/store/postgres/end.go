package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// endRuns moves locked runs from open_runs to ended_runs, as they are after the rule that
// ended them, and notes them for the leader. All ends go through it or endJudged.
func endRuns(ctx context.Context, tx pgx.Tx, rows []*openRow, now time.Time) error {
	return endAll(ctx, tx, rows, now, true)
}

// endJudged is endRuns for the verdicts of a claim, whose leader knows them. It reads and
// locks nothing first: the rows have only what a planned run's end changes. It fails with
// errRunsMoved if a run is no longer planned.
func endJudged(ctx context.Context, tx pgx.Tx, rows []*openRow, now time.Time) error {
	return endAll(ctx, tx, rows, now, false)
}

func endAll(ctx context.Context, tx pgx.Tx, rows []*openRow, now time.Time, note bool) error {
	if len(rows) == 0 {
		return nil
	}
	if one, ok := tx.(oneByOne); ok {
		return one.end(ctx, rows, now, note)
	}
	if err := endTogether(ctx, tx, rows, now, note); err != nil {
		return err
	}
	return noteFailed(ctx, tx, rows)
}

func endTogether(ctx context.Context, tx pgx.Tx, rows []*openRow, now time.Time, note bool) error {
	args := append([]any{
		now, note, column(rows, rowKey),
		column(rows, func(r **openRow) pgtype.Text { return noneOrText((*r).Reason) }),
		column(rows, func(r **openRow) pgtype.Timestamptz { return noneOrTime((*r).CompletedAt) }),
	}, outcomeArgs(rows)...)
	n, err := affect(ctx, tx, sqlEnd, args...)
	if err == nil && n != len(rows) {
		err = fmt.Errorf("%d of %d: %w", n, len(rows), errRunsMoved)
	}
	if err != nil {
		return fmt.Errorf("end runs: %w", err)
	}
	return nil
}

// oneByOne is a transaction that is repeated because history refused a run: it has a run
// of the slot with the same nth. Each run then ends under its own savepoint.
type oneByOne struct {
	pgx.Tx
	store *Store
}

func (tx oneByOne) end(ctx context.Context, rows []*openRow, now time.Time, note bool) error {
	var ended []*openRow
	for _, r := range rows {
		there, err := tx.endOne(ctx, r, now, note)
		if err != nil {
			return err
		}
		if there { // the first end stays
			tx.store.endedTwice.Add(1)
			tx.store.log.ErrorContext(ctx, "a run has ended twice", "key", r.Key, "schedule_id", r.ScheduleID, "run_at", r.RunAt, "status", r.Status)
			if err := insertEvents(ctx, tx, []schedule.Event{ledger.EndedTwice(&r.Run, now)}); err != nil {
				return err
			}
			continue
		}
		ended = append(ended, r)
	}
	return noteFailed(ctx, tx, ended)
}

// EndedTwice counts the runs that this process ended although history had their end.
func (s *Store) EndedTwice() uint64 { return s.endedTwice.Load() }

// endOne ends a run. there: history has it already, and it only leaves open_runs.
func (tx oneByOne) endOne(ctx context.Context, r *openRow, now time.Time, note bool) (there bool, err error) {
	end := func() error {
		return pgx.BeginFunc(ctx, tx.Tx, func(savepoint pgx.Tx) error { return endTogether(ctx, savepoint, []*openRow{r}, now, note) })
	}
	if err = end(); !nthTaken(err) {
		return false, err
	}
	if err := tx.QueryRow(ctx, sqlEndedTwice, r.Key[:]).Scan(&r.ScheduleID, &there); err != nil {
		return false, fmt.Errorf("look for run %s in history: %w", r.Key, err)
	}
	if there {
		_, err := tx.Exec(ctx, sqlDropEnded, keyBytes([]schedule.Key{r.Key}))
		return true, err
	}
	if _, err := tx.Exec(ctx, sqlNextNth, r.Key[:]); err != nil {
		return false, fmt.Errorf("give run %s another number: %w", r.Key, err)
	}
	return false, end()
}

// endPlanned deletes the planned slots after DropPlannedAfter and ends planned runs, as
// each change says. A schedule that is new has neither.
func endPlanned(ctx context.Context, tx pgx.Tx, changes []schedule.Change, known map[string]bool) error {
	type change = schedule.Change
	var dropping, ending []change
	for i := range changes {
		if !known[changes[i].ScheduleID] {
			continue
		}
		if !changes[i].DropPlannedAfter.IsZero() {
			dropping = append(dropping, changes[i])
		}
		if changes[i].EndDue.To != "" {
			ending = append(ending, changes[i])
		}
	}
	id := func(c *change) string { return c.ScheduleID }
	if len(dropping) > 0 {
		after := column(dropping, func(c *change) pgtype.Timestamptz { return noneOrTime(c.DropPlannedAfter) })
		if _, err := tx.Exec(ctx, sqlDropPlanned, column(dropping, id), after); err != nil {
			return fmt.Errorf("drop planned runs: %w", err)
		}
	}
	if len(ending) == 0 {
		return nil
	}
	rows, err := lockOpen(ctx, tx, sqlLockPlannedOf, column(ending, id))
	if err != nil {
		return err
	}
	return endPlannedRows(ctx, tx, rows, ending)
}

// endPlannedRows ends the planned runs of changed schedules, as each change says.
func endPlannedRows(ctx context.Context, tx pgx.Tx, rows []*openRow, changes []schedule.Change) error {
	of := make(map[string]*schedule.Change, len(changes))
	for i := range changes {
		of[changes[i].ScheduleID] = &changes[i]
	}
	ended := make(map[time.Time][]*openRow) // usually of one instant
	for _, r := range rows {
		c := of[r.ScheduleID]
		if !c.EndRest && !r.Trigger.FromSpec() {
			continue
		}
		if r.settle(&schedule.Settlement{Key: r.Key, To: c.EndDue.To, Reason: c.EndDue.Reason, CompletedAt: c.Now}, c.Now) {
			ended[c.Now] = append(ended[c.Now], r)
		}
	}
	for now, rows := range ended {
		if err := endRuns(ctx, tx, rows, now); err != nil {
			return err
		}
	}
	return nil
}
