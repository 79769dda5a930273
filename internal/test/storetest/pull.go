package storetest

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// pulls: workers fetch the runs of a queue.
var pulls = []check{
	{"a fetched run runs at once, with its worker and the lowest free slot", pullRuns},
	{"launchers admit nothing of a pull queue", pullNotPushed},
	{"a fetch takes as many runs as slots are free", pullSlots},
	{"a fetch without a free slot is refused if it waits, and takes nothing", pullFull},
	{"a run that the worker does not list is given again, under its key", pullAgain},
	{"a worker hears of cancels, and of runs that it has no more", pullCancel},
	{"the cancel of a fetched run ends it after its time", pullCancelTimeout},
	{"a worker that is silent for its heartbeat has lost its runs, which are retried", pullLost},
	{"a heartbeat keeps the runs, also after a report", pullHeartbeat},
	{"a heartbeat never moves back", pullBack},
	{"a run that ends frees its slot", pullFrees},
	{"fetched runs obey max_in_flight, limits and a pause", pullLimits},
	{"a pushed queue refuses a fetch", pullPushed},
	{"a worker keeps its runs when the queue is pushed or deleted, and gets no other", pullSwitched},
	{"a stall from before does not matter to workers", pullStalled},
	{"a worker has one run in each slot, over all queues", pullTwoQueues},
	{"fetches at the same time never give a slot twice", pullRace},
	{"workers are listed with their runs and last fetches, for a day", pullListed},
	{"what waits knows the last fetch", pullExplained},
}

func pulled(q *schedule.Queue) {
	q.Delivery, q.HeartbeatMS, q.MaxInFlight = schedule.DeliveryPull, 30_000, 100
}

// fetch is what a worker with so many slots says, which works on these runs.
func fetch(worker string, slots int32, running ...schedule.Run) *schedule.Fetch {
	f := &schedule.Fetch{Worker: worker, Slots: slots}
	for i := range running {
		f.Running = append(f.Running, running[i].Key)
	}
	return f
}

func (j *jobs) tryFetch(f *schedule.Fetch) (ledger.Dispatched, error) {
	req := j.admitRequest(1000)
	req.Fetch = f
	return j.Admit(j.ctx, req)
}

// fetches fails unless the worker gets just these jobs, in this order.
func (j *jobs) fetches(f *schedule.Fetch, want string) (runs []schedule.Run) {
	j.Helper()
	out, err := j.tryFetch(f)
	j.ok(err, "fetch")
	for _, d := range out.Dispatches {
		runs = append(runs, d.Run)
	}
	equal(j.rig, "what is fetched", j.named(runs), want)
	return runs
}

// hears fails unless the worker is told these jobs again, and to stop those.
func (j *jobs) hears(f *schedule.Fetch, again, cancel string) {
	j.Helper()
	out, err := j.tryFetch(f)
	j.ok(err, "fetch")
	names := func(keys []schedule.Key) string {
		texts := make([]string, 0, len(keys))
		for _, key := range keys {
			texts = append(texts, j.names[key])
		}
		return strings.Join(texts, " ")
	}
	equal(j.rig, "what is given again", names(out.Fetched.Again), again)
	equal(j.rig, "what is to be stopped", names(out.Fetched.Cancel), cancel)
}

func pullRuns(r *rig) {
	j := r.jobs("q", pulled)
	j.put("a", "b")
	got := j.fetches(fetch("me/w", 2), "a b")
	for i := range got {
		run := j.isIn(got[i], schedule.QueueRunning)
		equal(r, "its worker", run.Queue.Worker, "me/w")
		equal(r, "its slot", run.Queue.WorkerSlot, int32(i+1))
		equal(r, "its deliveries", run.Deliveries, int32(1))
		j.hold(run.LaunchedAt.Equal(r.now) && run.ClaimedAt.Equal(r.now), "it was handed over now, got %s and %s", run.LaunchedAt, run.ClaimedAt)
		j.hold(run.TimeoutAt.After(r.now), "its run timeout runs, got %s", run.TimeoutAt)
	}
	ended := j.end(got[0], schedule.StatusSuccess)
	equal(r, "the worker in history", ended.Queue.Worker, "me/w")
}

func pullNotPushed(r *rig) {
	j := r.jobs("q", pulled)
	j.put("a")
	out := j.admission(10)
	j.hold(len(out.Dispatches) == 0 && out.Block != nil && out.Block.What == ledger.BlockedByWorker, "it waits for a worker, got %+v", out)
	j.fetches(fetch("me/w", 1), "a")
}

func pullSlots(r *rig) {
	j := r.jobs("q", pulled)
	j.put("a", "b", "c", "d")
	a := j.fetches(fetch("me/w", 1), "a")[0]
	b := j.fetches(fetch("me/w", 3, a), "b c")
	j.hold(b[0].Queue.WorkerSlot == 2 && b[1].Queue.WorkerSlot == 3, "they have the next slots, got %d and %d", b[0].Queue.WorkerSlot, b[1].Queue.WorkerSlot)
	j.fetches(fetch("me/w", 3, a, b[0], b[1]), "")
	j.fetches(fetch("me/w", 2, a), "") // it wants fewer slots than it has
	j.fetches(fetch("you/w", 1), "d")  // another caller's worker of this name is another worker
}

func pullFull(r *rig) {
	j := r.jobs("q", pulled)
	j.put("a", "b")
	a := j.fetches(fetch("me/w", 1), "a")[0]
	r.now = r.at(time.Second)
	f := fetch("me/w", 1, a)
	f.Waits = true
	_, err := j.tryFetch(f)
	j.hold(errors.Is(err, schedule.ErrPrecondition), "it is refused, got %v", err)
	j.isIn(j.keyed("b"), schedule.QueueWaiting)
	workers, _, err := j.QueueWorkers(j.ctx, j.queue.No)
	j.ok(err, "workers")
	j.hold(len(workers) == 1 && workers[0].SeenAt.Equal(r.at(-time.Second)), "nothing was written, got %+v", workers)
	j.fetches(fetch("me/w", 1, a), "") // a heartbeat
}

// keyed is the run of a job.
func (j *jobs) keyed(name string) schedule.Run {
	j.Helper()
	return j.ledger(j.keyNamed(name))
}

func pullAgain(r *rig) {
	j := r.jobs("q", pulled)
	j.put("a", "b", "c")
	j.fetches(fetch("me/w", 2), "a b") // the answer is lost
	j.hears(fetch("me/w", 2), "a b", "")
	j.hears(fetch("me/w", 2, j.keyed("b")), "a", "")
	f := fetch("me/w", 2, j.keyed("b"))
	f.Waits = true
	_, err := j.tryFetch(f)
	j.ok(err, "a fetch that gets a run again")
	j.isIn(j.keyed("c"), schedule.QueueWaiting)
	equal(r, "its calls", j.keyed("a").Deliveries, int32(1))
}

func pullCancel(r *rig) {
	j := r.jobs("q", pulled)
	j.put("a", "b", "c")
	got := j.fetches(fetch("me/w", 3), "a b c")
	j.cancel(got[0])
	j.end(got[1], schedule.StatusSuccess)
	j.hears(fetch("me/w", 3, got...), "", "a b")
	j.hears(fetch("me/w", 3, got[2]), "", "") // a worker that lists it no more is not given it again
	j.hears(fetch("you/w", 1, got[2]), "", "c")
	swept := j.sweepQueues()
	j.hold(len(swept.Cancels) == 0, "no executor hears of it, got %+v", swept.Cancels)
}

func pullCancelTimeout(r *rig) {
	j := r.jobs("q", pulled)
	j.put("a")
	a := j.fetches(fetch("me/w", 1), "a")[0]
	j.cancel(a)
	j.sweepQueues()
	r.now = r.at(cancelWait)
	j.hears(fetch("me/w", 1, a), "", "a")
	j.sweepQueues()
	after := j.ledger(a.Key)
	j.hold(after.Status == schedule.StatusCancelled, "it is cancelled, got %s", after.Status)
}

func pullLost(r *rig) {
	j := r.jobs("q", pulled)
	j.put("a")
	a := j.fetches(fetch("me/w", 1), "a")[0]
	j.hold(j.sweepQueues().NextDue.Equal(r.at(30*time.Second)), "it is due when its worker is lost")
	r.now = r.at(30*time.Second - time.Microsecond)
	j.hold(len(j.sweepQueues().Ended) == 0, "the heartbeat may still come")
	r.now = r.at(time.Microsecond)
	swept := j.sweepQueues()
	j.hold(len(swept.Ended) == 1, "it ends, got %+v", swept)
	after := j.ledger(a.Key)
	j.hold(after.Status == schedule.StatusFailed && after.Reason == schedule.ReasonLost && strings.Contains(after.ErrorMessage, "me/w"), "it is lost, got %s %s: %s", after.Status, after.Reason, after.ErrorMessage)
	retry := j.ledger(schedule.AttemptKey(a.Key))
	j.hold(retry.Queue.In() && retry.Attempt == 2 && retry.Queue.Worker == "", "its retry waits for any worker, got %+v", retry.Queue)
	j.hears(fetch("me/w", 1, a), "", "a") // it comes back
}

func pullHeartbeat(r *rig) {
	j := r.jobs("q", pulled, func(q *schedule.Queue) { q.HeartbeatMS = 10_000 })
	j.put("a")
	a := j.fetches(fetch("me/w", 1), "a")[0]
	for range 3 {
		r.now = r.at(9 * time.Second)
		j.fetches(fetch("me/w", 1, a), "")
		j.hold(len(j.sweepQueues().Ended) == 0, "it goes on")
	}
	r.now = r.at(9 * time.Second)
	r.report(schedule.Settlement{Key: a.Key, To: schedule.StatusStarted, StartedAt: r.now, TimeoutAt: r.at(time.Hour)})
	r.now = r.at(time.Second) // a report is no heartbeat
	j.hold(len(j.sweepQueues().Ended) == 1, "it is lost")
}

func pullBack(r *rig) {
	j := r.jobs("q", pulled)
	j.fetches(fetch("me/w", 1), "")
	r.now = r.at(-time.Second) // by the clock of a launcher that was stopped meanwhile
	j.fetches(fetch("me/w", 2), "")
	workers, _, err := j.QueueWorkers(j.ctx, j.queue.No)
	j.ok(err, "workers")
	j.hold(len(workers) == 1 && workers[0].SeenAt.Equal(r.at(time.Second)) && workers[0].Slots == 2, "the later one stays, got %+v", workers)
}

func pullFrees(r *rig) {
	j := r.jobs("q", pulled)
	j.put("a", "b", "c")
	got := j.fetches(fetch("me/w", 2), "a b")
	j.end(got[0], schedule.StatusSuccess)
	j.fetches(fetch("me/w", 2, got...), "") // it lists the run still: it works on it
	c := j.fetches(fetch("me/w", 2, got[1]), "c")[0]
	equal(r, "the slot that is free", c.Queue.WorkerSlot, int32(1))
}

func pullLimits(r *rig) {
	j := r.jobs("q", pulled, func(q *schedule.Queue) { q.MaxInFlight = 2 })
	j.put("a", "b", "c")
	got := j.fetches(fetch("me/w", 5), "a b")
	j.fetches(fetch("you/w", 5), "")
	j.queue.Pause = schedule.Pause{Paused: true}
	j.queue = r.putQueue(j.queue)
	j.end(got[0], schedule.StatusSuccess)
	j.fetches(fetch("you/w", 5), "")
}

func pullPushed(r *rig) {
	j := r.jobs("q")
	j.put("a")
	_, err := j.tryFetch(fetch("me/w", 1))
	_, invalid := errors.AsType[*schedule.InvalidError](err)
	j.hold(invalid, "it is refused, got %v", err)
	j.admits(1, "a")
}

func pullSwitched(r *rig) {
	j := r.jobs("q", pulled)
	j.put("a", "b")
	a := j.fetches(fetch("me/w", 1), "a")[0]
	j.queue.Delivery, j.queue.HeartbeatMS = schedule.DeliveryPush, 0
	j.queue = r.putQueue(j.queue)
	j.hears(fetch("me/w", 2), "a", "")
	j.fetches(fetch("me/w", 2, a), "")
	j.admits(5, "b")
	j.queue.DeletedAt = r.now
	j.queue = r.putQueue(j.queue)
	j.hears(fetch("me/w", 2), "a", "")
	j.end(a, schedule.StatusSuccess)
	_, err := j.tryFetch(fetch("me/w", 2))
	j.hold(errors.Is(err, schedule.ErrNotFound), "the queue is gone, got %v", err)
}

func pullStalled(r *rig) {
	j := r.jobs("q")
	j.put("a", "b")
	j.stalls(schedule.QueueStall{QueueNo: j.queue.No, Until: r.at(time.Hour), Level: 3, Reason: "away"})
	j.admits(2, "")
	pulled(&j.queue)
	j.queue = r.putQueue(j.queue)
	j.fetches(fetch("me/w", 2), "a b")
}

func pullTwoQueues(r *rig) {
	j, k := r.jobs("q", pulled), r.jobs("p", pulled)
	j.put("a")
	k.put("x", "y")
	a := j.fetches(fetch("me/w", 2), "a")[0]
	x := k.fetches(fetch("me/w", 2), "x")[0] // a is in another queue: it takes its slot, and is not given again
	equal(r, "the slot", x.Queue.WorkerSlot, int32(2))
	k.hears(fetch("me/w", 2, a, x), "", "")
	k.isIn(k.keyed("y"), schedule.QueueWaiting)
}

func pullRace(r *rig) {
	j := r.jobs("q", pulled)
	var names []string
	for i := range 20 {
		names = append(names, string(rune('a'+i)))
	}
	j.put(names...)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 10 {
				_, _ = j.tryFetch(fetch("me/w", 4))
			}
		})
	}
	all.Wait()
	_, runs, err := j.QueueWorkers(j.ctx, j.queue.No)
	j.ok(err, "workers")
	equal(r, "its runs", len(runs["me/w"]), 4)
	slots := make(map[int32]bool)
	for _, key := range runs["me/w"] {
		slots[j.ledger(key).Queue.WorkerSlot] = true
	}
	equal(r, "its slots", len(slots), 4)
}

func pullListed(r *rig) {
	j := r.jobs("q", pulled)
	j.put("a")
	a := j.fetches(fetch("me/w", 3), "a")[0]
	r.now = r.at(time.Second)
	j.fetches(fetch("you/w", 1), "")
	workers, runs, err := j.QueueWorkers(j.ctx, j.queue.No)
	j.ok(err, "workers")
	j.hold(len(workers) == 2 && workers[0].ID == "you/w" && workers[0].SeenAt.Equal(r.now) && workers[1].Slots == 3, "both are listed, got %+v", workers)
	j.hold(len(runs) == 1 && len(runs["me/w"]) == 1 && runs["me/w"][0] == a.Key, "with their runs, got %v", runs)
	r.now = r.at(25 * time.Hour)
	j.fetches(fetch("you/w", 1), "")
	workers, _, err = j.QueueWorkers(j.ctx, j.queue.No)
	j.ok(err, "workers")
	j.hold(len(workers) == 1, "one is forgotten, got %+v", workers)
}

func pullExplained(r *rig) {
	j := r.jobs("q", pulled)
	a := j.put("a")[0]
	blocks := func() string {
		place, err := j.ReadWaitingPlace(j.ctx, &a, 10, 5, r.now)
		j.ok(err, "place")
		var texts []string
		for _, b := range place.Blocks(r.now) {
			texts = append(texts, string(b.What))
		}
		return strings.Join(texts, " ")
	}
	equal(r, "what blocks it", blocks(), "no_worker")
	b := j.job("b", 5)
	j.enqueue(0, b)
	j.fetches(fetch("me/w", 1), "b")
	equal(r, "what blocks it", blocks(), "")
	r.now = r.at(30 * time.Second)
	equal(r, "what blocks it", blocks(), "no_worker")
}
