package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// ChangeQueue lets decide change a queue, in one transaction. nil: no queue ever had the id.
func (s *Store) ChangeQueue(ctx context.Context, queueID string, decide func(*schedule.Queue) (schedule.QueueChange, error)) (after *schedule.Queue, err error) {
	err = s.write(ctx, func(t *tx) error {
		before := t.queues[queueID]
		var now *schedule.Queue
		if before != nil {
			copied := *before
			now = &copied
		}
		change, err := decide(now)
		if err != nil {
			return err
		}
		if after = now; change.After == nil {
			return nil
		}
		row := *change.After
		if row.No = int32(len(t.queues)) + 1; before != nil {
			row.No = before.No
		}
		t.queues[queueID], t.queued = &row, true
		if ledger.ForgetsTurns(before, &row) {
			t.forgetTurns(row.No)
		}
		t.undo = append(t.undo, func() {
			if t.queues[queueID] = before; before == nil {
				delete(t.queues, queueID)
			}
		})
		if t.opts.Watch.Queue != nil {
			told := row
			t.told = append(t.told, func() { t.opts.Watch.Queue(before, &told) })
		}
		for _, e := range change.Events {
			t.noteQueue(e)
		}
		if change.OwnerLimit > 0 {
			if err := schedule.CheckQueueQuota(row.UserID, t.queuesOf(row.UserID), change.OwnerLimit); err != nil {
				return err
			}
		}
		t.audit(change.Audit, s.Now())
		copied := row
		after = &copied
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("change queue %s: %w", schedule.Quote(queueID), err)
	}
	return after, nil
}

// CountQueueDead counts the dead runs of a queue, up to limit.
func (s *Store) CountQueueDead(ctx context.Context, queueNo int32, limit int) (n int, err error) {
	err = s.read(ctx, func() error {
		n = s.deadIn(queueNo, limit)
		return nil
	})
	return n, err
}

func (s *Store) deadIn(queueNo int32, limit int) (n int) {
	for _, r := range s.runs {
		if r.Queue.No == queueNo && r.IsDead() && n < limit {
			n++
		}
	}
	return n
}

// queuesOf counts the living queues of an owner.
func (t *tx) queuesOf(userID string) (n int) {
	for _, q := range t.queues {
		if q.Alive() && q.UserID == userID {
			n++
		}
	}
	return n
}

// CountWaitingOf counts the runs of an owner that wait in queues, up to limit.
func (s *Store) CountWaitingOf(ctx context.Context, userID string, limit int) (n int, err error) {
	err = s.read(ctx, func() error {
		for _, r := range s.live.queued.rows {
			if r.UserID == userID && !r.Queue.State.Admitted() {
				n++
			}
		}
		n = min(n, limit)
		return nil
	})
	return n, err
}

// noteQueue adds an event to the log of its queue.
func (t *tx) noteQueue(e schedule.QueueEvent) {
	t.lastQueueEvent++
	e.ID = t.lastQueueEvent
	t.queueLog = append(t.queueLog, e)
	t.undo = append(t.undo, func() { t.queueLog = t.queueLog[:len(t.queueLog)-1] })
}

// GetQueue returns a queue, also a deleted one, or schedule.ErrNotFound.
func (s *Store) GetQueue(ctx context.Context, queueID string) (q *schedule.Queue, err error) {
	err = s.read(ctx, func() error {
		found := s.queues[queueID]
		if found == nil {
			return fmt.Errorf("queue %s: %w", schedule.Quote(queueID), schedule.ErrNotFound)
		}
		copied := *found
		q = &copied
		return nil
	})
	return q, err
}

// ListQueues returns queues in order of queue_id, without deleted ones.
func (s *Store) ListQueues(ctx context.Context, f schedule.QueueFilter) (queues []schedule.Queue, err error) {
	err = s.read(ctx, func() error {
		for id, q := range s.queues {
			if q.Alive() && id > f.After && (f.UserID == "" || q.UserID == f.UserID || q.Shared) {
				queues = append(queues, *q)
			}
		}
		return nil
	})
	slices.SortFunc(queues, func(a, b schedule.Queue) int { return cmp.Compare(a.QueueID, b.QueueID) })
	return queues[:min(len(queues), schedule.PageSize(f.Limit))], err
}

// ListQueueEvents returns the log of a queue, newest first.
func (s *Store) ListQueueEvents(ctx context.Context, queueID string, before int64, limit int) (events []schedule.QueueEvent, err error) {
	err = s.read(ctx, func() error {
		for _, e := range slices.Backward(s.queueLog) {
			if e.QueueID == queueID && (before <= 0 || e.ID < before) && len(events) < schedule.PageSize(limit) {
				events = append(events, e)
			}
		}
		return nil
	})
	return events, err
}

// SchedulesOfQueue returns up to limit living schedules that name a queue, by schedule_id.
func (s *Store) SchedulesOfQueue(ctx context.Context, queueID, userID string, limit int) (ids []string, err error) {
	err = s.read(ctx, func() error {
		for id, row := range s.schedules {
			if row.QueueID == queueID && row.Alive() && (userID == "" || row.UserID == userID) {
				ids = append(ids, id)
			}
		}
		slices.Sort(ids)
		ids = ids[:min(limit, len(ids))]
		return nil
	})
	return ids, err
}

// SchedulesWithLimit returns up to limit living schedules that name a limit, by schedule_id.
func (s *Store) SchedulesWithLimit(ctx context.Context, limitID, after string, limit int) (found []schedule.LimitedSchedule, err error) {
	err = s.read(ctx, func() error {
		for id, row := range s.schedules {
			if id > after && row.Alive() && schedule.JoinLimits(row.Limits, nil).Name(limitID) {
				found = append(found, schedule.LimitedSchedule{ScheduleID: id, UserID: row.UserID, Limits: schedule.JoinLimits(row.Limits, nil)})
			}
		}
		slices.SortFunc(found, func(a, b schedule.LimitedSchedule) int { return cmp.Compare(a.ScheduleID, b.ScheduleID) })
		found = found[:min(limit, len(found))]
		return nil
	})
	return found, err
}
