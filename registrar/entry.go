package registrar

import (
	"cmp"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
)

// earlier reports whether the request was made before, and notes what it has made.
func (e *enqueue) earlier(f schedule.EnqueueFacts) (bool, error) {
	e.out = Enqueued{}
	if f.Earlier == nil {
		return false, nil
	}
	if f.Earlier.BodyHash != e.hash {
		return false, schedule.Explain(schedule.ErrKeyConflict, "request_id %q was used before in queue %s for another request; use a new one", e.RequestID, schedule.Quote(e.QueueID))
	}
	e.out = Enqueued{Keys: f.Earlier.Keys, Marks: f.Earlier.Marks, Repeated: true}
	return true, nil
}

// decide is the pure part: the rows of the request.
func (e *enqueue) decide(f schedule.EnqueueFacts, now time.Time) (schedule.Enqueue, error) {
	if repeated, err := e.earlier(f); repeated || err != nil {
		return schedule.Enqueue{}, err
	}
	if e.made != nil {
		made, err := e.made(f)
		if e.out.Repeated = made; made || err != nil {
			return schedule.Enqueue{}, err
		}
	}
	q := f.Queue
	switch {
	case !q.Alive() || !e.reader(q):
		return schedule.Enqueue{}, noQueue(e.QueueID)
	case q.Closed:
		return schedule.Enqueue{}, schedule.Explain(schedule.ErrPrecondition, "queue %s is closed: it takes no new runs until it is opened", schedule.Quote(e.QueueID))
	}
	limits, err := e.limitsIn(q)
	if err != nil {
		return schedule.Enqueue{}, err
	}
	out := schedule.Enqueue{BodyHash: e.hash, Now: now}
	if err := e.enterRuns(f, limits, &out); err != nil {
		return schedule.Enqueue{}, err
	}
	if err := e.full(len(out.Runs) + len(e.rows)); err != nil {
		return schedule.Enqueue{}, err
	}
	for i := range e.rows {
		row := e.rows[i]
		row.Queue = schedule.QueuePlace{
			No: q.No, State: queueState(row.FireAt, now), Priority: schedule.QueuePriority(row.Priority), EnqueuedAt: now, Limits: row.Queue.Limits,
			FairKey: row.Queue.FairKey,
		}
		row.Enter(schedule.StatusPlanned)
		out.Runs, e.out.Keys = append(out.Runs, row), append(e.out.Keys, row.Key)
	}
	if e.join != nil {
		if err := e.join(f, &out); err != nil {
			return schedule.Enqueue{}, err
		}
	}
	out.Keys, out.Marks = e.out.Keys, e.out.Marks
	return out, nil
}

// limitsIn are the limits of each run in a queue.
func (e *enqueue) limitsIn(q *schedule.Queue) ([]schedule.Limits, error) {
	var all schedule.Collect
	limits := make([]schedule.Limits, len(e.Runs))
	plain := e.bounded(mergeLimits(&all, "limits", q, nil))
	for i := range e.Runs {
		own := slices.Concat(e.schedules[i].Limits, e.Runs[i].Limits)
		if limits[i] = plain; len(own) > 0 {
			limits[i] = e.bounded(mergeLimits(&all, e.prefix(i)+"limits", q, own))
		}
	}
	return limits, all.Err()
}

// row is the i-th run.
func (e *enqueue) row(q *schedule.Queue, limits schedule.Limits, i int, key schedule.Key, now time.Time) schedule.Run {
	in, s := &e.Runs[i], e.schedules[i]
	at := now.Truncate(time.Millisecond)
	if asked := utc(in.RunAt).Truncate(time.Millisecond); asked.After(at) {
		at = asked
	}
	if in.DelayMS != nil {
		at = at.Add(time.Duration(*in.DelayMS) * time.Millisecond)
	}
	row := plan.NewRow(s, plan.Slot{Key: key, RunAt: at, FireAt: at}, schedule.TriggerJob, schedule.OverlapAllow)
	row.Input, row.Priority, row.RequestedBy, row.CreatedAt = in.Input, value(in.Priority, s.Priority), e.Actor, now
	if row.MaxAttempts = s.Retry.QueuedAttempts(q, e.attempts); in.MaxAttempts != nil {
		row.MaxAttempts = int32(*in.MaxAttempts)
	}
	row.Webhook = cmp.Or(in.Webhook, s.Webhook)
	row.Queue = schedule.QueuePlace{No: q.No, State: queueState(at, now), Priority: schedule.QueuePriority(row.Priority), EnqueuedAt: now, Limits: limits}
	row.Queue.FairKey = cmp.Or(in.FairKey, s.FairKey)
	row.Queue.KeepHistory = e.Waits || s.KeepsHistory()
	if q.IsFair() { // also of a run that names its place: it draws nothing
		row.Queue.FairKey = cmp.Or(row.Queue.FairKey, s.UserID)
	}
	row.StartBy = schedule.StartBy(schedule.Later(at, now), value(in.ExpiresMS, 0), s.ExpiresMS, q.ExpiresMS)
	row.Enter(schedule.StatusPlanned)
	return row
}

func queueState(fireAt, now time.Time) schedule.QueueState {
	return ledger.StateOfEntry(fireAt, now)
}
