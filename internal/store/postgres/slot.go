package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/tables"
)

// snapshot begins a transaction that sees one state of the database.
var snapshot = pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}

// ReadSlot reads all facts about one instant of a schedule.
func (s *Store) ReadSlot(ctx context.Context, q schedule.SlotQuery) (f schedule.SlotFacts, err error) {
	err = pgx.BeginTxFunc(ctx, s.pool, snapshot, func(tx pgx.Tx) error {
		f, err = readSlot(ctx, tx, q)
		return err
	})
	if err != nil {
		return schedule.SlotFacts{}, fmt.Errorf("read slot of schedule %s: %w", schedule.Quote(q.ScheduleID), err)
	}
	return f, nil
}

func readSlot(ctx context.Context, tx pgx.Tx, q schedule.SlotQuery) (f schedule.SlotFacts, err error) {
	if f.Schedule, err = oneSchedule(ctx, tx, sqlGetSchedule, q.ScheduleID); err != nil {
		return f, err
	}
	own := schedule.SlotKey(q.ScheduleID, q.At)
	if f.Runs, err = collectRuns(ctx, tx, sqlSlotRuns, q.ScheduleID, q.At, q.At.Add(time.Second), own[:], schedule.SlotRuns); err != nil {
		return f, fmt.Errorf("runs: %w", err)
	}
	named := make([]int64, len(f.Runs))
	for i := range f.Runs {
		named[i] = f.Runs[i].Revision
	}
	if f.Revisions, err = tables.Revisions(ctx, queries{tx}, sqlSlotRevisions, q.ScheduleID, q.At, named); err != nil {
		return f, fmt.Errorf("revisions: %w", err)
	}
	f.Revisions = slices.CompactFunc(f.Revisions, func(a, b schedule.Revision) bool { return a.Revision == b.Revision })
	f.Events, err = tables.Events(ctx, queries{tx}, sqlSlotEvents, q.ScheduleID, q.At,
		kinds(schedule.LifeEvents), kinds(schedule.PauseEvents), kinds(schedule.PlanFailureEvents), kinds(schedule.RangeEvents),
		schedule.SlotChanges, schedule.SlotRanges)
	if err != nil {
		return f, fmt.Errorf("events: %w", err)
	}
	f.Blocking, err = blocking(ctx, tx, f.AskBlocking(q))
	return f, err
}

func kinds(of []schedule.EventKind) []string {
	out := make([]string, len(of))
	for i, k := range of {
		out[i] = string(k)
	}
	return out
}

// blocking searches the most likely places first.
func blocking(ctx context.Context, tx pgx.Tx, b schedule.Blocking) (runs []schedule.Run, err error) {
	if !b.Asks() {
		return nil, nil
	}
	if b.At.IsZero() {
		runs, err = collectRuns(ctx, tx, sqlBlockingNow, b.OverlapKey, b.Not[:], schedule.SlotBlocking)
	} else {
		slack := schedule.BlockingSlack
		for _, try := range []struct {
			statement, of string
			slack         time.Duration
		}{
			{sqlBlockingKin, b.ScheduleID, 0}, {sqlBlockingKin, b.ScheduleID, slack}, {sqlBlockingOwner, schedule.Owner(b.OverlapKey), slack},
		} {
			runs, err = collectRuns(ctx, tx, try.statement, b.OverlapKey, b.Not[:], schedule.SlotBlocking, b.At.Add(try.slack), b.At.Add(-try.slack), try.of)
			if err != nil || len(runs) > 0 {
				break
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("what was in flight: %w", err)
	}
	return runs, nil
}
