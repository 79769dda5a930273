package storetest

import (
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// putBacks are how admitted runs wait again that the executor certainly does not have.
var putBacks = []check{
	{"a run that was not sent waits again at its place, and is admitted again", backAtItsPlace},
	{"it is delayed if it may not start before an instant", backDelayed},
	{"it does not wait again while its call is open, or if the call may have reached the executor", backNotSent},
	{"it does not wait again once its cancel is requested, or once it runs or has ended", backNotOver},
	{"each run has its own answer", backAnswers},
}

func backAtItsPlace(r *rig) {
	j := r.jobs("q", maxInFlight(2))
	runs := j.put("a", "b", "c", "d")
	before := r.ledger(runs[0].Key)
	j.admits(5, "a b")
	r.now = r.at(time.Second)
	j.releaseHeld(runs[0].Key, r.at(lease-time.Second), 0, "release")
	j.hold(j.putsBack(runs[0]), "it waits again")
	j.waits("a c d")
	want := before
	want.ClaimedAt, want.UpdatedAt, want.Queue.AdmittedAs = r.at(-time.Second), r.now, schedule.AdmittedInOrder
	equal(r, "the run", r.ledger(runs[0].Key), want)
	j.hold(!j.putsBack(runs[0]), "it waits already")
	j.enqueue(1, j.job("first", 0))
	j.waits("first a c d")
	out := j.admission(5)
	j.hold(len(out.Dispatches) == 1 && j.names[out.Dispatches[0].Run.Key] == "first", "one slot is free, got %+v", out)
	j.end(runs[1], schedule.StatusSuccess)
	again := j.admits(5, "a")[0]
	j.hold(again.Deliveries == 1 && again.ClaimedAt.Equal(r.at(-time.Second)) && again.Attempt == 1, "no attempt was used, got %+v", again)
}

func backDelayed(r *rig) {
	j := r.jobs("q", maxInFlight(1))
	runs := j.put("a", "b")
	j.admits(1, "a")
	j.unsent(runs[0])
	j.hold(j.putsBack(runs[0], func(b *schedule.PutBack) { b.FireAt = r.at(time.Minute) }), "it waits again")
	j.isIn(runs[0], schedule.QueueDelayed)
	j.waits("b a")
	r.now = r.at(time.Minute)
	j.hold(j.sweepQueues().Ready, "its delay is over")
	j.waits("a b")
}

func backNotSent(r *rig) {
	j := r.jobs("q")
	runs := j.put("a", "b")
	j.admits(5, "a b")
	j.hold(!j.putsBack(runs[0]), "its call is open")
	r.releaseHeld(runs[0].Key, r.at(lease), 1, "release after an unknown outcome")
	j.hold(!j.putsBack(runs[0]), "the executor may have it")
	r.now = r.at(2 * lease)
	j.hold(!j.putsBack(runs[1]), "a lease that is over says nothing of its call")
	for _, run := range runs {
		j.isIn(run, schedule.QueueDispatching)
	}
	j.waits("")
}

func backNotOver(r *rig) {
	j := r.jobs("q")
	runs := j.put("cancelled", "running", "ended")
	j.admits(5, "cancelled running ended")
	r.askCancel(runs[0].Key, schedule.ReasonCancelled, r.now)
	j.unsent(runs[0])
	j.accept(runs[1])
	j.end(runs[2], schedule.StatusSuccess)
	for _, run := range runs {
		j.hold(!j.putsBack(run), "%s does not wait again", j.names[run.Key])
	}
	j.waits("")
}

func backAnswers(r *rig) {
	j := r.jobs("q")
	runs := j.put("a", "b", "c")
	j.admits(5, "a b c")
	j.unsent(runs[0])
	j.unsent(runs[2])
	nobody := schedule.JobKey(r.now, "q", "u", "nobody", 0)
	put, err := j.PutBack(r.ctx, []schedule.PutBack{{Key: runs[2].Key}, {Key: nobody}, {Key: runs[1].Key}, {Key: runs[0].Key}}, nil, r.now)
	r.ok(err, "put back")
	equal(r, "answers", put, []bool{true, false, false, true})
	j.waits("a c")
}

// queueSweeps are what an instant makes of runs of queues.
var queueSweeps = []check{
	{"a delayed run waits from its fire_at on", sweepDelayed},
	{"a run whose call has no answer is sent again once its lease is over, by one sweep", sweepResends},
	{"it is sent again at once if its holder is gone, and once", sweepGone},
	{"it is not sent again while no call is free", sweepNoFree},
	{"a launch that is never answered ends at its bound", sweepLaunchBound},
	{"a run that is silent past its timeout fails and is retried", sweepSilent},
	{"the cancel of an admitted run is to be sent, and ends it without a confirmation", sweepCancelQueued},
	{"what has entered a queue while it was deleted ends, whatever it waits for", sweepDeleted},
	{"a run that waits is never due, and the next instant is known", sweepNextDue},
	{"at most Limit runs are looked at, the ones that are due longest first", sweepQueuesLimit},
	{"a sweep of a leader leaves runs of queues alone", sweepLeader},
	{"a sweep that is repeated moves what is due then", sweepRepeated},
}

func sweepDelayed(r *rig) {
	j := r.jobs("q")
	j.put("a")
	j.enqueue(0, j.job("later", 9, delayed(r.at(time.Minute))))
	equal(r, "before", j.sweepQueues(), ledger.SweptQueues{NextDue: r.at(time.Minute)})
	j.waits("a later")
	r.now = r.at(time.Minute)
	equal(r, "then", j.sweepQueues(), ledger.SweptQueues{Ready: true})
	j.waits("later a")
	equal(r, "after it", j.sweepQueues(), ledger.SweptQueues{})
}

func sweepDeleted(r *rig) {
	j, other := r.jobs("q"), r.jobs("other")
	runs := j.put("running", "waiting")
	j.admits(1, "running")
	delay := j.job("delayed", 0, delayed(r.at(time.Hour)))
	link := j.job("chained", 0, func(run *schedule.Run) { run.Queue.State = schedule.QueueChained })
	j.enqueue(0, delay, link)
	stays := other.put("stays")[0]
	gone := j.queue
	gone.DeletedAt = r.now
	r.putQueue(gone)
	late := []schedule.Run{runs[1], delay, link}
	j.sweepQueues(func(req *schedule.QueueSweep) { req.DeletedSince = r.now })
	for _, run := range late {
		r.hold(!r.ledger(run.Key).Status.Terminal(), "a sweep that looks at later deletions leaves it")
	}
	swept := j.sweepQueues(func(req *schedule.QueueSweep) { req.Limit = 2 })
	r.hold(len(swept.Ended) == 2 && swept.More, "two end by the first sweep, got %+v", swept)
	swept = j.sweepQueues()
	r.hold(len(swept.Ended) == 1 && !swept.More, "the third ends by the second, got %+v", swept)
	for _, run := range late {
		got := r.ledger(run.Key)
		r.hold(got.Status == schedule.StatusCancelled && got.Reason == schedule.ReasonDeleted, "it ends, got %s(%s)", got.Status, got.Reason)
	}
	j.isIn(runs[0], schedule.QueueDispatching)
	other.isIn(stays, schedule.QueueWaiting)
}

func sweepResends(r *rig) {
	j := r.jobs("q")
	run := j.put("a")[0]
	j.admits(1, "a")
	swept := j.sweepQueues()
	j.hold(len(swept.Resend) == 0 && swept.NextDue.Equal(r.at(lease)), "its lease runs, got %+v", swept)
	r.now = r.at(lease)
	swept = j.sweepQueues()
	j.hold(len(swept.Resend) == 1 && swept.Resend[0].Run.Key == run.Key && swept.Resend[0].Again && swept.Resend[0].Definition != nil, "it is sent again, got %+v", swept)
	j.hold(len(j.sweepQueues().Resend) == 0, "by one sweep")
	j.isIn(run, schedule.QueueDispatching)
	r.permits(r.beginRequest(run), schedule.GrantedAgain)
	r.now = r.at(lease - time.Second)
	j.hold(len(j.sweepQueues().Resend) == 0, "its second lease runs")
	j.accept(run)
	r.now = r.at(2 * time.Second)
	j.hold(len(j.sweepQueues().Resend) == 0, "it has an answer")
	j.isIn(run, schedule.QueueRunning)
}

func sweepGone(r *rig) {
	j := r.jobs("q")
	runs := j.put("a", "b", "c")
	first, second := r.lives("first"), r.lives("second")
	admits := func(holder int32, want string) {
		r.Helper()
		out, err := r.Admit(r.ctx, schedule.AdmitRequest{QueueNo: j.queue.No, Now: r.now, Free: 1, Holder: holder, Lease: func(schedule.Key) time.Duration { return lease }, RetryFor: retryFor})
		r.ok(err, "admit")
		j.hold(len(out.Dispatches) == 1 && j.named([]schedule.Run{out.Dispatches[0].Run}) == want, "%s is admitted, got %+v", want, out)
	}
	admits(first.no, "a")
	admits(second.no, "b")
	admits(first.no, "c")
	j.accept(runs[2])
	j.hold(len(j.sweepQueues().Resend) == 0, "both live")
	first.drop()
	swept := j.sweepQueues()
	j.hold(len(swept.Resend) == 1 && swept.Resend[0].Run.Key == runs[0].Key, "one call was open that nobody holds, got %+v", swept)
	j.hold(len(j.sweepQueues().Resend) == 0, "by one sweep")
	again := r.beginRequest(runs[0])
	again.Holder = second.no
	r.permits(again, schedule.GrantedAgain)
	j.hold(len(j.sweepQueues().Resend) == 0, "the second one lives")
	second.drop()
	j.hold(len(j.sweepQueues().Resend) == 2, "whatever the sweep before has set")
}

func sweepNoFree(r *rig) {
	j := r.jobs("q")
	j.put("a", "b", "c")
	j.admits(3, "a b c")
	r.now = r.at(lease)
	free := func(n int) func(*schedule.QueueSweep) { return func(req *schedule.QueueSweep) { req.Free = n } }
	swept := j.sweepQueues(free(0))
	j.hold(len(swept.Resend) == 0 && swept.Held, "they hold new runs back, got %+v", swept)
	j.hold(len(j.sweepQueues(free(2)).Resend) == 2, "another process has two free calls, at the same instant")
	r.now = r.at(time.Second)
	j.hold(len(j.sweepQueues(free(2)).Resend) == 1, "the third one follows")
}

func sweepLaunchBound(r *rig) {
	j := r.jobs("q")
	run := j.put("a")[0]
	j.admits(1, "a")
	r.now = r.at(2*retryFor + time.Second)
	swept := j.sweepQueues()
	j.hold(len(swept.Ended) == 1 && swept.Ended[0].Before == schedule.StatusLaunching, "it has ended, got %+v", swept)
	got := r.ledger(run.Key)
	j.hold(got.Status == schedule.StatusFailed && got.Reason == schedule.ReasonLost && got.CompletedAt.Equal(r.now), "it is lost, got %+v", got)
}

func sweepSilent(r *rig) {
	j := r.jobs("q")
	run := j.put("a")[0]
	j.admits(1, "a")
	j.accept(run)
	j.hold(len(j.sweepQueues().Ended) == 0, "it runs")
	r.now = r.at(time.Minute + time.Second)
	swept := j.sweepQueues()
	got := r.ledger(run.Key)
	j.hold(len(swept.Ended) == 1 && swept.Ended[0].Run.Key == run.Key && got.Status == schedule.StatusFailed && got.Reason == schedule.ReasonTimeout, "it has timed out, got %+v", got)
	retry := r.next(got)
	j.hold(retry.Queue.No == j.queue.No && retry.Attempt == 2, "its retry is in the queue, got %+v", retry)
}

func sweepCancelQueued(r *rig) {
	j := r.jobs("q")
	run := j.put("a")[0]
	j.admits(1, "a")
	j.accept(run)
	j.sweepQueues()
	r.askCancel(run.Key, schedule.ReasonCancelled, r.now)
	sent := func() int {
		swept := j.sweepQueues()
		for i := range swept.Cancels {
			j.hold(swept.Cancels[i].Key == run.Key && swept.Cancels[i].RunID == accepted.RunID, "it is that run's, got %+v", swept.Cancels)
		}
		return len(swept.Cancels)
	}
	j.hold(sent() == 1 && sent() == 0, "it is sent once")
	r.now = r.at(ledger.CancelAgain)
	j.hold(sent() == 1, "and again after a while")
	r.now = r.at(cancelWait)
	swept := j.sweepQueues()
	got := r.ledger(run.Key)
	j.hold(len(swept.Ended) == 1 && got.Status == schedule.StatusCancelled && got.Reason == schedule.ReasonCancelled, "nobody has confirmed it, got %+v", got)
	events, err := r.ListEvents(r.ctx, run.ScheduleID, 0, 10)
	r.ok(err, "events")
	j.hold(len(events) > 0 && events[0].Kind == schedule.EventCancelTimedOut, "an event says so, got %+v", events)
	_, followed := got.RetriedBy()
	j.hold(!followed, "no retry follows")
}

func sweepNextDue(r *rig) {
	j := r.jobs("q")
	j.put("a", "b")
	equal(r, "of runs that wait", j.sweepQueues(), ledger.SweptQueues{})
	j.enqueue(0, j.job("late", 0, delayed(r.at(time.Hour))))
	j.enqueue(0, j.job("soon", 0, delayed(r.at(time.Minute))))
	j.hold(j.sweepQueues().NextDue.Equal(r.at(time.Minute)), "the first fire_at")
	run := j.admits(1, "a")[0]
	j.hold(j.sweepQueues().NextDue.Equal(r.at(lease)), "the lease, got %s", j.sweepQueues().NextDue)
	j.end(run, schedule.StatusSuccess)
	j.hold(j.sweepQueues().NextDue.Equal(r.at(time.Minute)), "the first fire_at again")
}

func sweepQueuesLimit(r *rig) {
	j := r.jobs("q")
	j.enqueue(0, j.job("c", 0, delayed(r.at(3*time.Second))))
	j.enqueue(0, j.job("a", 0, delayed(r.at(time.Second))))
	j.enqueue(0, j.job("b", 0, delayed(r.at(2*time.Second))))
	r.now = r.at(time.Minute)
	limit := func(req *schedule.QueueSweep) { req.Limit = 2 }
	j.hold(j.sweepQueues(limit).More, "something is left")
	j.waits("a b c")
	run := r.ledger(j.listed()[2].Key)
	j.hold(run.Queue.State == schedule.QueueDelayed, "the last one is still delayed, got %+v", run.Queue)
	j.hold(!j.sweepQueues(limit).More, "nothing is left")
	j.waits("c a b")
}

func sweepLeader(r *rig) {
	r.lead()
	j := r.jobs("q")
	run := j.put("a")[0]
	j.admits(1, "a")
	j.accept(run)
	r.now = r.at(24 * time.Hour)
	j.hold(len(r.sweep()) == 0, "it is not the leader's")
	j.hold(len(r.claim().Launches) == 0, "nor is it claimed")
	j.isIn(run, schedule.QueueRunning)
}
