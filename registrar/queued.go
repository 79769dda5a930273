package registrar

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// maxShownPosition is how far the place of a run in its queue is counted.
const maxShownPosition = 10_000

// namedRuns adds the ids of queues and groups to runs.
type namedRuns struct {
	RunStore
	id     func(context.Context, int32) (string, error)
	group  func(context.Context, int32) (string, error)
	unique func(context.Context, schedule.Key) (*schedule.UniqueHold, error)
}

func (s namedRuns) GetRun(ctx context.Context, key schedule.Key) (*schedule.Run, error) {
	run, err := s.RunStore.GetRun(ctx, key)
	if err == nil {
		err = s.name(ctx, run)
	}
	if err == nil && run.IsJob() {
		run.Queue.Unique, err = s.unique(ctx, key)
	}
	return run, err
}

func (s namedRuns) ListRuns(ctx context.Context, f schedule.RunFilter) ([]schedule.Run, error) {
	runs, err := s.RunStore.ListRuns(ctx, f)
	for i := range runs {
		if err == nil {
			err = s.name(ctx, &runs[i])
		}
	}
	return runs, err
}

func (s namedRuns) ChangeRun(ctx context.Context, key, existing schedule.Key, decide func(schedule.RunInput) (schedule.RunChange, error)) (schedule.Run, bool, error) {
	run, moved, err := s.RunStore.ChangeRun(ctx, key, existing, decide)
	if err == nil {
		err = s.name(ctx, &run)
	}
	return run, moved, err
}

func (s namedRuns) name(ctx context.Context, run *schedule.Run) (err error) {
	if run.Queue.In() {
		run.Queue.ID, err = s.id(ctx, run.Queue.No)
	}
	if err == nil && run.Queue.GroupNo != 0 {
		run.Queue.GroupID, err = s.group(ctx, run.Queue.GroupNo)
	}
	return err
}

// uniqueOf is the unique key that a run holds; nil: none.
func (r *Registrar) uniqueOf(ctx context.Context, key schedule.Key) (*schedule.UniqueHold, error) {
	if r.entries == nil {
		return nil, nil
	}
	return r.entries.UniqueOf(ctx, key)
}

// queueID is the id of a queue by its number.
func (r *Registrar) queueID(ctx context.Context, no int32) (string, error) {
	if id, ok := r.queueIDs.Load(no); ok {
		return id.(string), nil
	}
	if r.entries == nil {
		return "", nil
	}
	id, err := r.entries.QueueID(ctx, no)
	if err == nil && id != "" {
		r.queueIDs.Store(no, id)
	}
	return id, err
}

// Position is the place of a waiting run in its queue and priority, 1 for the next. 0: it does
// not wait, or its place is above 10000.
func (r *Registrar) Position(ctx context.Context, run *schedule.Run) (int, error) {
	if r.entries == nil || run.Queue.State != schedule.QueueWaiting {
		return 0, nil
	}
	n, err := r.entries.PositionOf(ctx, run, maxShownPosition+1)
	if n > maxShownPosition {
		n = 0
	}
	return n, err
}

// OpenAmong reports which of the runs are not over. It does not ask who the caller is, who was given
// the keys.
func (r *Registrar) OpenAmong(ctx context.Context, keys []schedule.Key) ([]bool, error) {
	if r.entries == nil {
		return nil, schedule.ErrUnsupported
	}
	found, err := r.entries.OpenAmong(ctx, keys)
	if err != nil {
		return nil, err
	}
	open := make([]bool, len(keys))
	for i, key := range keys {
		open[i] = found[key]
	}
	return open, nil
}

// WaitingInput asks for a page of the runs that wait in a queue.
type WaitingInput struct {
	QueueID       string
	Offset, Limit int
}

// WaitingPage is a part of the runs that wait in a queue, in its order.
type WaitingPage struct {
	Runs      []schedule.Run // those of the caller
	Positions []int          // of each in its priority; 0: it is delayed or chained
	Next      int            // offset of the next page; 0: there is none
}

// ListWaiting lists the runs of a queue that are not admitted. A caller with an owner gets its
// own; their positions count those of all.
func (r *Registrar) ListWaiting(ctx context.Context, in WaitingInput) (WaitingPage, error) {
	var page WaitingPage
	q, err := r.GetQueue(ctx, in.QueueID)
	if err != nil || r.entries == nil {
		return page, err
	}
	runs, err := r.entries.ListWaiting(ctx, schedule.WaitingFilter{QueueNo: q.No, Offset: in.Offset, Limit: in.Limit + 1})
	if err != nil {
		return page, err
	}
	if len(runs) > in.Limit {
		runs, page.Next = runs[:in.Limit], in.Offset+in.Limit
	}
	positions, err := r.positions(ctx, runs)
	if err != nil {
		return page, err
	}
	id := auth.FromContext(ctx)
	for i := range runs {
		if id.Sees(runs[i].UserID) {
			runs[i].Queue.ID = q.QueueID
			if no := runs[i].Queue.GroupNo; no != 0 {
				if runs[i].Queue.GroupID, err = r.groupID(ctx, no); err != nil {
					return page, err
				}
			}
			page.Runs, page.Positions = append(page.Runs, runs[i]), append(page.Positions, positions[i])
		}
	}
	return page, nil
}

// positions are the places of successive waiting runs: only that of the first one is counted.
func (r *Registrar) positions(ctx context.Context, runs []schedule.Run) ([]int, error) {
	out := make([]int, len(runs))
	for i := range runs {
		place := &runs[i].Queue
		switch {
		case place.State != schedule.QueueWaiting:
		case i == 0:
			var err error
			if out[i], err = r.Position(ctx, &runs[i]); err != nil {
				return nil, err
			}
		case place.Priority != runs[i-1].Queue.Priority:
			out[i] = 1
		case out[i-1] > 0 && out[i-1] < maxShownPosition:
			out[i] = out[i-1] + 1
		}
	}
	return out, nil
}

// UpdateRunInput changes a run that waits in a queue. Nil and zero fields stay.
type UpdateRunInput struct {
	Key      schedule.Key
	Input    json.RawMessage
	Priority *int32
	RunAt    time.Time
	// Limits, unless nil, are its own limits instead of those it has. Those of its queue are added.
	Limits []string
}

// UpdateRun changes a run that waits: input and limits if its queue has never admitted it, priority
// and start also after that.
func (r *Registrar) UpdateRun(ctx context.Context, in UpdateRunInput) (*schedule.Run, error) {
	var c schedule.Collect
	checkInput(&c, in.Input)
	checkPriority(&c, in.Priority)
	if at := in.RunAt; !at.IsZero() && (at.Before(schedule.MinTime) || !at.Before(schedule.MaxTime)) {
		c.Add("run_at", at.Format(time.RFC3339), "is outside 1970 to 2099", "")
	}
	schedule.CheckLimitRefs(&c, "limits", in.Limits)
	if in.Input == nil && in.Priority == nil && in.RunAt.IsZero() && in.Limits == nil {
		c.Note("input", "is not set, and neither priority, run_at nor limits is", "set what is to change")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	run, err := r.runs.GetRun(ctx, in.Key) // of the caller
	if err != nil {
		return nil, err
	}
	limits, err := r.limitsOfUpdate(ctx, run, in.Limits)
	if err != nil {
		return nil, err
	}
	if _, err := updateQueued(run, in, limits, r.now()); err != nil || r.entries == nil {
		return nil, err
	}
	call := auth.CallFrom(ctx)
	changed, err := r.entries.ChangeQueued(ctx, in.Key, func(now *schedule.Run) (schedule.QueuedChange, error) {
		change, err := updateQueued(now, in, limits, r.now())
		if change.Run != nil && call != nil && call.Audited {
			change.Audit = entry(call, in.Key.String(), change.Now)
			change.Audit.UserID = now.UserID
		}
		return change, err
	})
	switch {
	case errors.Is(err, schedule.ErrNotFound): // it has ended meanwhile
		if run, err = r.runs.GetRun(ctx, in.Key); err != nil {
			return nil, err
		}
		return nil, cannotModify(run)
	case err != nil:
		return nil, err
	}
	if call != nil {
		call.Recorded = call.Audited
	}
	changed.Queue.ID, changed.Queue.GroupID = run.Queue.ID, run.Queue.GroupID
	return changed, nil
}

// limitsOfUpdate are the limits that an update gives to a run of a queue.
func (r *Registrar) limitsOfUpdate(ctx context.Context, run *schedule.Run, own []string) (schedule.Limits, error) {
	if own == nil || !run.Queue.In() {
		return run.Queue.Limits, nil
	}
	q, err := r.queues.GetQueue(ctx, run.Queue.ID)
	if err != nil {
		return "", err
	}
	var c schedule.Collect
	if err := r.usableLimits().check(ctx, &c, "limits", run.UserID, own); err != nil {
		return "", err
	}
	s, err := r.schedules.PeekSchedule(ctx, run.ScheduleID)
	if err == nil {
		own = slices.Concat(s.Limits, own)
	} else if !errors.Is(err, schedule.ErrNotFound) {
		return "", err
	}
	limits := mergeLimits(&c, "limits", q, own)
	return r.bounded(limits), c.Err()
}

// updateQueued is the pure part of UpdateRun.
func updateQueued(run *schedule.Run, in UpdateRunInput, limits schedule.Limits, now time.Time) (schedule.QueuedChange, error) {
	if !run.Queue.In() {
		return schedule.QueuedChange{}, schedule.Explain(schedule.ErrPrecondition, "cannot update: the run is not in a queue; only runs that wait in one can change")
	}
	dispatched := !run.ClaimedAt.IsZero() // it may wait again
	if run.Status.Terminal() || run.Queue.State.Admitted() || dispatched && (in.Input != nil || in.Limits != nil) {
		return schedule.QueuedChange{}, cannotModify(run)
	}
	if in.Limits != nil && run.Queue.Kept != "" && limits != run.Queue.Limits {
		return schedule.QueuedChange{}, schedule.Explain(schedule.ErrPrecondition,
			"cannot change the limits: the run keeps %s, which is ordered, since the attempt before it; change its other fields, or cancel it and enqueue another one", run.Queue.Kept)
	}
	after := *run
	if in.Input != nil {
		after.Input = in.Input
	}
	after.Reprioritize(value(in.Priority, run.Priority))
	if in.Limits != nil {
		after.Queue.Limits = limits
	}
	if !in.RunAt.IsZero() {
		at := utc(in.RunAt).Truncate(time.Millisecond)
		if current := now.Truncate(time.Millisecond); at.Before(current) {
			at = current
		}
		after.StartBy = ledger.WaitsFrom(run, at)
		if after.FireAt = at; run.IsJob() && !dispatched {
			after.RunAt = at // that of a slot says which slot it is, and that of a run that was sent is part of its request
		}
	}
	if after.Queue.State != schedule.QueueChained { // its start counts once its predecessor has ended
		after.Queue.State = queueState(after.FireAt, now)
	}
	return schedule.QueuedChange{Run: &after, Now: now}, nil
}

func cannotModify(run *schedule.Run) error {
	if run.Status.Terminal() && run.ClaimedAt.IsZero() {
		return schedule.Explain(schedule.ErrPrecondition, "cannot update: the run %s", run.Status.Clause())
	}
	return schedule.Explain(schedule.ErrPrecondition, "Cannot modify params after dispatch: the run was admitted at %s", run.ClaimedAt.Format(time.RFC3339))
}
