package ledger

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Fetched is what a fetch says to its worker, the runs that it admits aside.
type Fetched struct {
	// Again are runs of the queue that the worker has, and does not list: it never received them. They
	// are given again, under their keys.
	Again []schedule.Key
	// Cancel are runs that the worker lists, and should stop: their cancel is requested, or they are
	// not its runs any more.
	Cancel []schedule.Key

	slots []int32 // free ones, ascending
}

// fetched reads from the runs of a worker what its fetch is answered. A run that it lists takes
// a slot also after its end: the worker still works on it.
func (f *QueueFacts) fetched(req *schedule.Fetch) (a Fetched) {
	listed, held, taken := make(map[schedule.Key]bool), make(map[schedule.Key]schedule.HeldRun), make(map[int32]bool)
	for _, key := range req.Running {
		listed[key] = true
	}
	used := len(listed)
	for _, h := range f.Held {
		held[h.Key], taken[h.Slot] = h, true
		if listed[h.Key] {
			continue
		}
		used++
		if h.QueueNo == f.Queue.No && !h.Cancel {
			a.Again = append(a.Again, h.Key)
		}
	}
	for _, key := range req.Running {
		if h, its := held[key]; listed[key] && (!its || h.Cancel) {
			a.Cancel = append(a.Cancel, key)
		}
		delete(listed, key) // named twice
	}
	for slot := int32(1); used < int(req.Slots); slot++ {
		if !taken[slot] {
			a.slots = append(a.slots, slot)
			used++
		}
	}
	return a
}

// holds reports whether the worker of a fetch has runs of the queue.
func (f *QueueFacts) holds() bool {
	for _, h := range f.Held {
		if h.QueueNo == f.Queue.No {
			return true
		}
	}
	return false
}

// CheckFetch refuses a fetch, before anything of it is written. A worker that has runs of a queue
// goes on with them when the queue is pushed now, or deleted: it gets no other.
func (f *QueueFacts) CheckFetch(req *schedule.Fetch) error {
	if !f.holds() {
		switch {
		case !f.Queue.Alive():
			return schedule.ErrNotFound
		case f.Queue.Unreadable:
			return schedule.Explain(schedule.ErrPrecondition, "the definition of queue %s is damaged: register it again", schedule.Quote(f.Queue.QueueID))
		case !f.Queue.Pulled():
			return schedule.Invalid("queue_id", f.Queue.QueueID, "is a queue of delivery push: launchers send its runs to the executor", "register it with delivery: pull")
		}
	}
	if a := f.fetched(req); req.Waits && len(a.slots) == 0 && len(a.Again) == 0 {
		return schedule.Explain(schedule.ErrPrecondition,
			"slots: all %d of worker %s are in use: nothing was taken; report a run first, fetch with wait_ms 0 as a heartbeat, or ask for more slots", req.Slots, schedule.Quote(req.Worker))
	}
	return nil
}

// Unfetched reports whether workers are to fetch the runs of the queue, and none does.
func (f *QueueFacts) Unfetched(now time.Time) bool {
	return f.Queue.Pulled() && !f.LastFetch.Add(f.Queue.Heartbeat()).After(now)
}

// stall is that of the queue. Workers fetch when they can take work, so that a stall from before
// does not matter to them.
func (f *QueueFacts) stall() schedule.QueueStall {
	if f.Queue.Pulled() {
		return schedule.QueueStall{QueueNo: f.Queue.No}
	}
	return f.Stall
}

// fetchable is how many runs a fetch can take at once.
func (f *QueueFacts) fetchable(req *schedule.Fetch) int {
	if !f.Queue.Pulled() {
		return 0
	}
	return len(f.fetched(req).slots)
}

// handOver makes an admitted run one of a worker: it runs at once.
func (d *Dispatch) handOver(f *QueueFacts, worker string, slot int32, now time.Time) {
	run := d.Run
	accepted := SettlementOf(&run, &schedule.FinishRequest{
		Key: run.Key, Outcome: schedule.Outcome{Status: schedule.StatusEnqueued}, LaunchedAt: now, Deliveries: run.Deliveries,
		RunTimeout: schedule.RunTimeout(f.Queue, d.Definition), MaxRun: schedule.MaxRun(f.Queue, d.Definition),
	}, now)
	run, _ = Settle(run, schedule.KeyLease{}, &accepted, now)
	run.Queue.Worker, run.Queue.WorkerSlot = worker, slot
	d.Run, d.Due = run, sooner(run.TimeoutAt, stored(now.Add(f.Queue.Heartbeat())))
}

// lostWorker ends a run whose worker was silent for heartbeat_ms; otherwise due is when a sweep
// looks again.
func lostWorker(req *schedule.QueueSweep, r schedule.Run, q *schedule.Queue, due time.Time) (after schedule.Run, step QueueStep, next time.Time) {
	now := stored(req.Now)
	seen := req.Seen[schedule.WorkerRef{QueueNo: r.Queue.No, ID: r.Queue.Worker}]
	if seen.IsZero() { // it is not listed any more
		seen = r.LaunchedAt
	}
	heartbeat := time.Duration(schedule.DefaultHeartbeatMS) * time.Millisecond
	if q != nil {
		heartbeat = q.Heartbeat()
	}
	lost := stored(seen.Add(heartbeat))
	if lost.After(now) {
		return r, QueueLater, sooner(due, lost)
	}
	end := schedule.Settlement{
		Key: r.Key, To: schedule.StatusFailed, Reason: schedule.ReasonLost, ErrorCode: string(schedule.CodeLost), CompletedAt: now,
		ErrorMessage: "worker " + schedule.Quote(r.Queue.Worker) + " has not fetched since " + seen.Format(time.RFC3339Nano) + " (heartbeat_ms)",
	}
	if !r.CancelRequestedAt.IsZero() { // it is not retried
		end.To, end.Reason, end.ErrorCode = schedule.StatusCancelled, cancelled(r.CancelReason), ""
	}
	after, _ = Settle(r, schedule.KeyLease{}, &end, now)
	after.DeadlineAt = time.Time{}
	return after, QueueEnd, time.Time{}
}
