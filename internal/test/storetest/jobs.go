package storetest

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// jobs is a dispatch queue with runs that go by names.
type jobs struct {
	*rig
	queue schedule.Queue
	of    schedule.Schedule // the template of its jobs
	names map[schedule.Key]string
}

// jobs stores a queue and the schedule of its jobs.
func (r *rig) jobs(name string, edits ...func(*schedule.Queue)) *jobs {
	r.Helper()
	of := r.create(name+".template", func(s *schedule.Schedule) {
		s.CronExpr, s.NextRunAt, s.PlanAt = "", time.Time{}, time.Time{}
		s.Retry = schedule.RetryPolicy{MaxAttempts: 3}.Resolved()
	})
	return &jobs{rig: r, queue: r.putQueue(r.queue(name, edits...)), of: of, names: make(map[schedule.Key]string)}
}

// job is a run that waits in the queue, once it is put in.
func (j *jobs) job(name string, priority int32, edits ...func(*schedule.Run)) schedule.Run {
	run := j.slot(j.of, j.now, func(run *schedule.Run) {
		run.Key = schedule.JobKey(j.now, j.queue.QueueID, j.user, name, 0)
		run.Trigger, run.Priority, run.MaxAttempts = schedule.TriggerJob, priority, 3
		run.Queue = schedule.QueuePlace{
			No: j.queue.No, State: schedule.QueueWaiting, Priority: schedule.QueuePriority(priority), EnqueuedAt: j.now,
		}
	})
	for _, edit := range edits {
		edit(&run)
	}
	j.names[run.Key] = name
	return run
}

// delayed makes a job wait for an instant first.
func delayed(until time.Time) func(*schedule.Run) {
	return func(run *schedule.Run) { run.FireAt, run.Queue.State = until, schedule.QueueDelayed }
}

// enqueue puts runs into the queue, without a request id.
func (j *jobs) enqueue(position int, runs ...schedule.Run) {
	j.Helper()
	j.ok(j.tryEnqueue(schedule.EnqueueRequest{Position: position}, runs...), "enqueue")
}

func (j *jobs) tryEnqueue(req schedule.EnqueueRequest, runs ...schedule.Run) error {
	req.QueueID, req.UserID = j.queue.QueueID, j.user
	return j.Enqueue(j.ctx, req, func(schedule.EnqueueFacts) (schedule.Enqueue, error) {
		return schedule.Enqueue{Runs: runs, BodyHash: bodyHash, Now: j.now}, nil
	})
}

var bodyHash = [32]byte{1, 2, 3}

// put puts jobs of priority 0 at the end, one after the other.
func (j *jobs) put(names ...string) (runs []schedule.Run) {
	j.Helper()
	for _, name := range names {
		run := j.job(name, 0)
		j.enqueue(0, run)
		runs = append(runs, run)
	}
	return runs
}

// named are runs by their names.
func (j *jobs) named(runs []schedule.Run) string {
	var names []string
	for i := range runs {
		names = append(names, j.names[runs[i].Key])
	}
	return strings.Join(names, " ")
}

// listed is what waits, in order.
func (j *jobs) listed() []schedule.Run {
	j.Helper()
	runs, err := j.ListWaiting(j.ctx, schedule.WaitingFilter{QueueNo: j.queue.No, Limit: 1000})
	j.ok(err, "list what waits")
	return runs
}

// waits fails unless just these jobs wait, in this order, and each says so of its place.
func (j *jobs) waits(want string) {
	j.Helper()
	runs := j.listed()
	equal(j.rig, "what waits", j.named(runs), want)
	place := make(map[int32]int)
	for i := range runs {
		if runs[i].Queue.State != schedule.QueueWaiting {
			continue
		}
		place[runs[i].Queue.Priority]++
		at, err := j.PositionOf(j.ctx, &runs[i], 1000)
		j.ok(err, "position")
		j.hold(at == place[runs[i].Queue.Priority], "%s is at %d, got %d", j.names[runs[i].Key], place[runs[i].Queue.Priority], at)
	}
}

func (j *jobs) admitRequest(free int) schedule.AdmitRequest {
	return schedule.AdmitRequest{
		QueueNo: j.queue.No, Now: j.now, Free: free, Lease: func(schedule.Key) time.Duration { return lease }, RetryFor: retryFor,
	}
}

func (j *jobs) admission(free int, edits ...func(*schedule.AdmitRequest)) ledger.Dispatched {
	j.Helper()
	req := j.admitRequest(free)
	for _, edit := range edits {
		edit(&req)
	}
	out, err := j.Admit(j.ctx, req)
	j.ok(err, "admit")
	j.hold(out.Alone, "nobody else admits")
	return out
}

// admits fails unless just these jobs are admitted, in this order.
func (j *jobs) admits(free int, want string) (runs []schedule.Run) {
	j.Helper()
	for _, d := range j.admission(free).Dispatches {
		runs = append(runs, d.Run)
	}
	equal(j.rig, "what is admitted", j.named(runs), want)
	return runs
}

// accept has the executor take an admitted run.
func (j *jobs) accept(run schedule.Run) schedule.Run {
	j.Helper()
	j.finish(run.Key, accepted)
	return j.ledger(run.Key)
}

// end ends an admitted run.
func (j *jobs) end(run schedule.Run, status schedule.Status) schedule.Run {
	j.Helper()
	outcome := schedule.Outcome{Status: status}
	if status == schedule.StatusFailed {
		outcome.Reason = schedule.ReasonWorkflowFailed
	}
	j.finish(run.Key, outcome)
	after := j.ledger(run.Key)
	j.hold(after.Status == status, "%s ends %s, got %s", j.names[run.Key], status, after.Status)
	return after
}

// unsent lets the call of an admitted run end without having reached the executor.
func (j *jobs) unsent(run schedule.Run) {
	j.Helper()
	j.releaseHeld(run.Key, j.at(lease), 0, "release")
}

// putsBack answers whether an admitted run waits again.
func (j *jobs) putsBack(run schedule.Run, edits ...func(*schedule.PutBack)) bool {
	j.Helper()
	back := schedule.PutBack{Key: run.Key, Reason: "busy"}
	for _, edit := range edits {
		edit(&back)
	}
	put, err := j.PutBack(j.ctx, []schedule.PutBack{back}, nil, j.now)
	j.ok(err, "put back")
	j.hold(len(put) == 1, "one answer, got %v", put)
	return put[0]
}

func (j *jobs) sweepQueues(edits ...func(*schedule.QueueSweep)) ledger.SweptQueues {
	j.Helper()
	req := schedule.QueueSweep{SweepRequest: schedule.SweepRequest{Now: j.now, CancelWait: cancelWait, RetryFor: retryFor, Limit: 1000}, Free: 100}
	for _, edit := range edits {
		edit(&req)
	}
	swept, err := j.SweepQueues(j.ctx, req)
	j.ok(err, "sweep queues")
	return swept
}

// changes changes a run that waits.
func (j *jobs) changes(key schedule.Key, edit func(*schedule.Run)) error {
	_, err := j.ChangeQueued(j.ctx, key, func(run *schedule.Run) (schedule.QueuedChange, error) {
		edit(run)
		return schedule.QueuedChange{Run: run, Now: j.now}, nil
	})
	return err
}

// isIn fails unless the run is in this state, with the status that it shows.
func (j *jobs) isIn(run schedule.Run, state schedule.QueueState) schedule.Run {
	j.Helper()
	got := j.ledger(run.Key)
	want := schedule.StatusEnqueued
	if state == schedule.QueueRunning {
		want = schedule.StatusStarted
	}
	j.hold(got.Queue.State == state && got.Status == want, "%s is %s and %s, got %s and %s", j.names[run.Key], state, want, got.Queue.State, got.Status)
	return got
}

// refusesChange fails unless err is a refusal that names the rule.
func (j *jobs) refusesChange(err error) {
	j.Helper()
	j.hold(errors.Is(err, schedule.ErrPrecondition) && strings.Contains(err.Error(), "Cannot modify params after dispatch"), "it is refused, got %v", err)
}

var errRefused = errors.New("refused")

// inOrder reports whether keys are those of runs, in order.
func inOrder(keys []schedule.Key, runs []schedule.Run) bool {
	return slices.EqualFunc(keys, runs, func(key schedule.Key, run schedule.Run) bool { return key == run.Key })
}
