package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
)

// eventsOf completes the events of one schedule with its id and, if missing, a time.
func eventsOf(scheduleID string, events []schedule.Event, now time.Time) []schedule.Event {
	out := make([]schedule.Event, len(events))
	for i, e := range events {
		if e.ScheduleID == "" {
			e.ScheduleID = scheduleID
		}
		if e.Time.IsZero() {
			e.Time = now
		}
		out[i] = e
	}
	return out
}

func insertEvents(ctx context.Context, tx pgx.Tx, events []schedule.Event) error {
	if len(events) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, sqlInsertEvents, eventArgs(events)...); err != nil {
		return fmt.Errorf("insert events: %w", err)
	}
	return nil
}

// runsByInstant groups the runs to insert by the time of their change, usually one.
func runsByInstant(changes []schedule.Change) map[time.Time][]schedule.Run {
	groups := make(map[time.Time][]schedule.Run)
	for i := range changes {
		if len(changes[i].Runs) > 0 {
			groups[changes[i].Now] = append(groups[changes[i].Now], changes[i].Runs...)
		}
	}
	return groups
}
