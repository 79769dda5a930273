package tables

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/carillon/carillon/internal/schedule"
)

// MoveQueued moves waiting and delayed runs of a queue, all or none.
func (t *Tables) MoveQueued(ctx context.Context, m schedule.QueueMove) error {
	if err := t.write(ctx, func(ctx context.Context, q Queries) error { return t.dialect.moveQueued(ctx, q, &m) }); err != nil {
		return fmt.Errorf("move %d runs of queue %s: %w", len(m.Runs), schedule.Quote(m.QueueID), err)
	}
	return nil
}

func (d *Dialect) moveQueued(ctx context.Context, q Queries, m *schedule.QueueMove) error {
	queue, err := d.lockQueue(ctx, q, m.QueueID)
	if err == nil && queue == nil {
		err = schedule.ErrNotFound
	}
	if err != nil {
		return err
	}
	runs := slices.Clone(m.Runs)
	slices.SortFunc(runs, func(a, b schedule.Run) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	for i := range runs {
		n, err := q.Exec(ctx, sqlSetAside, runs[i].Key, queue.No, runs[i].Queue.Priority, runs[i].Queue.State.Code())
		if err == nil && n == 0 {
			err = schedule.ErrMoveStale
		}
		if err != nil {
			return err
		}
	}
	copy(runs, m.Runs)
	position, err := movedTo(ctx, q, m, queue.No)
	if err != nil {
		return err
	}
	placed, err := d.placeRuns(ctx, q, runs, position)
	if err == nil && !placed {
		err = behindAll(ctx, q, runs)
	}
	if err != nil {
		return err
	}
	for i := range runs {
		if _, err := q.Exec(ctx, sqlPutPlace, runs[i].Key, runs[i].Queue.Position, runs[i].Queue.State.Code(), m.Now, runs[i].Queue.FairOrder); err != nil {
			return fmt.Errorf("write places: %w", err)
		}
	}
	d.WakeQueues(q, schedule.Pointers(runs)...)
	if m.Audit == nil {
		return nil
	}
	return d.InsertAudit(ctx, q, []schedule.AuditEntry{*m.Audit})
}

// behindAll gives runs the fair order of the last one that waits with their priority.
func behindAll(ctx context.Context, q Queries, runs []schedule.Run) error {
	var last int64
	there, err := one(ctx, q, []any{&last}, sqlLastFairOrder, runs[0].Queue.No, runs[0].Queue.Priority)
	if err != nil {
		return fmt.Errorf("look for the last run: %w", err)
	}
	for i := range runs {
		if there {
			runs[i].Queue.FairOrder = last
		}
	}
	return nil
}

// movedTo is the position of the first moved run among the others.
func movedTo(ctx context.Context, q Queries, m *schedule.QueueMove, queueNo int32) (position int, err error) {
	if m.Anchor == nil {
		return m.Position, nil
	}
	var at, order int64
	there, err := one(ctx, q, []any{&at, &order}, sqlPlaceOf, m.Anchor.Key, queueNo, m.Runs[0].Queue.Priority)
	if err == nil && !there {
		err = schedule.ErrMoveStale
	}
	if err != nil {
		return 0, err
	}
	if _, err = one(ctx, q, []any{&position}, sqlPositionOf, queueNo, m.Runs[0].Queue.Priority, order, at, m.Anchor.Key, math.MaxInt32); err != nil {
		return 0, fmt.Errorf("position of run %s: %w", m.Anchor.Key, err)
	}
	if m.After {
		position++
	}
	return position, nil
}
