package memory

import (
	"context"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// tx is one transaction: its writes are visible at once, are undone if it fails, and is
// told to the watchers once it is over.
type tx struct {
	*Store
	term *schedule.Term
	undo []func()
	told []func()
	wake bool // there may be something to do

	queued bool // runs have entered a queue or left one, or a queue was changed

	ended   []*schedule.Run
	counted []*schedule.Run                   // those of ended that history does not keep
	byGroup map[schedule.Key]bool             // those that their group has ended
	next    []schedule.Run                    // the next attempts of runs in ended
	follows map[schedule.Key]*schedule.Run    // those of next, by the run that they follow
	commits map[schedule.Key]*schedule.Commit // of runs that succeed

	changed changed
	silent  bool // the claim: the leader knows what it has changed
	// planUntil is set in a transaction of the planner: what it inserts is a change if
	// it fires then or before.
	planUntil time.Time
}

// write runs one transaction.
func (s *Store) write(ctx context.Context, do func(*tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	t := tx{Store: s}
	err := s.open()
	if err == nil {
		err = do(&t)
	}
	if err == nil {
		err = t.followUp()
	}
	if err != nil {
		for i := len(t.undo) - 1; i >= 0; i-- {
			t.undo[i]()
		}
	} else {
		s.commit(ctx, t.changed.rows())
		for _, tell := range t.told {
			tell()
		}
		if len(t.told) > 0 && s.opts.Watch.Commit != nil {
			s.opts.Watch.Commit()
		}
	}
	s.mu.Unlock()
	if err == nil && t.wake && t.term == nil { // a term knows what it wrote
		s.wakes.call()
	}
	if err == nil && t.queued {
		s.queueWakes.call()
	}
	return err
}

// read runs what only looks.
func (s *Store) read(ctx context.Context, look func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return err
	}
	return look()
}

// fenced runs a transaction of a leader, refused once it leads no more.
func (s *Store) fenced(ctx context.Context, term schedule.Term, do func(*tx) error) error {
	return s.write(ctx, func(t *tx) error {
		if err := s.fence(term); err != nil {
			return err
		}
		t.term = &term
		return do(t)
	})
}

// change writes one row of the ledger.
func (t *tx) change(r *schedule.Run, edit func(*schedule.Run)) {
	before := *r
	if r.Queue.In() {
		delete(t.queuedDue, r.Key) // an undone change leaves the next sweep to look once more
	}
	t.live.remove(r)
	edit(r)
	if r.Status.Terminal() && !before.Status.Terminal() {
		t.passUses(r, t.conclude(r))
		if t.countedOnly(r) {
			t.counted = append(t.counted, r)
		}
		r.Queue = ledger.PlaceInHistory(&r.Queue)
	}
	if !r.Queue.State.Admitted() {
		t.freeUses(r)
	}
	t.live.add(r)
	t.undo = append(t.undo, func() {
		t.live.remove(r)
		*r = before
		t.live.add(r)
	})
	t.noteMove(&before, r)
	if r.Status.Terminal() && !before.Status.Terminal() {
		t.ended = append(t.ended, r)
	}
	if t.opts.Watch.Run != nil {
		after := *r
		t.told = append(t.told, func() { t.opts.Watch.Run(t.term, &before, &after) })
	}
}

// insert inserts a PLANNED row unless its key exists.
func (t *tx) insert(r schedule.Run, now time.Time) (inserted bool) {
	if t.runs[r.Key] != nil {
		return false
	}
	row := &schedule.Run{
		Key: r.Key, ScheduleID: r.ScheduleID, Revision: r.Revision, RunAt: at(r.RunAt), FireAt: at(r.FireAt),
		Status: schedule.StatusPlanned, Reason: r.Reason, Trigger: r.Trigger,
		OverlapKey: r.OverlapKey, OverlapPolicy: r.OverlapPolicy, Exclusive: r.Exclusive, MaxQueued: r.MaxQueued,
		WaitingSince: at(r.WaitingSince), Attempt: max(r.Attempt, 1), MaxAttempts: r.MaxAttempts, StartBy: at(r.StartBy), RetryOf: r.RetryOf, Snoozes: r.Snoozes, Interruptions: r.Interruptions, AttemptsBefore: r.AttemptsBefore,
		Input: clone(r.Input), Priority: r.Priority, TraceID: r.TraceID,
		Queue: r.Queue, Epoch: r.Epoch,
		Webhook: r.Webhook, RequestedBy: r.RequestedBy,
		CreatedAt: either(r.CreatedAt, now), UpdatedAt: either(r.UpdatedAt, now),
	}
	row.Queue.EnqueuedAt = at(r.Queue.EnqueuedAt)
	row.Enter(schedule.StatusPlanned)
	if v := t.revisions[revisionID{r.ScheduleID, r.Revision}]; v != nil {
		row.UserID, row.WorkflowID, row.Version = v.Definition.UserID, v.Definition.WorkflowID, v.Definition.Version
	}
	t.runs[r.Key] = row
	t.live.add(row)
	t.undo = append(t.undo, func() { delete(t.runs, r.Key); t.live.remove(row) })
	if t.planUntil.IsZero() || !row.FireAt.After(t.planUntil) {
		t.noteRun(runInserted, row)
	}
	if t.opts.Watch.Run != nil {
		after := *row
		t.told = append(t.told, func() { t.opts.Watch.Run(t.term, nil, &after) })
	}
	return true
}

// remove deletes a row of the ledger.
func (t *tx) remove(r *schedule.Run) {
	late, attempts := t.lateReports[r.Key], t.attempts[r.Key]
	setUndone(t, t.leases, r.Key, schedule.KeyLease{})
	setUndone(t, t.firstSent, r.Key, time.Time{})
	delete(t.runs, r.Key)
	delete(t.lateReports, r.Key)
	delete(t.attempts, r.Key)
	t.live.remove(r)
	t.undo = append(t.undo, func() {
		t.runs[r.Key] = r
		t.lateReports[r.Key], t.attempts[r.Key] = late, attempts
		t.live.add(r)
	})
	if t.opts.Watch.Run != nil {
		t.told = append(t.told, func() { t.opts.Watch.Run(t.term, r, nil) })
	}
}

// put writes a schedule's row.
func (t *tx) put(after *schedule.Schedule) {
	id := after.ScheduleID
	before, poison := t.schedules[id], t.unreadable[id]
	after.Planned = nil // the ledger's
	t.schedules[id] = after
	t.undo = append(t.undo, func() {
		if t.schedules[id] = before; before == nil {
			delete(t.schedules, id)
		}
		if poison != nil {
			t.unreadable[id] = poison
		}
	})
	if t.opts.Watch.Schedule != nil {
		t.told = append(t.told, func() { t.opts.Watch.Schedule(t.term, before, after) })
	}
}

// request writes the record of a key.
func (t *tx) request(r schedule.ExecutionRequest, now time.Time) {
	before := t.requests[r.Key]
	created := at(now)
	if before != nil {
		created = before.createdAt
	}
	t.requests[r.Key] = &request{r, created}
	t.undo = append(t.undo, func() {
		if t.requests[r.Key] = before; before == nil {
			delete(t.requests, r.Key)
		}
	})
}

// note appends events to a schedule's log.
func (t *tx) note(scheduleID string, events []schedule.Event, now time.Time) {
	for _, e := range events {
		t.lastEvent++
		if e.ScheduleID == "" {
			e.ScheduleID = scheduleID
		}
		e.ID, e.Time = t.lastEvent, either(e.Time, now)
		e.From, e.To = at(e.From), at(e.To)
		t.events = append(t.events, e)
		t.undo = append(t.undo, func() { t.events = t.events[:len(t.events)-1] })
		if t.opts.Watch.Event != nil {
			t.told = append(t.told, func() { t.opts.Watch.Event(e) })
		}
	}
}

// clone returns a copy of raw JSON; nil stays nil.
func clone(raw []byte) []byte {
	if len(raw) == 0 {
		return nil
	}
	return append([]byte(nil), raw...)
}
