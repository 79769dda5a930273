package registrar

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
)

// QueueInput is a request to register a dispatch queue.
type QueueInput struct {
	schedule.QueueDefinition
	MaxWaiting *uint32 // nil: schedule.DefaultMaxWaiting
	Actor      string
}

// UpsertQueue registers a queue. It replaces the whole definition; the same one again writes
// nothing. A pause is kept, and so is what waits in the queue. A deleted queue lives again.
func (r *Registrar) UpsertQueue(ctx context.Context, in QueueInput) (*schedule.Queue, error) {
	if err := ownUser(ctx, &in.UserID, "queue"); err != nil {
		return nil, err
	}
	if in.QueueID == schedule.DefaultQueueID && auth.FromContext(ctx).Owner != "" {
		return nil, schedule.Explain(schedule.ErrForbidden, "queue %s belongs to the operator: choose another id", schedule.Quote(in.QueueID))
	}
	in.Retry = in.Retry.ResolvedBy(schedule.QueuedRetry(r.cfg.DefaultMaxAttempts, r.cfg.DefaultBackoffMS, r.cfg.DefaultMaxBackoffMS))
	d := in.QueueDefinition.Resolved(r.cfg.DefaultMaxInFlight)
	if d.MaxWaiting = schedule.DefaultMaxWaiting; in.MaxWaiting != nil {
		d.MaxWaiting = *in.MaxWaiting
	}
	var c schedule.Collect
	d.Check(&c)
	checkOwner(&c, d.UserID)
	checkLabels(&c, d.Labels)
	if d.Webhook != "" {
		r.checkWebhook(&c, d.Webhook, d.UserID, d.Shared)
	}
	if d.ManagedBy != "" {
		checkID(&c, "managed_by", d.ManagedBy)
	}
	if _, err := schedule.MergeLimits(d.Limits); err != nil {
		c.Note("limits", err.Error(), "a run counts for one key of a limit")
	}
	if err := r.usableLimits().check(ctx, &c, "limits", d.UserID, d.Limits); err != nil {
		return nil, err
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return r.queues.ChangeQueue(ctx, d.QueueID, func(current *schedule.Queue) (schedule.QueueChange, error) {
		now := r.now()
		kind := schedule.QueueChanged
		switch {
		case !current.Alive():
			kind = schedule.QueueCreated
			created := schedule.Queue{CreatedAt: now}
			if current != nil {
				created.Revision = current.Revision
			}
			current = &created
		case current.UserID != d.UserID:
			return schedule.QueueChange{}, schedule.Explain(schedule.ErrExists, "queue_id %s is taken by another owner: choose another id", schedule.Quote(d.QueueID))
		case !current.Unreadable && current.QueueDefinition.Equal(&d):
			return schedule.QueueChange{}, nil
		}
		after := *current
		after.QueueDefinition, after.Unreadable = d, false
		after.Revision++
		change := queueChange(&after, kind, in.Actor, "", now)
		if kind == schedule.QueueCreated && auth.FromContext(ctx).Owner != "" {
			change.OwnerLimit = r.cfg.OwnerMaxQueues
		}
		return change, nil
	})
}

// queueChange is a change with its event.
func queueChange(after *schedule.Queue, kind schedule.QueueEventKind, actor, note string, now time.Time) schedule.QueueChange {
	after.UpdatedAt = now
	return schedule.QueueChange{After: after, Events: []schedule.QueueEvent{{
		QueueID: after.QueueID, Time: now, Kind: kind, Actor: actor, Note: note, Revision: after.Revision,
	}}}
}

// PauseQueueInput is a request to pause a queue.
type PauseQueueInput struct {
	QueueID string
	Note    string
	Until   time.Time // zero: until it is resumed
	// CancelWaiting also cancels the runs that wait in it, of every owner.
	CancelWaiting bool
	Actor         string
}

// PausedQueue is a queue after its pause.
type PausedQueue struct {
	*schedule.Queue
	Cancelled int // runs that CancelWaiting has ended
}

// PauseQueue stops a queue: after the answer no run of it is admitted. Runs that are with the
// executor go on. CancelWaiting ends runs after the pause, so a call that fails meanwhile leaves the
// queue paused, and a repeat ends the rest.
func (r *Registrar) PauseQueue(ctx context.Context, in PauseQueueInput) (out PausedQueue, err error) {
	if err := checkNote(in.Note); err != nil {
		return out, err
	}
	in.Until = utc(in.Until).Truncate(time.Microsecond)
	if out.Queue, err = r.pauseQueue(ctx, in); err == nil && in.CancelWaiting {
		out.Cancelled, err = r.cancelWaiting(ctx, in)
	}
	return out, err
}

func (r *Registrar) pauseQueue(ctx context.Context, in PauseQueueInput) (*schedule.Queue, error) {
	return r.changeQueue(ctx, in.QueueID, func(q *schedule.Queue, now time.Time) (schedule.QueueChange, error) {
		if !in.Until.IsZero() && !in.Until.After(now) {
			return schedule.QueueChange{}, schedule.Invalid("until", in.Until.Format(time.RFC3339), "is not in the future", "it is "+now.Format(time.RFC3339)+" now")
		}
		want := schedule.Pause{Paused: true, Note: in.Note, By: in.Actor, Until: in.Until}
		if q.Pause == want {
			return schedule.QueueChange{}, nil
		}
		q.Pause = want
		return queueChange(q, schedule.QueuePaused, in.Actor, in.Note, now), nil
	})
}

// cancelWaiting cancels the runs that wait in a queue, of every owner. The one who may pause the
// queue may end them.
func (r *Registrar) cancelWaiting(ctx context.Context, paused PauseQueueInput) (cancelled int, err error) {
	q, err := r.GetQueue(ctx, paused.QueueID)
	if err != nil {
		return 0, err
	}
	in := CancelRunsInput{Filter: schedule.RunFilter{QueueNo: q.No}, Waiting: true, Note: paused.Note, Actor: paused.Actor}
	for {
		done, err := r.cancelRuns(ctx, r.ledger, in)
		cancelled += done.Cancelled
		if err != nil || done.Next == nil {
			return cancelled, err
		}
		in.Page = *done.Next
	}
}

// ResumeQueue ends the pause of a queue. One that is not paused stays unchanged.
func (r *Registrar) ResumeQueue(ctx context.Context, queueID, note, actor string) (*schedule.Queue, error) {
	if err := checkNote(note); err != nil {
		return nil, err
	}
	return r.changeQueue(ctx, queueID, func(q *schedule.Queue, now time.Time) (schedule.QueueChange, error) {
		if !q.Pause.Active(now) {
			return schedule.QueueChange{}, nil
		}
		q.Pause = schedule.Pause{}
		return queueChange(q, schedule.QueueResumed, actor, note, now), nil
	})
}

// CloseQueue refuses new runs from now on; those in the queue go on. OpenQueue ends that.
func (r *Registrar) CloseQueue(ctx context.Context, queueID, note, actor string) (*schedule.Queue, error) {
	return r.setClosed(ctx, queueID, note, actor, true)
}

// OpenQueue takes new runs again.
func (r *Registrar) OpenQueue(ctx context.Context, queueID, note, actor string) (*schedule.Queue, error) {
	return r.setClosed(ctx, queueID, note, actor, false)
}

func (r *Registrar) setClosed(ctx context.Context, queueID, note, actor string, closed bool) (*schedule.Queue, error) {
	if err := checkNote(note); err != nil {
		return nil, err
	}
	return r.changeQueue(ctx, queueID, func(q *schedule.Queue, now time.Time) (schedule.QueueChange, error) {
		if q.Closed == closed {
			return schedule.QueueChange{}, nil
		}
		kind := schedule.QueueOpened
		if q.Closed = closed; closed {
			kind = schedule.QueueClosed
		}
		return queueChange(q, kind, actor, note, now), nil
	})
}

// changeQueue changes a queue that exists and that the caller may change. A private queue of
// another owner is not found.
func (r *Registrar) changeQueue(ctx context.Context, queueID string, decide func(*schedule.Queue, time.Time) (schedule.QueueChange, error)) (*schedule.Queue, error) {
	return r.queues.ChangeQueue(ctx, queueID, func(q *schedule.Queue) (schedule.QueueChange, error) {
		if !q.Alive() || !mayRead(ctx, q) {
			return schedule.QueueChange{}, noQueue(queueID)
		}
		if owner := auth.FromContext(ctx).Owner; owner != "" && owner != q.UserID {
			return schedule.QueueChange{}, schedule.Explain(schedule.ErrForbidden, "queue %s is shared by another owner, who alone may change it", schedule.Quote(queueID))
		}
		return decide(q, r.now())
	})
}

func mayRead(ctx context.Context, q *schedule.Queue) bool {
	owner := auth.FromContext(ctx).Owner
	return owner == "" || owner == q.UserID || q.Shared
}

func noQueue(queueID string) error {
	return schedule.Explain(schedule.ErrNotFound, "there is no queue %s", schedule.Quote(queueID))
}

// GetQueue returns a queue that the caller may see.
func (r *Registrar) GetQueue(ctx context.Context, queueID string) (*schedule.Queue, error) {
	q, err := r.queues.GetQueue(ctx, queueID)
	if err != nil {
		if errors.Is(err, schedule.ErrNotFound) {
			return nil, noQueue(queueID)
		}
		return nil, err
	}
	if !q.Alive() || !mayRead(ctx, q) {
		return nil, noQueue(queueID)
	}
	return q, nil
}

// ListQueues lists queues by queue_id. An owner sees its own and shared ones.
func (r *Registrar) ListQueues(ctx context.Context, f schedule.QueueFilter) ([]schedule.Queue, error) {
	if !ownOnly(ctx, &f.UserID) {
		return nil, nil
	}
	return r.queues.ListQueues(ctx, f)
}

// ListQueueEvents is the log of a queue, newest first.
func (r *Registrar) ListQueueEvents(ctx context.Context, queueID string, before int64, limit int) ([]schedule.QueueEvent, error) {
	if _, err := r.GetQueue(ctx, queueID); err != nil {
		return nil, err
	}
	return r.queues.ListQueueEvents(ctx, queueID, before, limit)
}

// QueueIDOf is the id of the queue of a run; "": it is outside queues.
func (r *Registrar) QueueIDOf(ctx context.Context, run *schedule.Run) (string, error) {
	if !run.Queue.In() {
		return "", nil
	}
	return r.queueID(ctx, run.Queue.No)
}

// DeleteQueueInput is a request to delete a queue.
type DeleteQueueInput struct {
	QueueID string
	Force   bool // cancel the runs in it
	Note    string
	Actor   string
}

// DeletedQueue counts the runs that a deletion has cancelled.
type DeletedQueue struct {
	Cancelled int // ended
	Requested int // the executor is asked
}

// DeleteQueue ends a queue. With runs in it, it is refused unless Force cancels them: then the
// queue is closed first, so that a call that is repeated goes on where it stopped. A run that
// enters meanwhile is ended by the next sweep.
func (r *Registrar) DeleteQueue(ctx context.Context, in DeleteQueueInput) (out DeletedQueue, err error) {
	if err := checkNote(in.Note); err != nil {
		return out, err
	}
	if in.Force {
		q, err := r.setClosed(ctx, in.QueueID, in.Note, in.Actor, true)
		if err != nil {
			return out, err
		}
		ofGroups, err := r.cancelGroups(ctx, q)
		if err == nil {
			out, err = r.cancelQueued(ctx, q, in)
		}
		if out.Cancelled += ofGroups; err == nil {
			err = r.releaseAll(ctx, in.QueueID, in.Actor)
		}
		if err != nil {
			return out, err
		}
	} else if err := r.refuseInUse(ctx, in.QueueID); err != nil {
		return out, err
	}
	_, err = r.changeQueue(ctx, in.QueueID, func(q *schedule.Queue, now time.Time) (schedule.QueueChange, error) {
		q.DeletedAt, q.Pause, q.Closed = now, schedule.Pause{}, false
		return queueChange(q, schedule.QueueDeleted, in.Actor, in.Note, now), nil
	})
	return out, err
}

// refuseInUse refuses the deletion of a queue with runs.
func (r *Registrar) refuseInUse(ctx context.Context, queueID string) error {
	q, err := r.GetQueue(ctx, queueID)
	if err != nil || r.entries == nil || !auth.FromContext(ctx).Sees(q.UserID) {
		return err // of another owner: refused below
	}
	named, err := r.queues.SchedulesOfQueue(ctx, queueID, "", shownSchedules)
	if err != nil {
		return err
	}
	if len(named) > 0 {
		return schedule.Explain(schedule.ErrPrecondition, "cannot delete queue %s: runs of schedule %s enter it at their fire time; edit queue_id of the schedule, or set force (--force): its runs then end FAILED(queue_not_found)",
			schedule.Quote(q.QueueID), schedule.Quote(named[0]))
	}
	const enough = 1000
	c, err := r.entries.CountQueue(ctx, q.No, enough)
	waiting := c.Waiting + c.Delayed + c.Chained
	if err == nil && waiting+c.InFlight+c.Reserving+c.Reserved == 0 {
		return r.refuseGroups(ctx, q)
	}
	if err != nil {
		return err
	}
	if c.Waiting+c.Delayed+c.InFlight == 0 {
		return schedule.Explain(schedule.ErrPrecondition, "cannot delete queue %s: it has %s; wait for them, or set force (--force) to end them", schedule.Quote(q.QueueID), reservationsIn(c))
	}
	return schedule.Explain(schedule.ErrPrecondition, "cannot delete queue %s: %s wait in it and %s are in flight; wait for them, or set force (--force) to cancel them",
		schedule.Quote(q.QueueID), runsUpTo(waiting, enough), runsUpTo(c.InFlight, enough))
}

func runsUpTo(n, enough int) string {
	switch {
	case n >= enough:
		return fmt.Sprintf("%d runs or more", enough)
	case n == 1:
		return "1 run"
	}
	return fmt.Sprintf("%d runs", n)
}

// cancelQueued cancels what is in a closed queue, of every owner.
func (r *Registrar) cancelQueued(ctx context.Context, q *schedule.Queue, in DeleteQueueInput) (out DeletedQueue, err error) {
	if r.entries == nil {
		return out, nil
	}
	cancelAll := func(runs []schedule.Run) error {
		for i := range runs {
			run, _, err := r.ledger.ChangeRun(ctx, runs[i].Key, schedule.Key{}, func(found schedule.RunInput) (schedule.RunChange, error) {
				return cancel(found, CancelInput{Key: runs[i].Key, Note: in.Note, Actor: in.Actor}, r.now())
			})
			switch {
			case errors.Is(err, schedule.ErrPrecondition) || errors.Is(err, schedule.ErrNotFound): // it has ended
			case err != nil:
				return err
			case run.Status.Terminal():
				r.ended(run.Status, run.Reason)
				out.Cancelled++
			default:
				out.Requested++
			}
		}
		return nil
	}
	for {
		runs, err := r.entries.ListWaiting(ctx, schedule.WaitingFilter{QueueNo: q.No, Limit: schedule.MaxPageSize})
		if err == nil {
			err = cancelAll(runs)
		}
		if err != nil {
			return out, err
		}
		if len(runs) == 0 {
			break
		}
	}
	f := schedule.RunFilter{QueueNo: q.No, Statuses: []schedule.Status{schedule.StatusEnqueued, schedule.StatusStarted}, Now: r.now(), Limit: schedule.MaxInFlightLimit}
	runs, err := r.ledger.ListRuns(ctx, f)
	if err == nil {
		err = cancelAll(runs)
	}
	return out, err
}
