package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// enqueues are how runs enter a dispatch queue.
var enqueues = []check{
	{"runs wait by priority, and those of one priority in the order of their entry", enqueueOrder},
	{"a run of a queue comes back as it was put in", enqueueComesBack},
	{"runs of one request enter in their order, all or none", enqueueAllOrNone},
	{"the same request again finds the keys of the first, also after their end", enqueueAgain},
	{"of many that make one request at once one puts its runs in", enqueueRace},
	{"position N is taken, and those from there on move back by one", enqueueAt},
	{"a position counts the runs of its priority", enqueueAtOfPriority},
	{"a place takes any number of runs, one before the other", enqueueAtOnePlace},
	{"a delayed run comes after those that wait, has no position and is not admitted", enqueueDelayed},
	{"decide sees that a queue is closed or deleted, or that there is none", enqueueFacts},
	{"the open runs of a queue are counted by kind, up to a limit", enqueueCounts},
	{"the run that entered first is found behind others, whatever its priority", enqueueOldest},
	{"a run that waited for its start waits in its queue since then", enqueueOldestDelayed},
	{"the dead runs of a queue are counted, and measured where the queue promises something", enqueueDead},
	{"what explains a waiting run is read at once", enqueuePlace},
	{"what waits is listed page by page, with delayed runs last", enqueuePages},
	{"the leader of its shard learns nothing of a job", enqueueUnled},
	{"a change or deletion of its schedule leaves a job alone", enqueueKeptBySchedule},
	{"launchers are woken when a run enters a queue, ends or is to be cancelled", enqueueWakes},
	{"requests and the log of a queue are pruned by age", enqueuePruned},
}

func enqueueOrder(r *rig) {
	j := r.jobs("q")
	j.enqueue(0, j.job("a", 0))
	j.enqueue(0, j.job("b", 0))
	j.enqueue(0, j.job("urgent", 5))
	j.enqueue(0, j.job("later", -1))
	j.enqueue(0, j.job("urgent2", 5))
	j.waits("urgent urgent2 a b later")
}

func enqueueComesBack(r *rig) {
	j := r.jobs("q")
	full := j.job("full", 7, func(run *schedule.Run) {
		run.Input, run.TraceID, run.Queue.Limits = rawJSON, "trace", "customer=a7,gpu"
	})
	bare := j.job("bare", 0, func(run *schedule.Run) { run.MaxQueued = 0 })
	later := j.job("later", -3, delayed(r.at(time.Minute)))
	j.enqueue(0, full)
	j.enqueue(0, bare)
	j.enqueue(0, later)
	for _, want := range []schedule.Run{full, bare, later} {
		want.Status = schedule.StatusEnqueued
		want.Queue.Position = j.ledger(want.Key).Queue.Position
		j.hold(want.Queue.Position > 0, "it has a position")
		views := 0
		j.everyView(want.Key, func(view string, run schedule.Run) {
			equal(r, view+": runs", run, stored(want))
			r.inUTC(view, run)
			views++
		})
		j.hold(views == 6, "all six views show it, got %d", views)
	}
	for _, run := range j.listed() {
		equal(r, "as it is listed", run, j.ledger(run.Key))
	}
	id, err := j.QueueID(r.ctx, j.queue.No)
	r.ok(err, "queue id")
	equal(r, "queue of the number", id, j.queue.QueueID)
	id, err = j.QueueID(r.ctx, 1<<30)
	r.ok(err, "queue id")
	equal(r, "queue of another number", id, "")
}

func enqueueAllOrNone(r *rig) {
	j := r.jobs("q")
	j.enqueue(0, j.job("a", 0), j.job("b", 3), j.job("c", 0))
	j.waits("b a c")
	err := j.Enqueue(r.ctx, schedule.EnqueueRequest{QueueID: j.queue.QueueID, UserID: r.user}, func(schedule.EnqueueFacts) (schedule.Enqueue, error) {
		return schedule.Enqueue{Runs: []schedule.Run{j.job("d", 0)}, Now: r.now}, errRefused
	})
	j.hold(errors.Is(err, errRefused), "the refusal comes back: %v", err)
	stray := j.job("f", 0, func(run *schedule.Run) { run.ScheduleID = r.id("nobody") })
	j.hold(j.tryEnqueue(schedule.EnqueueRequest{RequestID: "1"}, j.job("e", 0), stray) != nil, "a run without a schedule is refused")
	j.waits("b a c")
	j.ok(j.tryEnqueue(schedule.EnqueueRequest{RequestID: "1"}, j.job("e", 0)), "the request is not noted")
	j.waits("b a c e")
}

// asked is what decide is told of an earlier request.
func (j *jobs) asked(user, requestID string) (earlier *schedule.EnqueueRecord) {
	j.Helper()
	err := j.Enqueue(j.ctx, schedule.EnqueueRequest{QueueID: j.queue.QueueID, UserID: user, RequestID: requestID}, func(f schedule.EnqueueFacts) (schedule.Enqueue, error) {
		earlier = f.Earlier
		return schedule.Enqueue{}, nil
	})
	j.ok(err, "ask for an earlier request")
	return earlier
}

func enqueueAgain(r *rig) {
	j, other := r.jobs("q"), r.jobs("other")
	runs := []schedule.Run{j.job("a", 0), j.job("b", 1)}
	enqueue := schedule.Enqueue{Runs: runs, BodyHash: bodyHash, Now: r.now}
	err := j.Enqueue(r.ctx, schedule.EnqueueRequest{QueueID: j.queue.QueueID, UserID: r.user, RequestID: "r"}, func(f schedule.EnqueueFacts) (schedule.Enqueue, error) {
		j.hold(f.Earlier == nil, "it is the first")
		return enqueue, nil
	})
	r.ok(err, "enqueue")
	known := func(when string) {
		r.Helper()
		got := j.asked(r.user, "r")
		j.hold(got != nil && got.BodyHash == bodyHash && inOrder(got.Keys, runs), "the keys are found %s, got %+v", when, got)
	}
	known("while they wait")
	j.hold(j.asked(r.user, "other") == nil && j.asked("nobody", "r") == nil && other.asked(r.user, "r") == nil && j.asked(r.user, "") == nil,
		"another request, owner or queue has none")
	for _, run := range j.admits(10, "b a") {
		j.end(run, schedule.StatusSuccess)
	}
	known("after their end")
	j.waits("")
}

func enqueueRace(r *rig) {
	j := r.jobs("q")
	req := schedule.EnqueueRequest{QueueID: j.queue.QueueID, UserID: r.user, RequestID: "one"}
	var wrote sync.Map
	var mu sync.Mutex
	r.crowd(8, func(i int) {
		mu.Lock()
		run := j.job(fmt.Sprint(i), 0)
		mu.Unlock()
		var seen *schedule.EnqueueRecord
		err := j.Enqueue(r.ctx, req, func(f schedule.EnqueueFacts) (schedule.Enqueue, error) {
			if seen = f.Earlier; seen != nil {
				return schedule.Enqueue{}, nil
			}
			return schedule.Enqueue{Runs: []schedule.Run{run}, BodyHash: bodyHash, Now: r.now}, nil
		})
		if err != nil {
			r.Errorf("enqueue: %v", err)
			return
		}
		if seen == nil {
			wrote.Store(run.Key, true)
		} else {
			wrote.Store(seen.Keys[0], true)
		}
	})
	waiting := j.listed()
	j.hold(len(waiting) == 1, "one run waits, got %d", len(waiting))
	wrote.Range(func(key, _ any) bool {
		j.hold(key == waiting[0].Key, "every answer has its key")
		return true
	})
}

func enqueueAt(r *rig) {
	j := r.jobs("q")
	j.put("a", "b", "c", "d")
	j.enqueue(2, j.job("x", 0))
	j.waits("a x b c d")
	j.enqueue(1, j.job("first", 0))
	j.waits("first a x b c d")
	j.enqueue(6, j.job("y", 0), j.job("z", 0))
	j.waits("first a x b c y z d")
	j.enqueue(99, j.job("last", 0))
	j.put("after")
	j.waits("first a x b c y z d last after")
	j.enqueue(11, j.job("end", 0))
	j.waits("first a x b c y z d last after end")
}

func enqueueAtOfPriority(r *rig) {
	j := r.jobs("q")
	j.enqueue(1, j.job("only", 0))
	j.enqueue(0, j.job("u1", 9))
	j.enqueue(0, j.job("u2", 9))
	j.enqueue(2, j.job("between", 9))
	j.enqueue(1, j.job("ahead", 0))
	j.enqueue(0, j.job("later", 0, delayed(r.at(time.Hour))))
	j.enqueue(3, j.job("end", 0))
	j.waits("u1 between u2 ahead only end later")
}

func enqueueAtOnePlace(r *rig) {
	j := r.jobs("q")
	j.put("a", "b", "c")
	want := "b c"
	for i := range 60 { // the gap is halved each time: it lasts for sixteen
		name := fmt.Sprint(i)
		j.enqueue(2, j.job(name, 0))
		want = name + " " + want
	}
	j.waits("a " + want)
	for i := range 40 {
		name := fmt.Sprint("f", i)
		j.enqueue(1, j.job(name, 0))
		want, _ = name+" "+want, i
		if i == 0 {
			want = strings.Replace(want, name+" ", name+" a ", 1)
		}
	}
	j.waits(want)
	j.put("last")
	j.waits(want + " last")
}

func enqueueDelayed(r *rig) {
	j := r.jobs("q")
	j.enqueue(0, j.job("tomorrow", 9, delayed(r.at(24*time.Hour))))
	j.enqueue(0, j.job("soon", 0, delayed(r.at(time.Minute))))
	j.put("now")
	j.waits("now soon tomorrow")
	run := j.ledger(j.job("soon", 0).Key)
	at, err := j.PositionOf(r.ctx, &run, 100)
	r.ok(err, "position")
	j.hold(at == 0, "it has no position, got %d", at)
	j.admits(10, "now")
}

func enqueueFacts(r *rig) {
	j := r.jobs("q")
	read := func(id string) (facts schedule.EnqueueFacts) {
		err := j.Enqueue(r.ctx, schedule.EnqueueRequest{QueueID: id, UserID: r.user}, func(f schedule.EnqueueFacts) (schedule.Enqueue, error) {
			facts = f
			return schedule.Enqueue{}, nil
		})
		r.ok(err, "read the facts")
		return facts
	}
	equal(r, "the queue", *read(j.queue.QueueID).Queue, j.queue)
	q := j.queue
	q.Closed, q.DeletedAt = true, r.now
	r.putQueue(q)
	got := read(j.queue.QueueID).Queue
	j.hold(got != nil && got.Closed && got.DeletedAt.Equal(r.now), "closed and deleted, got %+v", got)
	j.hold(read(r.id("nobody")).Queue == nil, "there is none")
	q.Closed, q.DeletedAt = false, time.Time{}
	r.putQueue(q)
	j.put("a")
	j.waits("a")
}

func enqueueUnled(r *rig) {
	r.lead()
	j := r.jobs("q")
	noted := func() string {
		rows, err := r.probe("SELECT count(*) FROM changes")
		r.ok(err, "count changes")
		return rows[0][0]
	}
	before := noted()
	runs := j.put("a", "b", "c", "d", "e")
	admitted := j.admits(3, "a b c")
	j.accept(admitted[0])
	j.end(admitted[1], schedule.StatusFailed)
	r.askCancel(admitted[0].Key, schedule.ReasonCancelled, r.now)
	_, _, err := r.ChangeRun(r.ctx, runs[4].Key, schedule.Key{}, func(schedule.RunInput) (schedule.RunChange, error) {
		return schedule.RunChange{Settle: &schedule.Settlement{To: schedule.StatusCancelled, Reason: schedule.ReasonCancelled, CompletedAt: r.now}, Now: r.now}, nil
	})
	r.ok(err, "cancel")
	j.hold(noted() == before, "no change is noted, there were %s and are %s", before, noted())
	open, err := r.LoadOpen(r.ctx, r.term, time.Time{}, r.at(time.Hour))
	r.ok(err, "load")
	j.hold(len(open.Runs) == 0, "no run of a queue is loaded, got %+v", open.Runs)
}

func enqueueKeptBySchedule(r *rig) {
	j := r.jobs("q")
	runs := j.put("a", "b")
	after := r.revise(j.of, func(s *schedule.Schedule) { s.Priority = 9 })
	after.DeletedAt = r.now
	c := schedule.Change{Row: &after, DropPlannedAfter: r.at(-time.Hour), EndRest: true}
	c.EndDue.To, c.EndDue.Reason = schedule.StatusCancelled, schedule.ReasonDeleted
	r.change(c)
	j.waits("a b")
	got := j.admits(10, "a b")
	j.hold(got[0].Revision == j.of.Revision && got[0].Priority == 0, "it keeps its revision, got %+v", got[0])
	j.hold(j.end(runs[0], schedule.StatusSuccess).Status == schedule.StatusSuccess, "it runs")
}

func enqueueWakes(r *rig) {
	j := r.jobs("q", func(q *schedule.Queue) { q.MaxInFlight = 10_000 })
	ctx, cancel := context.WithCancel(r.ctx)
	woken, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		ended <- r.ListenQueues(ctx, func() {
			select {
			case woken <- struct{}{}:
			default: // one that is still to be read says it all
			}
		})
	}()
	var n atomic.Int64
	one := func() schedule.Run { return j.put(fmt.Sprint(n.Add(1)))[0] }
	r.await(woken, func(int) { one() }) // it may be the first connection that woke
	r.await(woken, func(int) { one() })
	for range 200 {
		one()
	}
	flying := j.admission(1000).Dispatches
	next := func() schedule.Run {
		j.hold(len(flying) > 0, "no wake came")
		run := flying[0].Run
		flying = flying[1:]
		return run
	}
	drain(woken)
	r.await(woken, func(int) { j.end(next(), schedule.StatusSuccess) })
	drain(woken)
	r.await(woken, func(int) { r.askCancel(next().Key, schedule.ReasonCancelled, r.now) })
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		r.Errorf("ListenQueues ends with its context, got %v", err)
	}
}

func drain(woken <-chan struct{}) {
	select {
	case <-woken:
	default:
	}
}

func enqueuePruned(r *rig) {
	r.lead()
	j := r.jobs("q")
	enqueueOne := func(id string) {
		j.ok(j.tryEnqueue(schedule.EnqueueRequest{RequestID: id}, j.job(id, 0)), "enqueue")
		r.putQueue(j.queue, schedule.QueueEvent{QueueID: j.queue.QueueID, Time: r.now, Kind: schedule.QueueChanged})
	}
	enqueueOne("old")
	r.now = r.at(time.Hour)
	enqueueOne("new")
	deleted := r.prune(r.now, 100)
	j.hold(deleted == 2, "a request and an event are deleted, got %d", deleted)
	j.hold(j.asked(r.user, "old") == nil && j.asked(r.user, "new") != nil, "only the old request is gone")
	events, err := r.ListQueueEvents(r.ctx, j.queue.QueueID, 0, 10)
	r.ok(err, "log")
	j.hold(len(events) == 1, "one event is left, got %d", len(events))
	j.waits("old new")
}

// probe runs SQL on the tables of the store. It skips the check if the adapter is no Prober.
func (r *rig) probe(statement string, args ...any) ([][]string, error) {
	r.Helper()
	p, offers := r.Store.(Prober)
	if !offers {
		r.Skip("the store has no tables")
	}
	return p.Probe(r.ctx, statement, args...)
}
