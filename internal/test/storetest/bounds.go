package storetest

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// boundChecks are how expires_ms and max_run_ms end runs.
var boundChecks = []check{
	{"a run that has waited in its queue for too long expires, and is not dead", boundExpires},
	{"an admission ends a run that has expired before a sweep does", boundAdmission},
	{"a delayed run expires so long after its delay", boundDelayed},
	{"a run that was put back still expires, and its retry does not", boundPutBack},
	{"a changed start moves the expiry", boundMoved},
	{"a chained run expires so long after it was let go", boundChained},
	{"a slot expires in its queue as its schedule says, else the queue", boundSlot},
	{"a run in a queue that is not over in time fails, and is retried", boundQueued},
	{"a run outside queues that is not over in time fails, whatever it reports", boundPlain},
}

func startBy(at time.Time) func(*schedule.Run) {
	return func(run *schedule.Run) { run.StartBy = at }
}

// expires fails unless the next sweep ends just this run as expired.
func (j *jobs) expires(run schedule.Run) {
	j.Helper()
	swept := j.sweepQueues()
	got := j.ledger(run.Key)
	j.hold(len(swept.Ended) == 1 && swept.Ended[0].Run.Key == run.Key, "one run ends, got %+v", swept)
	j.hold(got.Status == schedule.StatusSkipped && got.Reason == schedule.ReasonExpired && !got.IsDead() && got.CompletedAt.Equal(j.now) && got.ErrorMessage != "" && got.StartBy.IsZero(), "it expires, got %+v", got)
}

func boundExpires(r *rig) {
	j := r.jobs("q")
	a, b := j.job("a", 0, startBy(r.at(time.Minute))), j.job("b", 0)
	j.enqueue(0, a, b)
	j.hold(j.ledger(a.Key).StartBy.Equal(r.at(time.Minute)), "it comes back")
	swept := j.sweepQueues()
	j.hold(len(swept.Ended) == 0 && swept.NextDue.Equal(r.at(time.Minute)), "it is due at its expiry, got %+v", swept)
	j.waits("a b")
	r.now = r.at(time.Minute)
	j.expires(a)
	j.waits("b")
	j.hold(j.sweepQueues().NextDue.IsZero(), "nothing is due")
}

func boundAdmission(r *rig) {
	j := r.jobs("q")
	a := j.job("a", 0, startBy(r.at(time.Minute)))
	j.enqueue(0, a, j.job("b", 0))
	r.now = r.at(time.Minute + time.Second)
	out := j.admission(5)
	j.hold(len(out.Ended) == 1 && out.Ended[0].Key == a.Key && out.Ended[0].Reason == schedule.ReasonExpired, "it ends, got %+v", out)
	j.hold(len(out.Dispatches) == 1 && j.names[out.Dispatches[0].Run.Key] == "b", "the other one is sent, got %+v", out.Dispatches)
	got := j.ledger(a.Key)
	j.hold(got.Status == schedule.StatusSkipped && got.Reason == schedule.ReasonExpired && got.Deliveries == 0, "it has expired, got %+v", got)
}

func boundDelayed(r *rig) {
	j := r.jobs("q")
	a := j.job("a", 0, delayed(r.at(time.Minute)), startBy(r.at(2*time.Minute)))
	j.enqueue(0, a)
	j.hold(j.sweepQueues().NextDue.Equal(r.at(time.Minute)), "it is due at the end of its delay")
	r.now = r.at(time.Minute)
	swept := j.sweepQueues()
	j.hold(swept.Ready && len(swept.Ended) == 0, "it waits, got %+v", swept)
	j.hold(j.sweepQueues().NextDue.Equal(r.at(time.Minute)), "it is due at its expiry")
	r.now = r.at(time.Minute)
	j.expires(a)
}

func boundPutBack(r *rig) {
	j := r.jobs("q")
	a, b := j.job("a", 0, startBy(r.at(time.Minute))), j.job("b", 0, startBy(r.at(time.Minute)))
	j.enqueue(0, a, b)
	j.admits(2, "a b")
	j.unsent(a)
	j.hold(j.putsBack(a, func(back *schedule.PutBack) { back.FireAt = r.at(time.Hour) }), "it waits again")
	failed := j.end(b, schedule.StatusFailed)
	retry := r.next(failed)
	j.hold(retry.StartBy.IsZero(), "its retry does not expire, got %s", retry.StartBy)
	r.now = r.at(time.Minute)
	j.expires(a)
	j.hold(!r.ledger(retry.Key).Status.Terminal(), "the retry is open")
}

func boundMoved(r *rig) {
	j := r.jobs("q")
	a := j.job("a", 0, startBy(r.at(time.Minute)))
	j.enqueue(0, a)
	j.ok(j.changes(a.Key, func(run *schedule.Run) {
		run.FireAt, run.StartBy, run.Queue.State = r.at(time.Hour), r.at(time.Hour+time.Minute), schedule.QueueDelayed
	}), "change the start")
	j.hold(j.ledger(a.Key).StartBy.Equal(r.at(time.Hour+time.Minute)), "it is stored")
	r.now = r.at(time.Hour)
	j.hold(j.sweepQueues().Ready, "it waits then")
	r.now = r.at(time.Minute)
	j.expires(a)
}

func boundChained(r *rig) {
	j := r.jobs("q")
	j.group("g", schedule.GroupSequential, "a b", func(g *schedule.JobGroup) { g.OnFailure = schedule.GroupContinue })
	members := j.listed()
	b := members[1]
	j.hold(b.Queue.State == schedule.QueueChained, "b is chained")
	j.ok(j.changes(b.Key, startBy(r.at(time.Minute))), "let it expire")
	r.now = r.at(time.Hour)
	j.hold(len(j.sweepQueues().Ended) == 0, "it does not expire while it is chained")
	j.plays("a", schedule.StatusSuccess)
	j.isIn(b, schedule.QueueWaiting)
	j.hold(j.ledger(b.Key).StartBy.Equal(r.at(time.Minute)), "it expires a minute from now, got %s", j.ledger(b.Key).StartBy)
	j.hold(j.sweepQueues().NextDue.Equal(r.at(time.Minute)), "it is due then")
	r.now = r.at(time.Minute)
	j.expires(b)
}

func boundSlot(r *rig) {
	q := r.slotsIn(schedule.OverlapAllow, func(s *schedule.Schedule) { s.ExpiresMS = 5_000 })
	queue := q.queue
	queue.ExpiresMS = 60_000
	r.putQueue(queue)
	a := q.due("a")
	q.passes("a")
	q.hold(q.ledger(a.Key).StartBy.Equal(r.at(5*time.Second)), "it expires as the schedule says, got %s", q.ledger(a.Key).StartBy)
	q.s = r.revise(r.row(q.s), func(s *schedule.Schedule) { s.ExpiresMS = 0 })
	q.later(time.Second)
	b := q.due("b")
	q.passes("b")
	q.hold(q.ledger(b.Key).StartBy.Equal(r.at(time.Minute)), "it expires as the queue says, got %s", q.ledger(b.Key).StartBy)
	q.later(4 * time.Second)
	q.expires(a)
	q.later(56 * time.Second)
	q.expires(b)
}

func boundQueued(r *rig) {
	r.lead()
	j := r.jobs("q")
	run := j.put("a")[0]
	j.admits(1, "a")
	_, err := r.Finish(r.ctx, []schedule.FinishRequest{{Key: run.Key, Outcome: accepted, RunTimeout: time.Minute, MaxRun: 90 * time.Second}}, r.now)
	r.ok(err, "accept")
	got := r.ledger(run.Key)
	j.hold(got.DeadlineAt.Equal(r.at(90*time.Second)) && got.TimeoutAt.Equal(r.at(time.Minute)), "its bounds begin, got %+v", got)
	j.hold(r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusStarted, StartedAt: r.now, TimeoutAt: r.at(90 * time.Second), DeadlineAt: r.at(time.Hour)})[0], "a heartbeat")
	j.hold(r.ledger(run.Key).DeadlineAt.Equal(r.at(90*time.Second)), "a heartbeat does not move the deadline")
	r.now = r.at(90 * time.Second)
	swept := j.sweepQueues()
	got = r.ledger(run.Key)
	j.hold(len(swept.Ended) == 1 && got.Status == schedule.StatusFailed && got.Reason == schedule.ReasonDeadline && got.FailureClass == schedule.ClassDeadline && got.DeadlineAt.IsZero(), "it has failed, got %+v", got)
	retry := r.next(got)
	j.hold(retry.Attempt == 2 && retry.DeadlineAt.IsZero(), "its retry is in the queue, got %+v", retry)
}

func boundPlain(r *rig) {
	r.lead()
	run := r.bring(r.due(r.create("long"), 0), schedule.StatusEnqueued, func(s *schedule.Settlement) {
		s.TimeoutAt, s.DeadlineAt = r.at(time.Minute), r.at(time.Minute)
	})
	r.now = r.at(30 * time.Second)
	r.hold(r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusStarted, StartedAt: r.now, TimeoutAt: r.at(30 * time.Second)})[0], "a heartbeat")
	r.hold(len(r.sweep()) == 0, "it runs")
	r.now = r.at(30 * time.Second)
	run = r.ledger(run.Key)
	r.swept(r.sweep(), run, schedule.StatusFailed, schedule.ReasonDeadline)
}
