package tables

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// queueRow is a row of queues.
type queueRow struct {
	schedule.Queue
	definition string
}

func queueFields(r *queueRow) []any {
	return []any{
		&r.No, &r.QueueID, &r.UserID, &r.Shared, &r.definition, &r.Revision, &r.Pause.Paused, &r.Pause.Note, &r.Pause.By, &r.Pause.Until, &r.Closed,
		&r.CreatedAt, &r.UpdatedAt, &r.DeletedAt,
	}
}

func (r *queueRow) queue() *schedule.Queue {
	q := r.Queue
	if d, err := schedule.ParseQueue(r.definition); err == nil {
		q.QueueDefinition = d
	} else {
		q.Unreadable = true
	}
	return &q
}

// errQueueCreated says that somebody has created the queue meanwhile.
var errQueueCreated = errors.New("the queue was created meanwhile")

// ChangeQueue lets decide change a queue, in one transaction and under the queue's lock: after
// it, no admission reads what was before. nil: no queue ever had the id. decide may be called
// again. It returns the queue after the change; of a new one without its number.
func (t *Tables) ChangeQueue(ctx context.Context, queueID string, decide func(*schedule.Queue) (schedule.QueueChange, error)) (after *schedule.Queue, err error) {
	change := func(ctx context.Context, q Queries) error {
		now, err := t.dialect.lockQueue(ctx, q, queueID)
		if err != nil {
			return err
		}
		change, err := decide(now)
		if err != nil {
			return err
		}
		if after = change.After; after == nil {
			after = now
			return nil
		}
		return t.dialect.writeQueue(ctx, q, now, &change)
	}
	for {
		err = t.write(ctx, change)
		if !errors.Is(err, errQueueCreated) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("change queue %s: %w", schedule.Quote(queueID), err)
	}
	return after, nil
}

func (d *Dialect) lockQueue(ctx context.Context, q Queries, queueID string) (*schedule.Queue, error) {
	now, err := readQueue(ctx, q, "", queueID)
	if err != nil || now == nil || d.LockQueue == "" {
		return now, err
	}
	if _, err := q.Exec(ctx, d.LockQueue, now.No); err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	return readQueue(ctx, q, "", queueID)
}

func (d *Dialect) writeQueue(ctx context.Context, q Queries, before *schedule.Queue, c *schedule.QueueChange) error {
	a := c.After
	args := []any{
		a.QueueID, a.UserID, a.Shared, a.Text(), a.Revision, a.Pause.Paused, orNull(a.Pause.Note), orNull(a.Pause.By), a.Pause.Until, a.Closed,
		a.CreatedAt, a.UpdatedAt, a.DeletedAt, orNull(a.WebhookOf().Text()), orNull(string(a.HistoryText())),
	}
	statement := sqlUpdateQueue
	if before == nil {
		statement = sqlInsertQueue
	}
	switch n, err := q.Exec(ctx, statement, args...); {
	case err != nil:
		return fmt.Errorf("write row: %w", err)
	case n == 0:
		return errQueueCreated
	}
	if ledger.ForgetsTurns(before, a) {
		if _, err := q.Exec(ctx, sqlForgetFair, before.No); err != nil {
			return fmt.Errorf("put the runs in the order of their entries: %w", err)
		}
	}
	d.WakeQueues(q) // it may be resumed, or may admit more
	if err := insertQueueEvents(ctx, q, c.Events); err != nil {
		return err
	}
	if err := d.checkQueueQuota(ctx, q, c); err != nil || c.Audit == nil {
		return err
	}
	return d.InsertAudit(ctx, q, []schedule.AuditEntry{*c.Audit})
}

// checkQueueQuota counts after the write: of two transactions that create a queue for one owner at
// once, the second waits here and then counts what the first has committed.
func (d *Dialect) checkQueueQuota(ctx context.Context, q Queries, c *schedule.QueueChange) error {
	if c.OwnerLimit <= 0 {
		return nil
	}
	if d.LockQuota != "" {
		if _, err := q.Exec(ctx, d.LockQuota, []string{c.After.UserID}); err != nil {
			return fmt.Errorf("lock the quota: %w", err)
		}
	}
	var living int
	if _, err := one(ctx, q, []any{&living}, sqlCountQueuesOf, c.After.UserID, c.OwnerLimit+1); err != nil {
		return fmt.Errorf("count queues of the owner: %w", err)
	}
	return schedule.CheckQueueQuota(c.After.UserID, living, c.OwnerLimit)
}

func insertQueueEvents(ctx context.Context, q Queries, events []schedule.QueueEvent) error {
	for i := range events {
		e := &events[i]
		if _, err := q.Exec(ctx, sqlInsertQueueEvent, e.QueueID, e.Time, string(e.Kind), orNull(e.Actor), orNull(e.Note), e.Revision); err != nil {
			return fmt.Errorf("write event: %w", err)
		}
	}
	return nil
}

// readQueue reads a queue. lock ends the statement.
func readQueue(ctx context.Context, q Queries, lock, queueID string) (*schedule.Queue, error) {
	found, err := collect(ctx, q, queueFields, sqlGetQueue+lock, queueID)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0].queue(), nil
}

// GetQueue returns a queue, also a deleted one, or schedule.ErrNotFound.
func (t *Tables) GetQueue(ctx context.Context, queueID string) (*schedule.Queue, error) {
	found, err := readQueue(ctx, t.read, "", queueID)
	if err == nil && found == nil {
		err = schedule.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("queue %s: %w", schedule.Quote(queueID), err)
	}
	return found, nil
}

// ListQueues returns queues in order of queue_id, without deleted ones.
func (t *Tables) ListQueues(ctx context.Context, f schedule.QueueFilter) ([]schedule.Queue, error) {
	rows, err := collect(ctx, t.read, queueFields, sqlListQueues, f.After, f.UserID, schedule.PageSize(f.Limit))
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	queues := make([]schedule.Queue, 0, len(rows))
	for i := range rows {
		queues = append(queues, *rows[i].queue())
	}
	return queues, nil
}

// ListQueueEvents returns the log of a queue, newest first; before, if not 0, is the id of an
// event of the page before.
func (t *Tables) ListQueueEvents(ctx context.Context, queueID string, before int64, limit int) ([]schedule.QueueEvent, error) {
	events, err := collect(ctx, t.read, func(e *schedule.QueueEvent) []any {
		return []any{&e.ID, &e.QueueID, &e.Time, &e.Kind, &e.Actor, &e.Note, &e.Revision}
	}, sqlListQueueEvents, queueID, orLast(before), schedule.PageSize(limit))
	if err != nil {
		return nil, fmt.Errorf("list the log of queue %s: %w", schedule.Quote(queueID), err)
	}
	return events, nil
}

// SchedulesOfQueue returns up to limit living schedules that name a queue, by schedule_id: of an
// owner, or with "" of all.
func (t *Tables) SchedulesOfQueue(ctx context.Context, queueID, userID string, limit int) (ids []string, err error) {
	if ids, err = collect(ctx, t.read, func(id *string) []any { return []any{id} }, sqlSchedulesOfQueue, queueID, userID, limit); err != nil {
		return nil, fmt.Errorf("look for schedules of queue %s: %w", schedule.Quote(queueID), err)
	}
	return ids, nil
}

// SchedulesWithLimit returns up to limit living schedules with the id of a limit in the text of
// their limits, by schedule_id, those above after.
func (t *Tables) SchedulesWithLimit(ctx context.Context, limitID, after string, limit int) ([]schedule.LimitedSchedule, error) {
	found, err := collect(ctx, t.read, func(s *schedule.LimitedSchedule) []any { return []any{&s.ScheduleID, &s.UserID, &s.Limits} }, sqlSchedulesWithLimit, limitID, after, limit)
	if err != nil {
		return nil, fmt.Errorf("look for schedules with limit %s: %w", schedule.Quote(limitID), err)
	}
	return found, nil
}

// DueInDeleted makes due for a sweep what waits in queues that were deleted lately.
func DueInDeleted(ctx context.Context, q Queries, req *schedule.QueueSweep) error {
	since := req.DeletedSince
	if since.IsZero() {
		since = time.Unix(0, 0) // NULL would find none
	}
	deleted, err := collect(ctx, q, func(no *int32) []any { return []any{no} }, sqlDeletedQueues, since)
	if err != nil {
		return fmt.Errorf("look for deleted queues: %w", err)
	}
	for _, no := range deleted {
		for _, statement := range []string{sqlDueDelayed, sqlDueWaiting, sqlDueChained} {
			if _, err := q.Exec(ctx, statement, no, req.Now); err != nil {
				return fmt.Errorf("look into deleted queue %d: %w", no, err)
			}
		}
	}
	return nil
}

// AddQueues adds the queues of runs.
func AddQueues(ctx context.Context, q Queries, inputs []schedule.RunInput) error {
	runs := make([]*schedule.Run, len(inputs))
	for i := range inputs {
		runs[i] = &inputs[i].Run
	}
	queues, err := QueuesOf(ctx, q, runs)
	for i := range inputs {
		inputs[i].Queue = queues[runs[i].Queue.No]
	}
	return err
}
