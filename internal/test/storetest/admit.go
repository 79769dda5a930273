package storetest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// admits are which runs of a dispatch queue are sent next.
var admits = []check{
	{"the queues of an owner have no more than their share of the calls", admitShare},
	{"runs are admitted in their order, and none twice", admitOrder},
	{"no more runs are in flight than max_in_flight", admitMax},
	{"no more runs are admitted than calls are free", admitFree},
	{"an admitted run is the durable record of its call", admitRecords},
	{"a paused queue admits nothing until its pause ends, nor does a deleted one", admitPause},
	{"a stalled queue waits, and then sends one run as a probe", admitStall},
	{"what a queue needs is read under its lock: a change that was answered counts", admitAfterChange},
	{"of eight that admit at once nobody exceeds max_in_flight or takes a run twice", admitRace},
	{"of eight that admit at one instant nobody counts before the others have written", admitLocked},
	{"an admission leaves a queue alone that another process has", admitNotAlone},
	{"a run with limits that comes while an admission reads waits for the next one", admitLimitedMeanwhile},
	{"a run whose grant has ended is skipped, and the next ones go", admitRefused},
	{"a run that may be refused only later waits until then", admitRefusedLater},
	{"where a grant is required a run without one is skipped", admitRequiresGrant},
	{"a run whose definition cannot be read fails, and the next ones go", admitUnreadable},
	{"the queues in which runs wait are known", admitQueuesWaiting},
	{"queues are measured with what runs, waits and keeps them waiting", admitMeasured},
}

func maxInFlight(n uint32) func(*schedule.Queue) {
	return func(q *schedule.Queue) { q.MaxInFlight = n }
}

func admitOrder(r *rig) {
	j, other := r.jobs("q", maxInFlight(100)), r.jobs("other", maxInFlight(100))
	j.put("a", "b")
	other.put("x")
	j.enqueue(0, j.job("urgent", 3))
	j.enqueue(2, j.job("second", 0))
	j.enqueue(0, j.job("low", -3))
	j.enqueue(0, j.job("later", 9, delayed(r.at(time.Hour))))
	j.admits(3, "urgent a second")
	j.waits("b low later")
	j.admits(3, "b low")
	j.admits(3, "")
	other.admits(3, "x")
	j.enqueue(0, j.job("early", 0, delayed(r.at(time.Hour))))
	j.put("c", "d", "e")
	j.admits(1, "c")
	j.admits(1, "d")
	r.now = r.at(time.Hour)
	j.sweepQueues()
	j.admits(3, "later early e") // it entered first
}

func admitMax(r *rig) {
	j := r.jobs("q", maxInFlight(3))
	j.put("a", "b", "c", "d", "e")
	runs := j.admits(10, "a b c")
	j.accept(runs[0])
	out := j.admission(10)
	j.hold(len(out.Dispatches) == 0 && out.Block != nil && out.Block.What == ledger.BlockedByFull, "the queue is full, got %+v", out)
	j.end(runs[1], schedule.StatusSuccess)
	next := j.admits(10, "d")
	j.end(runs[0], schedule.StatusSuccess)
	j.end(next[0], schedule.StatusSuccess)
	j.admits(10, "e")
	j.waits("")
}

func admitFree(r *rig) {
	j := r.jobs("q", maxInFlight(100))
	j.put("a", "b", "c")
	out := j.admission(2)
	j.hold(len(out.Dispatches) == 2 && out.Block != nil && out.Block.What == ledger.BlockedByCalls, "two calls are free, got %+v", out)
	j.hold(len(j.admission(0).Dispatches) == 0, "no call is free")
	j.admits(2, "c")
}

func admitRecords(r *rig) {
	j := r.jobs("q")
	j.enqueue(0, j.job("a", 4, func(run *schedule.Run) { run.Input = rawJSON }))
	r.now = r.at(time.Second)
	before := j.listed()[0]
	out := j.admission(5, func(req *schedule.AdmitRequest) { req.Holder = 0 })
	j.hold(len(out.Dispatches) == 1, "it is admitted")
	d := out.Dispatches[0]
	j.hold(d.Begun.Permission == schedule.Granted && d.Begun.Request.Calls == 1 && d.Begun.Request.Lease.Until.Equal(r.at(lease)), "its call is granted, got %+v", d.Begun)
	j.hold(d.Definition != nil && d.Definition.WorkflowID == j.of.WorkflowID, "it comes with its definition")
	equal(r, "input to send", string(d.EffectiveInput()), string(rawJSON))
	want := before
	want.Queue.State, want.Deliveries, want.ClaimedAt, want.TimeoutAt, want.UpdatedAt = schedule.QueueDispatching, 1, r.now, r.at(retryFor), r.now
	want.Queue.AdmittedAs = schedule.AdmittedInOrder
	equal(r, "the run in the ledger", r.ledger(before.Key), want)
	equal(r, "the run that is sent", bodily(stored(d.Run)), bodily(want))
	req := r.beginRequest(d.Run)
	r.permits(req, schedule.Busy)
	j.hold(r.extend(d.Run.Key, r.at(lease), 2*lease).Equal(r.at(2*lease)), "its lease can be extended")
	first, err := r.FirstSent(r.ctx, d.Run.Key)
	r.ok(err, "first sent")
	j.hold(first.Equal(r.now), "it counts as sent now, got %s", first)
}

func admitPause(r *rig) {
	j := r.jobs("q", func(q *schedule.Queue) { q.Pause = schedule.Pause{Paused: true, Until: r.at(time.Minute)} })
	j.put("a", "b", "c")
	out := j.admission(1)
	j.hold(len(out.Dispatches) == 0 && out.Block != nil && out.Block.What == ledger.BlockedByPause, "it is paused, got %+v", out)
	r.now = r.at(time.Minute)
	j.admits(1, "a")
	q := j.queue
	q.Pause = schedule.Pause{}
	q.DeletedAt = r.now
	r.putQueue(q)
	j.admits(1, "")
	q.DeletedAt, q.Closed = time.Time{}, true
	r.putQueue(q)
	j.admits(1, "b")
}

// stalls writes a stall of the queue; the zero one ends it.
func (j *jobs) stalls(s schedule.QueueStall, events ...*schedule.QueueEvent) {
	j.Helper()
	s.QueueNo = j.queue.No
	change := schedule.StallChange{QueueStall: s}
	if len(events) > 0 {
		change.Event = events[0]
	}
	_, err := j.PutBack(j.ctx, nil, []schedule.StallChange{change}, j.now)
	j.ok(err, "write a stall")
}

func admitStall(r *rig) {
	j := r.jobs("q")
	j.put("a", "b", "c")
	j.stalls(schedule.QueueStall{Until: r.at(10 * time.Second), Level: 2, Reason: "503"},
		&schedule.QueueEvent{QueueID: j.queue.QueueID, Time: r.now, Kind: schedule.QueueStalled, Note: "503"})
	events, err := r.ListQueueEvents(r.ctx, j.queue.QueueID, 0, 10)
	r.ok(err, "log")
	j.hold(len(events) == 1 && events[0].Kind == schedule.QueueStalled, "the log says so, got %+v", events)
	out := j.admission(5)
	j.hold(len(out.Dispatches) == 0 && out.Block != nil && out.Block.What == ledger.BlockedByStall && out.Block.Until.Equal(r.at(10*time.Second)), "it is stalled, got %+v", out)
	r.now = r.at(10 * time.Second)
	probe := j.admission(5)
	j.hold(len(probe.Dispatches) == 1 && probe.StallLevel == 2, "one run is a probe, got %+v", probe)
	j.admits(5, "")
	r.now = r.at(time.Minute)
	j.admits(5, "b")
	j.stalls(schedule.QueueStall{})
	j.admits(5, "c")
	other := r.jobs("other")
	other.put("x", "y")
	other.admits(5, "x y")
}

func admitAfterChange(r *rig) {
	j := r.jobs("q", maxInFlight(1))
	j.put("a", "b", "c", "d")
	j.admits(10, "a")
	q := j.queue
	q.MaxInFlight = 3
	r.putQueue(q)
	j.admits(10, "b c")
	q.MaxInFlight = 1 // below what is in flight
	r.putQueue(q)
	j.admits(10, "")
}

func admitRace(r *rig) {
	const most, runs = 3, 60
	j := r.jobs("q", maxInFlight(most))
	for i := range runs {
		j.put(fmt.Sprint(i))
	}
	var mu sync.Mutex
	started, flying := make(map[schedule.Key]bool), 0
	count := func(n int, edit func()) (total int) {
		mu.Lock()
		defer mu.Unlock()
		if flying += n; flying > most {
			r.Errorf("%d runs are in flight", flying)
		}
		edit()
		return len(started)
	}
	r.crowd(8, func(int) {
		for r.ctx.Err() == nil && !r.Failed() && count(0, func() {}) < runs {
			out, err := j.Admit(r.ctx, j.admitRequest(2))
			if err != nil {
				r.Errorf("admit: %v", err)
				return
			}
			for _, d := range out.Dispatches {
				count(1, func() {
					if started[d.Run.Key] {
						r.Errorf("%s is admitted twice", d.Run.Key)
					}
					started[d.Run.Key] = true
				})
			}
			for _, d := range out.Dispatches {
				count(-1, func() {})
				if _, err := r.Finish(r.ctx, []schedule.FinishRequest{{Key: d.Run.Key, Outcome: schedule.Outcome{Status: schedule.StatusSuccess}}}, r.now); err != nil {
					r.Errorf("finish: %v", err)
				}
			}
		}
	})
	j.hold(len(started) == runs, "every run was admitted, got %d", len(started))
	j.waits("")
}

// admitLocked lets eight admit at one instant, again and again: what one counts before it has the
// queue for itself, another one may change.
func admitLocked(r *rig) {
	const most, rounds, tries = 2, 25, 6
	for round := range rounds {
		j := r.jobs(fmt.Sprint("q", round), maxInFlight(most))
		var runs []schedule.Run
		for i := range 4 * most {
			runs = append(runs, j.job(fmt.Sprint(i), 0))
		}
		j.enqueue(0, runs...)
		begin := make(chan struct{})
		time.AfterFunc(0, func() { close(begin) })
		r.crowd(8, func(int) {
			<-begin
			for range tries {
				if _, err := j.Admit(r.ctx, j.admitRequest(1)); err != nil {
					r.Errorf("admit: %v", err)
				}
			}
		})
		c, err := j.CountQueue(r.ctx, j.queue.No, 100)
		r.ok(err, "count")
		j.hold(c.InFlight == most, "%d are in flight, got %d", most, c.InFlight)
	}
}

// admitNotAlone admits while a change of the queue is open.
func admitNotAlone(r *rig) {
	if _, offers := r.Store.(OpenWriters); !offers {
		r.Skip("a transaction of the store is alone")
	}
	j, other := r.jobs("q"), r.jobs("other")
	j.put("a")
	other.put("x")
	var out ledger.Dispatched
	_, err := r.ChangeQueue(r.ctx, j.queue.QueueID, func(now *schedule.Queue) (schedule.QueueChange, error) {
		var err error
		if out, err = j.Admit(r.ctx, j.admitRequest(5)); err != nil {
			return schedule.QueueChange{}, err
		}
		other.admits(5, "x")
		now.Pause.Paused = true
		return schedule.QueueChange{After: now}, nil
	})
	r.ok(err, "change the queue")
	j.hold(!out.Alone && len(out.Dispatches) == 0, "the lock is taken, got %+v", out)
	j.admits(5, "")
}

// jobOf is a job of another schedule.
func (j *jobs) jobOf(s schedule.Schedule, name string) schedule.Run {
	return j.job(name, 0, func(run *schedule.Run) {
		run.ScheduleID, run.Revision, run.OverlapKey = s.ScheduleID, s.Revision, s.QualifiedOverlapKey()
	})
}

func admitRefused(r *rig) {
	j := r.jobs("q")
	revoked := r.create("revoked", on(r.revoke(r.give("gone"))))
	holds := r.create("holds", on(r.give("there")))
	j.enqueue(0, j.jobOf(revoked, "bad"))
	j.enqueue(0, j.jobOf(holds, "good"))
	j.put("last")
	out := j.admission(10)
	var runs []schedule.Run
	for _, d := range out.Dispatches {
		runs = append(runs, d.Run)
	}
	equal(r, "what is admitted", j.named(runs), "good last")
	bad := r.ledger(j.jobOf(revoked, "bad").Key)
	j.hold(bad.Status == schedule.StatusSkipped && bad.Reason == schedule.ReasonGrantRevoked && bad.Deliveries == 0 && bad.CompletedAt.Equal(r.now),
		"it ends without a call, got %+v", bad)
	j.hold(len(out.Ended) == 1 && out.Ended[0].Key == bad.Key, "the admission says so, got %+v", out.Ended)
	j.waits("")
}

func admitRefusedLater(r *rig) {
	j := r.jobs("q")
	revoked := r.create("revoked", on(r.revoke(r.give("gone"))))
	at := r.at(3 * time.Millisecond) // the clock of the process that put it in is ahead
	ahead := j.job("ahead", 0, func(run *schedule.Run) {
		*run = j.jobOf(revoked, "ahead")
		run.FireAt = at
	})
	j.enqueue(0, ahead)
	out := j.admission(10)
	j.hold(len(out.Dispatches) == 0 && len(out.Ended) == 0, "it is neither sent nor refused, got %+v", out)
	j.isIn(ahead, schedule.QueueWaiting)
	r.now = at
	out = j.admission(10)
	j.hold(len(out.Dispatches) == 0 && len(out.Ended) == 1, "it is refused, got %+v", out)
}

func admitRequiresGrant(r *rig) {
	j := r.jobs("q")
	holds := r.create("holds", on(r.give("there")))
	j.put("without")
	j.enqueue(0, j.jobOf(holds, "with"))
	out := j.admission(10, func(req *schedule.AdmitRequest) { req.RequireGrant = true })
	j.hold(len(out.Dispatches) == 1 && j.names[out.Dispatches[0].Run.Key] == "with", "one is admitted, got %+v", out.Dispatches)
	got := r.ledger(out.Ended[0].Key)
	j.hold(got.Status == schedule.StatusSkipped && got.Reason == schedule.ReasonGrantDenied, "the other is skipped, got %+v", got)
}

func admitUnreadable(r *rig) {
	p, offers := r.Store.(Poisoner)
	if !offers {
		r.Skip("the store offers no broken rows")
	}
	j := r.jobs("q")
	broken := r.create("broken")
	j.enqueue(0, j.jobOf(broken, "bad"))
	j.put("good")
	r.ok(p.DropRevisions(r.ctx, broken.ScheduleID), "drop revisions")
	j.admits(10, "good")
	bad := r.ledger(j.jobOf(broken, "bad").Key)
	j.hold(bad.Status == schedule.StatusFailed && bad.Reason == schedule.ReasonLaunchRefused && bad.ErrorCode == string(schedule.CodeDefinitionUnreadable) &&
		strings.Contains(bad.ErrorMessage, broken.ScheduleID) && bad.Deliveries == 0, "it fails without a call, got %+v", bad)
	j.waits("")
}

func admitQueuesWaiting(r *rig) {
	waiting := func() (ids []string) {
		queues, err := r.QueuesWaiting(r.ctx)
		r.ok(err, "queues that wait")
		for _, q := range queues {
			ids = append(ids, strings.TrimPrefix(q.QueueID, r.id("")))
			id, err := r.QueueID(r.ctx, q.No)
			r.ok(err, "queue id")
			r.hold(id == q.QueueID, "number and id belong together")
		}
		return ids
	}
	a, b, c := r.jobs("a"), r.jobs("b"), r.jobs("c")
	equal(r, "queues", waiting(), nil)
	c.put("x", "y")
	a.put("x")
	b.enqueue(0, b.job("later", 0, delayed(r.at(time.Hour))))
	equal(r, "queues", waiting(), []string{"a", "c"})
	a.admits(1, "x")
	equal(r, "queues", waiting(), []string{"c"})
	q := c.queue
	q.DeletedAt = r.now
	r.putQueue(q)
	equal(r, "queues", waiting(), nil)
}

func admitMeasured(r *rig) {
	b, a := r.jobs("b"), r.jobs("a", maxInFlight(1))
	gone := r.queue("gone", func(q *schedule.Queue) { q.DeletedAt = r.now })
	r.putQueue(gone)
	a.put("x", "y")
	a.admits(5, "x")
	b.stalls(schedule.QueueStall{Until: r.at(time.Minute), Level: 3, Reason: "503"})
	got, err := r.MeasureQueues(r.ctx, 10, 100, r.now)
	r.ok(err, "measure")
	pace := func(starts int) schedule.QueuePace {
		return schedule.QueuePace{Since: schedule.PaceSince(r.now), Starts: starts}
	}
	equal(r, "measures", got, []schedule.QueueMeasure{
		{Queue: a.queue, QueueCounts: schedule.QueueCounts{Waiting: 1, InFlight: 1, WaitingSince: r.now}, Pace: pace(1)},
		{Queue: b.queue, Pace: pace(0), QueueCounts: schedule.QueueCounts{Stall: schedule.QueueStall{QueueNo: got[1].Stall.QueueNo, Until: r.at(time.Minute), Level: 3, Reason: "503"}}},
	})
	got, err = r.MeasureQueues(r.ctx, 1, 100, r.now)
	r.ok(err, "measure")
	r.hold(len(got) == 1, "one queue, got %d", len(got))
}

func admitShare(r *rig) {
	j := r.jobs("q", maxInFlight(100))
	j.put("a", "b", "c")
	for _, calls := range []int{0, 2} {
		out := j.admission(10, func(req *schedule.AdmitRequest) {
			req.Share = func(owner string) int {
				j.hold(owner == j.user, "asked for the share of %s, got %s", j.user, owner)
				return calls
			}
		})
		j.hold(len(out.Dispatches) == calls && out.Block != nil && out.Block.What == ledger.BlockedByOwner, "%d start, got %d and %+v", calls, len(out.Dispatches), out.Block)
	}
	j.admits(10, "c")
}
