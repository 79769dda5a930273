package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// changePlanned drops and ends planned runs, as each change of their schedules says. A
// schedule that is new has none.
func changePlanned(ctx context.Context, tx pgx.Tx, changes []schedule.Change, known map[string]bool) error {
	of := make(map[string]*schedule.Change, len(changes))
	var ids []string
	for i := range changes {
		if c := &changes[i]; known[c.ScheduleID] && ledger.ChangesPlanned(c) {
			of[c.ScheduleID] = c
			ids = append(ids, c.ScheduleID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := lockOpen(ctx, tx, sqlLockPlannedOf, ids)
	if err != nil {
		return err
	}
	if err := nameSchedules(ctx, tx, rows); err != nil {
		return err
	}
	var dropped [][]byte
	ended := make(map[time.Time][]*openRow) // usually of one instant
	for _, r := range rows {
		c := of[r.ScheduleID]
		drop, end := ledger.ChangePlanned(c, &r.Run)
		if drop {
			dropped = append(dropped, r.Key[:])
		}
		if end != nil && r.settle(end, c.Now) {
			ended[c.Now] = append(ended[c.Now], r)
		}
	}
	if len(dropped) > 0 {
		if _, err := tx.Exec(ctx, sqlDropPlanned, dropped); err != nil {
			return fmt.Errorf("drop planned runs: %w", err)
		}
	}
	for now, rows := range ended {
		if err := endRuns(ctx, tx, rows, now); err != nil {
			return err
		}
	}
	return nil
}
