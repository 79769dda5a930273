package tables

import (
	"context"
	"fmt"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
)

// Reads of events and inboxes.
const (
	entryColumns = `s.schedule_id, i.sid, i.seq, i.round, i.state, i.reason, i.run_key, i.attempts, i.created_at, i.offered_at, i.ended_at`

	sqlGetTopicEvent = `SELECT ` + EventColumns + `, e.data FROM events e WHERE e.user_id = $1 AND e.topic = $2 AND e.source = $3 AND e.event_id = $4`
	sqlInboxOf       = `SELECT ` + entryColumns + ` FROM inbox i JOIN schedules s ON s.sid = i.sid WHERE i.seq = $1 ORDER BY s.schedule_id, i.round`

	// sqlConsumptions is one statement, so that the entries and what decides on them are of one instant.
	sqlConsumptions = `SELECT ` + entryColumns + `, s.deleted_at IS NOT NULL, s.paused, s.pause_note, s.paused_by, s.paused_until, s.user_id || '/' || s.overlap_key,
	w.fire_at, (SELECT o.idempotency_key FROM open_runs o JOIN handler_runs t ON t.idempotency_key = o.idempotency_key WHERE o.sid = i.sid ORDER BY o.run_at LIMIT 1),
	h.created_at, EXISTS (SELECT 1 FROM open_runs o WHERE o.idempotency_key = i.run_key)
FROM inbox i JOIN schedules s ON s.sid = i.sid LEFT JOIN wakes w ON w.sid = i.sid LEFT JOIN handler_runs h ON h.idempotency_key = i.run_key
WHERE i.seq = $1 ORDER BY s.schedule_id, i.round`

	sqlListTopicEvents = `SELECT ` + EventColumns + `, e.data FROM events e WHERE e.user_id = $1 AND e.topic = $2 AND e.seq < $3 ORDER BY e.seq DESC LIMIT $4`
	sqlListInbox       = `SELECT ` + entryColumns + `, ` + EventColumns + ` FROM inbox i JOIN schedules s ON s.sid = i.sid JOIN events e ON e.seq = i.seq
WHERE i.sid = (SELECT c.sid FROM schedules c WHERE c.schedule_id = $1) AND ($2 = 0 OR i.state = $2) AND (i.seq, i.round) > ($3, $4)
ORDER BY i.seq, i.round LIMIT $5`

	// Entries that wait keep their event and the batch of their run.
	sqlPruneInbox = `DELETE FROM inbox WHERE (sid, seq, round) IN (SELECT i.sid, i.seq, i.round FROM inbox i WHERE i.ended_at < $1 ORDER BY i.ended_at LIMIT $2)`
	sqlPruneTaken = `DELETE FROM handler_runs WHERE idempotency_key IN (SELECT h.idempotency_key FROM handler_runs h
	WHERE h.created_at < $1 AND NOT EXISTS (SELECT 1 FROM inbox i WHERE i.run_key = h.idempotency_key) ORDER BY h.created_at LIMIT $2)`
	sqlPruneTopicEvents = `DELETE FROM events WHERE seq IN (SELECT e.seq FROM events e
	WHERE e.published_at < $1 AND NOT EXISTS (SELECT 1 FROM inbox i WHERE i.seq = e.seq) ORDER BY e.published_at LIMIT $2)`

	sqlCountPendingOf = `SELECT count(*) FROM (SELECT 1 FROM schedules s JOIN inbox i ON i.sid = s.sid AND i.state = 1 WHERE s.user_id = $1 LIMIT $2) c`

	sqlCountInbox = `SELECT i.state, count(*) FROM inbox i WHERE i.sid = (SELECT c.sid FROM schedules c WHERE c.schedule_id = $1) GROUP BY i.state`
)

func entryFields(e *topic.Entry) []any {
	return []any{&e.ScheduleID, &e.SID, &e.Seq, &e.Round, &e.State, &e.Reason, &e.Run, &e.Attempts, &e.CreatedAt, &e.OfferedAt, &e.EndedAt}
}

// GetEvent returns an event with its data, and its state for each consumer; schedule.ErrNotFound.
func (t *Tables) GetEvent(ctx context.Context, userID string, id topic.ID) (*topic.Event, []topic.Entry, error) {
	var e topic.Event
	there, err := one(ctx, t.read, append(eventFields(&e), &e.Data), sqlGetTopicEvent, userID, id.Topic, id.Source, id.EventID)
	if err == nil && !there {
		err = schedule.ErrNotFound
	}
	if err != nil {
		return nil, nil, fmt.Errorf("get event %s: %w", schedule.Quote(id.EventID), err)
	}
	entries, err := collect(ctx, t.read, entryFields, sqlInboxOf, e.Seq)
	if err != nil {
		return nil, nil, fmt.Errorf("read the inboxes of event %s: %w", schedule.Quote(id.EventID), err)
	}
	return &e, entries, nil
}

// Consumptions are the entries of an event with what decides on each, by consumer and round.
func (t *Tables) Consumptions(ctx context.Context, seq int64) ([]topic.Consumption, error) {
	found, err := collect(ctx, t.read, func(c *topic.Consumption) []any {
		return append(entryFields(&c.Entry), &c.Deleted, &c.Pause.Paused, &c.Pause.Note, &c.Pause.By, &c.Pause.Until, &c.OverlapKey, &c.WakeAt, &c.Own, &c.TakenAt, &c.RunOpen)
	}, sqlConsumptions, seq)
	if err != nil {
		return nil, fmt.Errorf("read the entries of event %d: %w", seq, err)
	}
	return found, nil
}

// ListTopicEvents lists events of a topic, the newest first.
func (t *Tables) ListTopicEvents(ctx context.Context, f topic.EventFilter) ([]topic.Event, error) {
	found, err := collect(ctx, t.read, func(e *topic.Event) []any { return append(eventFields(e), &e.Data) },
		sqlListTopicEvents, f.UserID, f.Topic, orLast(f.Before), schedule.PageSize(f.Limit))
	if err != nil {
		return nil, fmt.Errorf("list events of topic %s: %w", schedule.Quote(f.Topic), err)
	}
	return found, nil
}

// ListInbox lists entries of a consumer, in the order of the events.
func (t *Tables) ListInbox(ctx context.Context, f topic.InboxFilter) ([]topic.InboxEntry, error) {
	found, err := collect(ctx, t.read, func(e *topic.InboxEntry) []any { return append(entryFields(&e.Entry), eventFields(&e.Event)...) },
		sqlListInbox, f.ScheduleID, int16(f.State), f.AfterSeq, f.AfterRound, schedule.PageSize(f.Limit))
	if err != nil {
		return nil, fmt.Errorf("list the inbox of %s: %w", schedule.Quote(f.ScheduleID), err)
	}
	return found, nil
}

// CountPendingOf counts the pending entries of an owner's consumers, up to limit.
func (t *Tables) CountPendingOf(ctx context.Context, userID string, limit int) (n int, err error) {
	if _, err = one(ctx, t.read, []any{&n}, sqlCountPendingOf, userID, limit); err != nil {
		return 0, fmt.Errorf("count the pending events of owner %s: %w", schedule.Quote(userID), err)
	}
	return n, nil
}

// CountInbox counts the entries of a consumer by state.
func (t *Tables) CountInbox(ctx context.Context, scheduleID string) (map[topic.State]int, error) {
	type count struct {
		state topic.State
		n     int
	}
	found, err := collect(ctx, t.read, func(c *count) []any { return []any{&c.state, &c.n} }, sqlCountInbox, scheduleID)
	if err != nil {
		return nil, fmt.Errorf("count the inbox of %s: %w", schedule.Quote(scheduleID), err)
	}
	counts := make(map[topic.State]int, len(found))
	for _, c := range found {
		counts[c.state] = c.n
	}
	return counts, nil
}
