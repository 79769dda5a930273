package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// eventColumns and eventRow belong together.
const eventColumns = `event_id, schedule_id, time, kind, from_at, to_at, count, reason, actor, note, revision`

type eventRow struct {
	id, count, revision                number
	scheduleID, kind, reason, by, note text
	at, from, to                       instant
}

func (r *eventRow) columns() []any {
	return []any{&r.id, &r.scheduleID, &r.at, &r.kind, &r.from, &r.to, &r.count, &r.reason, &r.by, &r.note, &r.revision}
}

func (r *eventRow) event() schedule.Event {
	return schedule.Event{
		ID: int64(r.id), ScheduleID: string(r.scheduleID), Time: r.at.Time, Kind: schedule.EventKind(r.kind),
		From: r.from.Time, To: r.to.Time, Count: int64(r.count), Reason: schedule.Reason(r.reason),
		Actor: string(r.by), Note: string(r.note), Revision: int64(r.revision),
	}
}

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
