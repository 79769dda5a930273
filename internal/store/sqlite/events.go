package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// insertEvents appends to the log of scheduleID, or of whom an event names.
func (t tx) insertEvents(ctx context.Context, scheduleID string, events []schedule.Event, now time.Time) error {
	for i := range events {
		e := &events[i]
		id := e.ScheduleID
		if id == "" {
			id = scheduleID
		}
		_, err := t.exec(ctx, sqlInsertEvent, id, either(e.Time, now).UnixMicro(), string(e.Kind), micros(e.From), micros(e.To),
			e.Count, word(e.Reason), word(e.Actor), word(e.Note), e.Revision)
		if err != nil {
			return fmt.Errorf("insert event %s of %s: %w", e.Kind, id, err)
		}
	}
	return nil
}
