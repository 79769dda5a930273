package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/failpoint"
	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/logthrottle"
	"github.com/carillon/carillon/internal/schedule"
)

// sending is a run that is with the launcher.
type sending struct {
	schedule.Launch
	queue   *schedule.Queue // nil: it cannot be read
	stalled int             // stall_level of the queue when the run was admitted
}

func (s *sending) queueID() string {
	if s.queue == nil {
		return ""
	}
	return s.queue.QueueID
}

// owner is that of the queue: its queues share the calls with those of other owners.
func (s *sending) owner() string {
	if s.queue == nil {
		return s.Run.UserID
	}
	return s.queue.UserID
}

// onlyItself reports whether a run that the executor does not take waits alone, and the queue
// goes on.
func (s *sending) onlyItself() bool {
	return s.queue != nil && s.queue.Backpressure == schedule.BackpressureRun
}

// send hands runs to the launcher at an instant, zero for now, and returns at once. When ctx ends,
// runs whose call has not begun come back as given up; open calls go on.
func (d *Dispatcher) send(ctx context.Context, runs []sending, at time.Time) {
	d.mu.Lock()
	d.open += len(runs)
	for i := range runs {
		d.openOf[runs[i].owner()]++
	}
	d.mu.Unlock()
	d.calls.Go(func() {
		d.await(ctx, at)
		err := d.nameGroups(runs)
		reqs := make([]schedule.StartRequest, len(runs))
		for i := range runs {
			reqs[i] = runs[i].request()
		}
		if err != nil {
			d.failed(ctx, "read the groups of admitted runs; they wait again", err)
			for i := range runs {
				d.answer(&runs[i], &reqs[i], schedule.StartReply{}, context.Canceled)
			}
			return
		}
		d.Launcher.StartAll(ctx, reqs, func(i int, reply schedule.StartReply, err error) {
			d.calls.Go(func() { d.answer(&runs[i], &reqs[i], reply, err) })
		})
	})
}

// request is the launcher's request for the run.
func (s *sending) request() schedule.StartRequest {
	req := s.StartRequest()
	req.QueueID, req.GroupID = s.queueID(), s.Run.Queue.GroupID
	req.RunTimeout, req.MaxRun = schedule.RunTimeout(s.queue, s.Definition), schedule.MaxRun(s.queue, s.Definition)
	return req
}

// nameGroups reads the ids of the groups of runs: each call of a run must carry the same.
func (d *Dispatcher) nameGroups(runs []sending) error {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	ids := make(map[int32]string)
	for i := range runs {
		place := &runs[i].Run.Queue
		id, known := ids[place.GroupNo]
		if !known && place.GroupNo != 0 {
			var err error
			if id, err = d.Store.JobGroupID(ctx, place.GroupNo); err != nil {
				return err
			}
			ids[place.GroupNo] = id
		}
		place.GroupID = id
	}
	return nil
}

// await returns at an instant, or when ctx ends.
func (d *Dispatcher) await(ctx context.Context, at time.Time) {
	pause := at.Sub(d.now())
	if at.IsZero() || pause <= 0 {
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// answer handles an answer of the launcher, and gives the call back.
func (d *Dispatcher) answer(run *sending, req *schedule.StartRequest, reply schedule.StartReply, err error) {
	admitted, unbegun := d.Begun.drop(req.Key)
	switch {
	case err == nil:
		d.answered(run, req, &reply)
	case unbegun || errors.Is(err, context.Canceled) && !called(err):
		d.givenUp(run, &admitted)
	default:
		d.unanswered(run, req, err)
	}
	d.mu.Lock()
	d.open--
	owner := run.owner()
	if d.openOf[owner]--; d.openOf[owner] == 0 {
		delete(d.openOf, owner)
	}
	d.mu.Unlock()
	d.Wake()
}

// answered handles a definite answer.
func (d *Dispatcher) answered(run *sending, req *schedule.StartRequest, reply *schedule.StartReply) {
	d.retries.Answered(req.Key)
	if !reply.LaunchedAt.IsZero() {
		if d.Observer != nil {
			d.Observer.RunLaunched(&run.Run, reply.LaunchedAt)
		}
		d.reached(run)
	}
	s := ledger.SettlementOf(&run.Run, &schedule.FinishRequest{
		Key: req.Key, Outcome: reply.Outcome, LaunchedAt: reply.LaunchedAt, Deliveries: reply.Deliveries, RunTimeout: req.RunTimeout, MaxRun: req.MaxRun,
	}, d.now())
	if reply.Settled {
		d.settled(run, &s)
		return
	}
	d.settle(run, s)
}

// called reports whether an attempt to call the executor has failed.
func called(err error) bool {
	_, failed := errors.AsType[*schedule.LaunchError](err)
	return failed
}

// givenUp handles a run whose call has not begun when this process stops: it waits again. If it
// may have been sent before, another process sends the same key when its turn is over.
func (d *Dispatcher) givenUp(run *sending, admitted *schedule.BeginResult) {
	back := putBack{PutBack: schedule.PutBack{Key: run.Run.Key}, run: run, cause: &schedule.LaunchError{Err: schedule.ErrWithheld}, admitted: admitted.Request}
	if put, err := d.backs.Do(context.Background(), back); err != nil {
		d.log.Error("cannot let a run wait again; the same key is sent again when its lease is over", "key", run.Run.Key.String(), "err", err)
	} else if put {
		d.Metrics.putBack.Inc()
	}
}

// unanswered handles a call without a definite answer. If the executor certainly does not have
// the run, it waits again; else the same key is sent again after a pause.
func (d *Dispatcher) unanswered(run *sending, req *schedule.StartRequest, cause error) {
	e := schedule.LaunchErrorOf(cause)
	unsent := !e.Reached || errors.Is(cause, schedule.ErrWithheld)
	if unsent && !errors.Is(cause, schedule.ErrBusy) && !errors.Is(cause, schedule.ErrOverdue) && d.putBack(run, e) {
		return
	}
	s := d.retries.Settlement(req, cause, d.now())
	d.log.Warn("launch attempt failed", "queue_id", run.queueID(), "schedule_id", run.Run.ScheduleID, "key", req.Key.String(),
		"error_code", s.ErrorCode, "next_attempt_at", s.ClaimedUntil, "gives_up_at", req.SendUntil, "err", cause)
	switch moved := d.settle(run, s); {
	case moved.To == schedule.StatusLaunching:
		d.retries.Written(&s, d.now())
	case moved.To.Terminal():
		d.retries.Answered(s.Key)
	}
}

// settle writes one settlement in a batch with others.
func (d *Dispatcher) settle(run *sending, s schedule.Settlement) (moved schedule.Moved) {
	moved, err := d.settles.Do(context.Background(), s)
	if err != nil {
		d.log.Error("cannot record the run's outcome; the same key is sent again when its lease is over", "key", s.Key.String(), "to", string(s.To), "err", err)
		return schedule.Moved{}
	}
	if moved.To == "" || moved.To == schedule.StatusLaunching {
		return moved // a report was faster, or the key is sent again
	}
	s.To, s.Reason = moved.To, moved.Reason
	d.settled(run, &s)
	return moved
}

func (d *Dispatcher) settleAll(ctx context.Context, settlements []schedule.Settlement) ([]schedule.Moved, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	moved, err := d.Store.SettleLaunched(ctx, d.now(), settlements)
	failpoint.Hit(failpoint.Ended)
	return moved, err
}

// settled counts and logs a run that has ended or that the executor has.
func (d *Dispatcher) settled(run *sending, s *schedule.Settlement) {
	d.ended(s.To, s.Reason, s.LaunchedAt.IsZero())
	d.log.Log(context.Background(), logthrottle.RunLevel(s.To), "run settled", "queue_id", run.queueID(), "schedule_id", run.Run.ScheduleID, "key", s.Key.String(),
		"status", string(s.To), "reason", string(s.Reason), "error_code", s.ErrorCode, "error_message", s.ErrorMessage, "run_id", s.RunID)
}

func (d *Dispatcher) ended(to schedule.Status, reason schedule.Reason, neverTaken bool) {
	if d.Observer != nil {
		d.Observer.RunEnded(to, reason, neverTaken)
	}
}

// stall is what this process knows of a queue whose executor cannot take work.
type stall struct {
	level int
	until time.Time
}

// The pauses of a queue whose executor cannot be reached.
const (
	firstStall = time.Second
	mostStall  = 5 * time.Second
)

// putBack is a run that waits again, with what it says about its queue.
type putBack struct {
	schedule.PutBack
	run   *sending
	cause *schedule.LaunchError
	// admitted is the key as the admission has recorded it, if the launcher has not begun it.
	admitted schedule.ExecutionRequest
}

// stalls reports whether the queue of the run stalls: not because a check forbids this run.
func (b *putBack) stalls() bool {
	return !errors.Is(b.cause, schedule.ErrWithheld) && (b.cause.NotTaken == 0 || !b.run.onlyItself())
}

// putBack lets a run wait again, and its queue stall. put = false: it cannot wait again.
func (d *Dispatcher) putBack(run *sending, e *schedule.LaunchError) (put bool) {
	back := putBack{PutBack: schedule.PutBack{Key: run.Run.Key}, run: run, cause: e}
	if e.NotTaken > 0 && run.onlyItself() {
		back.FireAt = d.now().Add(e.NotTaken)
	}
	put, err := d.backs.Do(context.Background(), back)
	if err != nil {
		d.log.Error("cannot let a run wait again; the same key is sent again when its lease is over", "key", run.Run.Key.String(), "err", err)
		return true
	}
	if put {
		d.Metrics.putBack.Inc()
	}
	return put
}

func (d *Dispatcher) putBackAll(ctx context.Context, backs []putBack) ([]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	now := d.now()
	runs := make([]schedule.PutBack, len(backs))
	var releases []schedule.KeyRelease
	for i := range backs {
		runs[i] = backs[i].PutBack
		if a := &backs[i].admitted; !a.Key.IsZero() {
			releases = append(releases, schedule.KeyRelease{Key: a.Key, Held: a.Lease.Until, Calls: a.Calls - 1})
		}
	}
	if len(releases) > 0 {
		if err := d.Begun.Release(ctx, releases, now); err != nil {
			return nil, err
		}
	}
	put, err := d.Store.PutBack(ctx, runs, d.stallsOf(backs, now), now)
	failpoint.Hit(failpoint.PutBack)
	return put, err
}

// stallsOf are the stalls that begin or go on because of runs that were not taken: one for
// each queue.
func (d *Dispatcher) stallsOf(backs []putBack, now time.Time) (changes []schedule.StallChange) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range backs {
		b := &backs[i]
		s := d.stalls[b.run.Run.Queue.No]
		if !b.stalls() || s.until.After(now) { // for an earlier run
			continue
		}
		began := s.level == 0 && b.run.stalled == 0
		s.level = max(s.level, b.run.stalled) + 1
		cause := schedule.Storable(b.cause.Error(), schedule.MaxAttemptMessage)
		pause := min(mostStall, firstStall<<min(s.level-1, 3))
		reason := "the executor cannot be reached: " + cause
		if b.cause.NotTaken > 0 {
			pause, reason = b.cause.NotTaken, "the executor takes no runs: "+cause
		}
		s.until = now.Add(pause)
		d.stalls[b.run.Run.Queue.No] = s
		change := schedule.StallChange{QueueStall: schedule.QueueStall{QueueNo: b.run.Run.Queue.No, Until: s.until, Level: s.level, Reason: reason}}
		if began {
			change.Event = &schedule.QueueEvent{QueueID: b.run.queueID(), Time: now, Kind: schedule.QueueStalled, Note: reason}
			d.log.Warn("queue stalls: its runs wait, in their order", "queue_id", b.run.queueID(), "until", s.until, "reason", reason)
		}
		changes = append(changes, change)
	}
	return changes
}

// reached ends the stall of a queue: its executor has answered.
func (d *Dispatcher) reached(run *sending) {
	d.mu.Lock()
	known := d.stalls[run.Run.Queue.No]
	delete(d.stalls, run.Run.Queue.No)
	d.mu.Unlock()
	if known.level == 0 && run.stalled == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	now := d.now()
	_, err := d.Store.PutBack(ctx, nil, []schedule.StallChange{{
		QueueStall: schedule.QueueStall{QueueNo: run.Run.Queue.No},
		Event:      &schedule.QueueEvent{QueueID: run.queueID(), Time: now, Kind: schedule.QueueUnstalled},
	}}, now)
	if err != nil {
		d.failed(ctx, fmt.Sprintf("end the stall of queue %s; it ends by itself", schedule.Quote(run.queueID())), err)
	}
}
