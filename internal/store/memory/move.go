package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/carillon/carillon/internal/schedule"
)

// MoveQueued moves waiting and delayed runs of a queue, all or none.
func (s *Store) MoveQueued(ctx context.Context, m schedule.QueueMove) error {
	err := s.write(ctx, func(t *tx) error {
		queue := t.queues[m.QueueID]
		if queue == nil {
			return schedule.ErrNotFound
		}
		rows := make([]*schedule.Run, len(m.Runs))
		for i := range m.Runs {
			asked := &m.Runs[i].Queue
			r := t.runs[m.Runs[i].Key]
			if r == nil || r.Status.Terminal() || r.Queue.No != queue.No || r.Queue.Priority != asked.Priority || r.Queue.State != asked.State {
				return schedule.ErrMoveStale
			}
			rows[i] = r
			t.change(r, func(r *schedule.Run) { r.Queue.State = schedule.QueueDelayed }) // set aside
		}
		position := m.Position
		if m.Anchor != nil {
			others := slices.DeleteFunc(t.waiting(queue.No), func(r *schedule.Run) bool { return r.Queue.Priority != m.Runs[0].Queue.Priority })
			at := slices.IndexFunc(others, func(r *schedule.Run) bool { return r.Key == m.Anchor.Key })
			if at < 0 {
				return schedule.ErrMoveStale
			}
			if position = at + 1; m.After {
				position++
			}
		}
		runs := slices.Clone(m.Runs)
		if !t.placeRuns(runs, position) {
			t.behindAll(runs)
		}
		for i, r := range rows {
			t.change(r, func(r *schedule.Run) {
				r.Queue.Position, r.Queue.State, r.UpdatedAt = runs[i].Queue.Position, runs[i].Queue.State, at(m.Now)
				r.Queue.FairOrder = runs[i].Queue.FairOrder
			})
		}
		t.queued = true
		t.audit(m.Audit, m.Now)
		return nil
	})
	if err != nil {
		return fmt.Errorf("move %d runs of queue %s: %w", len(m.Runs), m.QueueID, err)
	}
	return nil
}

// behindAll gives runs the fair order of the last one that waits with their priority.
func (t *tx) behindAll(runs []schedule.Run) {
	for _, last := range t.waiting(runs[0].Queue.No) {
		for i := range runs {
			if last.Queue.Priority == runs[i].Queue.Priority {
				runs[i].Queue.FairOrder = last.Queue.FairOrder
			}
		}
	}
}

// OpenAmong are those of the runs that are not over.
func (s *Store) OpenAmong(ctx context.Context, keys []schedule.Key) (open map[schedule.Key]bool, err error) {
	open = make(map[schedule.Key]bool)
	err = s.read(ctx, func() error {
		for _, key := range keys {
			if r := s.runs[key]; r != nil && !r.Status.Terminal() {
				open[key] = true
			}
		}
		return nil
	})
	return open, err
}
