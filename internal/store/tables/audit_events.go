package tables

import (
	"context"
	"fmt"
	"slices"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
)

// Audits of events.
const (
	// sqlAuditRows reads events and what decides on their entries in one statement, so that they are of one
	// instant.
	sqlAuditRows = `SELECT ` + EventColumns + `, ` + entryColumns + `,
	o.idempotency_key IS NOT NULL,
	coalesce(i.state = 1 AND w.sid IS NULL AND NOT EXISTS (SELECT 1 FROM open_runs x JOIN handler_runs t ON t.idempotency_key = x.idempotency_key WHERE x.sid = i.sid), false)
FROM (SELECT ` + EventColumns + ` FROM events e WHERE e.published_at >= $1 AND e.published_at < $2`
	sqlAuditEntries = ` ORDER BY e.published_at, e.seq LIMIT $3) e
LEFT JOIN inbox i ON i.seq = e.seq LEFT JOIN schedules s ON s.sid = i.sid
LEFT JOIN wakes w ON i.state = 1 AND w.sid = i.sid LEFT JOIN open_runs o ON i.state = 2 AND o.idempotency_key = i.run_key
ORDER BY e.published_at, e.seq, i.sid, i.round`
	sqlAuditAll   = sqlAuditRows + sqlAuditEntries
	sqlAuditTopic = sqlAuditRows + ` AND e.user_id = $4 AND e.topic = $5` + sqlAuditEntries

	sqlStrayEntries = `SELECT i.seq FROM inbox i WHERE i.sid = (SELECT c.sid FROM schedules c WHERE c.schedule_id = $1) AND i.seq BETWEEN $2 AND $3
AND NOT EXISTS (SELECT 1 FROM events e WHERE e.seq = i.seq) ORDER BY i.seq LIMIT $4`
)

// auditChunk is how many runs are read in one statement.
const auditChunk = 500

// AuditEvents passes the events of a range with their entries to visit, by publish time. cut: there are
// more events than f.Limit.
func (t *Tables) AuditEvents(ctx context.Context, f topic.AuditFilter, visit func(*topic.AuditRow)) (cut bool, err error) {
	statement, args := sqlAuditAll, []any{f.From, f.Until, f.Limit + 1}
	if f.Topic != "" {
		statement, args = sqlAuditTopic, append(args, f.UserID, f.Topic)
	}
	var r topic.AuditRow
	fields := append(slices.Concat(eventFields(&r.Event), entryFields(&r.Entry)), &r.RunOpen, &r.Lost)
	events, last := 0, int64(0)
	err = t.read.Each(ctx, statement, fields, func(bad error) error {
		if r.Event.Seq != last {
			events, last = events+1, r.Event.Seq
		}
		if events <= f.Limit && bad == nil {
			visit(&r)
		}
		return bad
	}, args...)
	if err != nil {
		return false, fmt.Errorf("audit events: %w", err)
	}
	return events > f.Limit, nil
}

// AuditRuns are what runs have taken by their records, and by the consumed entries that name them.
func (t *Tables) AuditRuns(ctx context.Context, keys []schedule.Key) ([]topic.AuditRun, error) {
	found := make([]topic.AuditRun, len(keys))
	for from := 0; from < len(keys); from += auditChunk {
		until := min(from+auditChunk, len(keys))
		at := make(map[schedule.Key]*topic.AuditRun, auditChunk)
		for i := from; i < until; i++ {
			found[i].Key = keys[i]
			at[keys[i]] = &found[i]
		}
		if err := t.auditRuns(ctx, keys[from:until], at); err != nil {
			return nil, fmt.Errorf("audit runs: %w", err)
		}
	}
	return found, nil
}

func (t *Tables) auditRuns(ctx context.Context, keys []schedule.Key, at map[schedule.Key]*topic.AuditRun) error {
	var r topic.AuditRun
	var status int16
	err := t.read.Each(ctx, t.dialect.AuditRuns, []any{&r.Key, &status, &r.Open, &r.Known, &r.Count, &r.Digest}, func(bad error) error {
		r.Status, _ = schedule.StatusOf(status) // none: it is not kept
		*at[r.Key] = r
		return bad
	}, keys)
	if err != nil {
		return err
	}
	var key schedule.Key
	var e topic.Offered
	return t.read.Each(ctx, t.dialect.AuditBatches, []any{&key, &e.Topic, &e.Source, &e.EventID, &e.Round}, func(bad error) error {
		at[key].Batch = append(at[key].Batch, e)
		return bad
	}, keys)
}

// StrayEntries are numbers of entries of a consumer whose event does not exist.
func (t *Tables) StrayEntries(ctx context.Context, scheduleID string, first, last int64, limit int) (found []int64, err error) {
	if found, err = collect(ctx, t.read, func(seq *int64) []any { return []any{seq} }, sqlStrayEntries, scheduleID, first, last, limit); err != nil {
		return nil, fmt.Errorf("look for entries of %s without an event: %w", schedule.Quote(scheduleID), err)
	}
	return found, nil
}
