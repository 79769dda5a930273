package tables

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// errEnqueued says that the same request came between.
var errEnqueued = errors.New("the same request was made meanwhile")

// Enqueue puts runs into a queue as decide says, in one transaction: all or none. decide may
// be called again.
func (t *Tables) Enqueue(ctx context.Context, req schedule.EnqueueRequest, decide func(schedule.EnqueueFacts) (schedule.Enqueue, error)) error {
	var err error
	for {
		err = t.write(ctx, func(ctx context.Context, q Queries) error { return t.dialect.enqueue(ctx, q, &req, decide) })
		if !errors.Is(err, errEnqueued) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("put runs into queue %s: %w", schedule.Quote(req.QueueID), err)
	}
	return nil
}

func (d *Dialect) enqueue(ctx context.Context, q Queries, req *schedule.EnqueueRequest, decide func(schedule.EnqueueFacts) (schedule.Enqueue, error)) error {
	var facts schedule.EnqueueFacts
	err := useTemplates(ctx, q, req)
	if err != nil {
		return err
	}
	if req.Position > 0 {
		facts.Queue, err = d.lockQueue(ctx, q, req.QueueID)
	} else {
		facts.Queue, err = readQueue(ctx, q, d.ShareQueue, req.QueueID)
	}
	if err != nil {
		return err
	}
	if facts.Queue != nil && req.RequestID != "" {
		if facts.Earlier, err = enqueuedBefore(ctx, q, facts.Queue.No, req); err != nil {
			return fmt.Errorf("read an earlier request: %w", err)
		}
	}
	if err := d.lockEntry(ctx, q, req, &facts); err != nil {
		return err
	}
	decided, err := decide(facts)
	if err != nil || decided.Empty() {
		return err
	}
	runs := append([]schedule.Run(nil), decided.Runs...)
	decided.Replaced = append([]schedule.Run(nil), decided.Replaced...)
	if err := d.placeEntry(ctx, q, facts.Queue, runs, &decided, req.Position); err != nil {
		return err
	}
	if decided.Group != nil {
		group := *decided.Group
		decided.Group = &group
		if err := d.joinGroup(ctx, q, &group, runs); err != nil {
			return err
		}
	}
	if req.RequestID != "" {
		if err := noteEnqueued(ctx, q, facts.Queue.No, req, &decided); err != nil {
			return err
		}
	}
	if len(runs) > 0 {
		if err := d.InsertQueued(ctx, q, runs, decided.Now); err != nil {
			return err
		}
	}
	if err := d.writeUniques(ctx, q, &decided); err != nil {
		return err
	}
	if decided.Group != nil {
		if err := d.settleGroup(ctx, q, decided.Group, false, decided.Now); err != nil {
			return err
		}
	}
	if decided.Audit == nil {
		return nil
	}
	return d.InsertAudit(ctx, q, []schedule.AuditEntry{*decided.Audit})
}

// useTemplates notes that templates are used, so that no retention deletes them. It comes first: a
// change of a schedule locks its row before anything of a queue.
func useTemplates(ctx context.Context, q Queries, req *schedule.EnqueueRequest) error {
	for _, id := range req.Templates {
		n, err := q.Exec(ctx, sqlUseTemplate, id, req.Now)
		if err == nil && n == 0 {
			err = schedule.ErrTemplateGone
		}
		if err != nil {
			return fmt.Errorf("use the template %s: %w", schedule.Quote(id), err)
		}
	}
	return nil
}

// placeEntry gives the new runs of an entry their positions, and them and the replaced ones their
// fair orders. It is one draw, which locks all shares in their order.
func (d *Dialect) placeEntry(ctx context.Context, q Queries, queue *schedule.Queue, runs []schedule.Run, decided *schedule.Enqueue, position int) error {
	placed, err := d.placeRuns(ctx, q, runs, position)
	if err != nil {
		return err
	}
	drawing := replacedThatDraw(decided.Replaced)
	if !placed {
		drawing = append(schedule.Pointers(runs), drawing...)
	}
	return d.DrawFair(ctx, q, drawing, map[int32]*schedule.Queue{queue.No: queue}, decided.Now)
}

// lockEntry adds the group and the unique keys of the request to the facts, and locks them in this
// order.
func (d *Dialect) lockEntry(ctx context.Context, q Queries, req *schedule.EnqueueRequest, f *schedule.EnqueueFacts) (err error) {
	if req.GroupID != "" {
		if err := d.readGroup(ctx, q, req.GroupID, f); err != nil {
			return err
		}
	}
	if f.Queue != nil && len(req.Uniques) > 0 {
		f.Uniques, err = d.lockUniques(ctx, q, f.Queue.No, req.Uniques)
	}
	return err
}

// QueuesByID returns queues by id. Nobody changes them before the transaction is over.
func (d *Dialect) QueuesByID(ctx context.Context, q Queries, ids []string) (map[string]*schedule.Queue, error) {
	found := make(map[string]*schedule.Queue, len(ids))
	for _, id := range ids {
		queue, err := readQueue(ctx, q, d.ShareQueue, id)
		if err != nil {
			return nil, err
		}
		if queue != nil {
			found[id] = queue
		}
	}
	return found, nil
}

// CountWaiting counts the runs of a queue that are not admitted, each kind up to limit.
func CountWaiting(ctx context.Context, q Queries, queueNo int32, limit int) (n int, err error) {
	if _, err = one(ctx, q, []any{&n}, sqlCountWaitingOf, queueNo, limit); err != nil {
		return 0, fmt.Errorf("count the waiting runs of queue %d: %w", queueNo, err)
	}
	return n, nil
}

// oldestAmong is how many runs of each priority are looked at for the one that entered first.
const oldestAmong = 100

// CountQueue counts the open runs of a queue, each kind up to limit.
func (t *Tables) CountQueue(ctx context.Context, queueNo int32, limit int) (c schedule.QueueCounts, err error) {
	if _, err = one(ctx, t.read, []any{&c.Delayed, &c.Waiting, &c.InFlight, &c.Chained, &c.Reserving, &c.Reserved, &c.Stall.Until, &c.Stall.Level, &c.Stall.Reason}, sqlCountQueue, queueNo, limit); err != nil {
		return c, fmt.Errorf("count the runs of queue %d: %w", queueNo, err)
	}
	if c.Waiting > 0 {
		if _, err = one(ctx, t.read, []any{&c.WaitingSince}, sqlOldestWaiting, queueNo, oldestAmong); err != nil {
			return c, fmt.Errorf("look for the oldest run of queue %d: %w", queueNo, err)
		}
	}
	return c, nil
}

// CountWaitingOf counts the runs of an owner that wait in queues, delayed and chained ones included,
// up to limit.
func (t *Tables) CountWaitingOf(ctx context.Context, userID string, limit int) (n int, err error) {
	if _, err = one(ctx, t.read, []any{&n}, sqlWaitingOfOwner, userID, limit); err != nil {
		return 0, fmt.Errorf("count the waiting runs of owner %s: %w", schedule.Quote(userID), err)
	}
	return n, nil
}

// CountQueueDead counts the dead runs of a queue, up to limit.
func (t *Tables) CountQueueDead(ctx context.Context, queueNo int32, limit int) (n int, err error) {
	if _, err = one(ctx, t.read, []any{&n}, sqlCountQueueDead, queueNo, limit); err != nil {
		return 0, fmt.Errorf("count the dead runs of queue %d: %w", queueNo, err)
	}
	return n, nil
}

// PositionOf returns the place of a waiting run in its queue and priority, 1 for the next, and
// limit if it is not before that. 0: it does not wait.
func (t *Tables) PositionOf(ctx context.Context, r *schedule.Run, limit int) (position int, err error) {
	if r.Queue.State != schedule.QueueWaiting {
		return 0, nil
	}
	if _, err = one(ctx, t.read, []any{&position}, sqlPositionOf, r.Queue.No, r.Queue.Priority, r.Queue.FairOrder, r.Queue.Position, r.Key, limit); err != nil {
		return 0, fmt.Errorf("position of run %s: %w", r.Key, err)
	}
	return position, nil
}

// QueueID returns the id of a queue by its number, also of a deleted one; "": there is none.
func (t *Tables) QueueID(ctx context.Context, queueNo int32) (id string, err error) {
	if _, err = one(ctx, t.read, []any{&id}, sqlQueueID, queueNo); err != nil {
		return "", fmt.Errorf("queue %d: %w", queueNo, err)
	}
	return id, nil
}

// QueueByNo returns a queue by its number, also a deleted one; nil: there is none.
func QueueByNo(ctx context.Context, q Queries, queueNo int32) (*schedule.Queue, error) {
	found, err := collect(ctx, q, queueFields, sqlQueueByNo, queueNo)
	if err != nil {
		return nil, fmt.Errorf("read queue %d: %w", queueNo, err)
	}
	if len(found) == 0 {
		return nil, nil
	}
	return found[0].queue(), nil
}

// GetQueueByNo is QueueByNo outside of a transaction.
func (t *Tables) GetQueueByNo(ctx context.Context, queueNo int32) (*schedule.Queue, error) {
	return QueueByNo(ctx, t.read, queueNo)
}

// QueuesOf returns the queues of runs, by their numbers.
func QueuesOf(ctx context.Context, q Queries, runs []*schedule.Run) (map[int32]*schedule.Queue, error) {
	of := make(map[int32]*schedule.Queue)
	for _, r := range runs {
		if _, known := of[r.Queue.No]; known || !r.Queue.In() {
			continue
		}
		queue, err := QueueByNo(ctx, q, r.Queue.No)
		if err != nil {
			return nil, err
		}
		of[r.Queue.No] = queue
	}
	return of, nil
}

// QueuesWaiting returns the queues in which runs wait for their admission.
func (t *Tables) QueuesWaiting(ctx context.Context) ([]schedule.QueueNow, error) {
	return t.QueuesWaitingBut(ctx, nil)
}

// QueuesWaitingBut is QueuesWaiting that takes it for granted of some queues.
func (t *Tables) QueuesWaitingBut(ctx context.Context, sure []int32) ([]schedule.QueueNow, error) {
	found, err := collect(ctx, t.read, func(n *schedule.QueueNow) []any { return []any{&n.No, &n.QueueID} }, t.dialect.QueuesWaiting, Rows{sure})
	if err != nil {
		return nil, fmt.Errorf("look for queues with waiting runs: %w", err)
	}
	return found, nil
}

// MeasureQueues returns up to limit queues, by queue_id, with their runs counted up to counted.
func (t *Tables) MeasureQueues(ctx context.Context, limit, counted int, now time.Time) ([]schedule.QueueMeasure, error) {
	rows, err := collect(ctx, t.read, queueFields, sqlMeasured, limit)
	if err != nil {
		return nil, fmt.Errorf("read queues: %w", err)
	}
	measures := make([]schedule.QueueMeasure, len(rows))
	for i := range rows {
		measures[i] = schedule.QueueMeasure{Queue: *rows[i].queue()}
		if measures[i].QueueCounts, err = t.CountQueue(ctx, rows[i].No, counted); err != nil {
			return nil, err
		}
		if measures[i].Pace, err = t.QueuePace(ctx, rows[i].No, now, min(counted, schedule.PacedRows)); err != nil {
			return nil, err
		}
		if limit := measures[i].Expect.CountsDead(); limit > 0 {
			if measures[i].Dead, err = t.CountQueueDead(ctx, rows[i].No, limit); err != nil {
				return nil, err
			}
		}
		if measures[i].Pulled() {
			if measures[i].Workers, err = readWorkers(ctx, t.read, rows[i].No); err != nil {
				return nil, err
			}
		}
	}
	return measures, nil
}

// admissionRow is a queue with its stall and rate.
type admissionRow struct {
	queueRow
	stall     schedule.QueueStall
	nextStart time.Time
}

func admissionFields(r *admissionRow) []any {
	return append(queueFields(&r.queueRow), &r.stall.Until, &r.stall.Level, &r.stall.Reason, &r.nextStart)
}

// ListWaiting lists the runs of a queue that are not admitted, in its order: those that wait,
// then delayed and chained ones. Each kind is listed by a function, and count counts it.
func ListWaiting(f schedule.WaitingFilter, count func(schedule.QueueState) (int, error), kinds ...WaitingKind) (runs []schedule.Run, err error) {
	limit, offset := schedule.PageSize(f.Limit), f.Offset
	for i, kind := range kinds {
		found, err := kind.List(limit-len(runs), offset)
		if err != nil {
			return nil, fmt.Errorf("list the %s runs of queue %d: %w", kind.State, f.QueueNo, err)
		}
		if runs = append(runs, found...); len(runs) == limit || i == len(kinds)-1 {
			break
		}
		before := 0
		if offset > 0 {
			if before, err = count(kind.State); err != nil {
				return nil, fmt.Errorf("count the %s runs of queue %d: %w", kind.State, f.QueueNo, err)
			}
		}
		offset = max(0, offset-before)
	}
	return runs, nil
}

// WaitingKind lists the runs of a queue in one state.
type WaitingKind struct {
	State schedule.QueueState
	List  func(limit, offset int) ([]schedule.Run, error)
}

// WriteStalls writes stalls and their events.
func WriteStalls(ctx context.Context, q Queries, stalls []schedule.StallChange) error {
	for i := range stalls {
		s := &stalls[i]
		if _, err := q.Exec(ctx, sqlSetStall, s.QueueNo, s.Until, s.Level, orNull(s.Reason)); err != nil {
			return fmt.Errorf("write the stall of queue %d: %w", s.QueueNo, err)
		}
		if s.Event != nil {
			if err := insertQueueEvents(ctx, q, []schedule.QueueEvent{*s.Event}); err != nil {
				return err
			}
		}
	}
	return nil
}

// PruneOthers are the statements that delete up to $2 rows of other tables, from before $1.
var PruneOthers = []string{
	sqlPruneInbox, sqlPruneTaken, sqlPruneTopicEvents, sqlPruneStates, sqlPruneQueueRequests, sqlPruneQueueEvents, sqlPruneLimitRates, sqlPruneJobGroups, sqlPruneShares, sqlPruneQueueMinutes,
}
