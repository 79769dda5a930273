package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// cancels are cancels of many runs.
var cancels = []check{
	{"a cancel of a queue ends what waits, is delayed or chained, and asks for what is in flight", cancelQueue},
	{"a cancel of waiting runs leaves what is in flight alone", cancelWaiting},
	{"a cancel reads its filter's open runs a page at a time, newest first", cancelFiltered},
	{"a cancel settles the groups of its runs in the same transaction", cancelGroups},
	{"a cancel reaches runs outside queues, and not the slots that are still to come unless it names them", cancelOutside},
	{"a cancel frees the unique keys of its runs", cancelUnique},
	{"a cancel that is refused writes nothing", cancelRefused},
	{"a cancel brings its events and entries, and the first request of a run stays", cancelWritten},
	{"runs that are admitted and end while they are cancelled end once, and none is left", cancelRace},
}

// cancelMany cancels what a filter finds, page by page, and counts.
func (r *rig) cancelMany(f schedule.RunFilter, o ledger.CancelOrder) (ended, asked []schedule.Run) {
	r.Helper()
	o.Now = r.now
	if f.Limit == 0 {
		f.Limit = 100
	}
	f.Now = r.now
	for {
		var c ledger.Cancelled
		page, err := r.CancelRuns(r.ctx, f, func(found []schedule.Run) (schedule.CancelChange, error) {
			c = ledger.CancelEach(found, &o)
			return c.Change, nil
		})
		r.ok(err, "cancel")
		ended, asked = append(ended, c.Ended...), append(asked, c.Asked...)
		if page.Found < f.Limit {
			return ended, asked
		}
		f.AfterRunAt, f.AfterKey = page.RunAt, page.Key
	}
}

func cancelQueue(r *rig) {
	j, other := r.jobs("q"), r.jobs("other")
	runs := j.put("flying", "waiting")
	j.admits(1, "flying")
	late := j.job("late", 0, delayed(r.at(time.Hour)))
	j.enqueue(0, late)
	j.group("g", schedule.GroupSequential, "m1 m2")
	other.put("stays")
	r.now = r.at(time.Second)
	ended, asked := r.cancelMany(schedule.RunFilter{QueueNo: j.queue.No}, ledger.CancelOrder{})
	r.hold(len(ended) == 4 && len(asked) == 1 && asked[0].Key == runs[0].Key, "four end and one is asked, got %d and %v", len(ended), j.named(asked))
	for _, run := range ended {
		got := r.ledger(run.Key)
		r.hold(got.Status == schedule.StatusCancelled && got.Reason == schedule.ReasonCancelled && got.CompletedAt.Equal(r.now), "%s is cancelled, got %s %s", j.names[run.Key], got.Status, got.Reason)
		r.hold(run.ScheduleID == j.of.ScheduleID && run.UserID == j.of.UserID, "decide knows the schedule and the owner, got %q and %q", run.ScheduleID, run.UserID)
	}
	got := j.isIn(runs[0], schedule.QueueDispatching)
	r.hold(got.CancelRequestedAt.Equal(r.now) && got.CancelReason == schedule.ReasonCancelled, "the cancel is requested, got %+v", got)
	j.waits("")
	other.waits("stays")
	r.now = r.at(time.Second)
	ended, asked = r.cancelMany(schedule.RunFilter{QueueNo: j.queue.No}, ledger.CancelOrder{})
	r.hold(len(ended)+len(asked) == 0, "a repeat changes nothing, got %d and %d", len(ended), len(asked))
	r.hold(r.ledger(runs[0].Key).CancelRequestedAt.Equal(r.at(-time.Second)), "the first request stays")
}

func cancelWaiting(r *rig) {
	j := r.jobs("q", func(q *schedule.Queue) { q.MaxInFlight = 2 })
	runs := j.put("sent", "runs", "back", "waiting")
	j.admits(2, "sent runs")
	j.accept(runs[1])
	j.unsent(runs[0])
	r.hold(j.putsBack(runs[0]), "sent waits again")
	ended, asked := r.cancelMany(schedule.RunFilter{QueueNo: j.queue.No}, ledger.CancelOrder{Waiting: true})
	r.hold(len(ended) == 3 && len(asked) == 0, "the three that wait end, got %s; asked %s", j.named(ended), j.named(asked))
	got := j.isIn(runs[1], schedule.QueueRunning)
	r.hold(got.CancelRequestedAt.IsZero(), "nobody asks for what is in flight")
}

func cancelFiltered(r *rig) {
	j := r.jobs("q")
	var of []schedule.Run
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		of = append(of, j.put(name)...)
		r.now = r.at(time.Second)
	}
	look := func(name string, f schedule.RunFilter, want ...int) {
		r.Helper()
		if f.Limit == 0 {
			f.Limit = 10
		}
		f.Now = r.now
		var keys, wanted []schedule.Key
		page, err := r.CancelRuns(r.ctx, f, func(found []schedule.Run) (schedule.CancelChange, error) {
			keys = keysOf(found)
			return schedule.CancelChange{Now: r.now}, nil
		})
		r.ok(err, name)
		for _, i := range want {
			wanted = append(wanted, of[i].Key)
		}
		equal(r, name, keys, wanted)
		if last := len(want) - 1; last >= 0 {
			equal(r, name+", the page", page, schedule.RunPage{Found: len(want), RunAt: of[want[last]].RunAt, Key: of[want[last]].Key})
		}
	}
	look("a queue", schedule.RunFilter{QueueNo: j.queue.No}, 4, 3, 2, 1, 0)
	look("a schedule", schedule.RunFilter{ScheduleID: j.of.ScheduleID, Limit: 2}, 4, 3)
	look("the next page", schedule.RunFilter{ScheduleID: j.of.ScheduleID, Limit: 2, AfterRunAt: of[3].RunAt, AfterKey: of[3].Key}, 2, 1)
	look("an owner and a time", schedule.RunFilter{UserID: j.of.UserID, From: of[1].RunAt, To: of[3].RunAt}, 2, 1)
	look("a workflow and a queue", schedule.RunFilter{WorkflowID: j.of.WorkflowID, QueueNo: j.queue.No}, 4, 3, 2, 1, 0)
	look("keys", schedule.RunFilter{AnyOf: []schedule.Key{of[0].Key, of[4].Key}}, 4, 0)
	look("no key", schedule.RunFilter{AnyOf: []schedule.Key{}})
	j.admits(1, "a")
	j.end(of[0], schedule.StatusSuccess)
	look("without one that has ended", schedule.RunFilter{QueueNo: j.queue.No}, 4, 3, 2, 1)
}

func cancelGroups(r *rig) {
	j := r.jobs("q", tells("billing"))
	whole := j.group("whole", schedule.GroupSequential, "a b c", completes(j))
	j.group("part", schedule.GroupSequential, "d e f")
	j.group("goes on", schedule.GroupSequential, "g h", onFailure(schedule.GroupContinue))
	one := func(names ...string) schedule.RunFilter {
		f := schedule.RunFilter{QueueNo: j.queue.No, AnyOf: []schedule.Key{}}
		for _, name := range names {
			f.AnyOf = append(f.AnyOf, j.keyNamed(name))
		}
		return f
	}
	ended, _ := r.cancelMany(one("a", "b", "c"), ledger.CancelOrder{Named: true})
	r.hold(len(ended) == 3, "three end, got %s", j.named(ended))
	j.isGroup("whole", schedule.GroupPartial, 0, 0, 0, 3)
	r.hold(len(j.groupTold(whole)) == 1, "its end is told once")
	j.names[whole.EndKey()] = "done"
	ended, _ = r.cancelMany(one("e"), ledger.CancelOrder{Named: true})
	r.hold(len(ended) == 1, "one ends, got %s", j.named(ended))
	j.isGroup("part", schedule.GroupRunning, 0, 0, 0, 2)
	r.hold(r.ledger(j.keyNamed("f")).Reason == schedule.ReasonPredecessorFailed, "the group stops behind it")
	r.cancelMany(one("g"), ledger.CancelOrder{Named: true})
	j.isIn(r.ledger(j.keyNamed("h")), schedule.QueueWaiting)
	j.waits("done d h")
}

func cancelOutside(r *rig) {
	r.lead()
	s := r.create("outside")
	past := r.slot(s, r.at(-time.Minute))
	ahead := r.slot(s, r.at(time.Hour))
	flying := r.bring(r.slot(s, r.at(-time.Hour)), schedule.StatusStarted)
	r.add(past)
	r.add(ahead)
	ended, asked := r.cancelMany(schedule.RunFilter{ScheduleID: s.ScheduleID}, ledger.CancelOrder{})
	r.hold(len(ended) == 1 && ended[0].Key == past.Key && len(asked) == 1 && asked[0].Key == flying.Key, "the slot that is due ends, the run is asked, got %d and %d", len(ended), len(asked))
	r.hold(r.ledger(ahead.Key).Status == schedule.StatusPlanned, "the next slot stays")
	r.hold(!r.ledger(flying.Key).CancelRequestedAt.IsZero(), "the cancel is requested")
	ended, _ = r.cancelMany(schedule.RunFilter{AnyOf: []schedule.Key{ahead.Key}}, ledger.CancelOrder{Named: true})
	r.hold(len(ended) == 1 && r.ledger(ahead.Key).Status == schedule.StatusCancelled, "it ends once it is named")
}

func cancelUnique(r *rig) {
	j := r.jobs("q")
	first, _ := j.only(asks("k"), j.job("first", 0))
	r.cancelMany(schedule.RunFilter{QueueNo: j.queue.No}, ledger.CancelOrder{})
	r.hold(r.ledger(first).Status == schedule.StatusCancelled, "it is cancelled")
	second, _ := j.only(asks("k"), j.job("second", 0))
	r.hold(second != first && j.listed()[0].Key == second, "another run takes the key")
}

func cancelRefused(r *rig) {
	j := r.jobs("q")
	runs := j.put("a")
	page, err := r.CancelRuns(r.ctx, schedule.RunFilter{QueueNo: j.queue.No, Limit: 10, Now: r.now}, func(found []schedule.Run) (schedule.CancelChange, error) {
		return ledger.CancelEach(found, &ledger.CancelOrder{Now: r.now}).Change, errRefused
	})
	r.hold(errors.Is(err, errRefused) && page == schedule.RunPage{}, "it is refused, got %v, %v", page, err)
	j.isIn(runs[0], schedule.QueueWaiting)
}

func cancelWritten(r *rig) {
	j := r.jobs("q")
	runs := j.put("flying", "waiting")
	j.admits(1, "flying")
	entry := r.entry("cancel", r.at(time.Second))
	write := func(reason schedule.Reason, ask ...schedule.Key) {
		r.Helper()
		r.now = r.at(time.Second)
		_, err := r.CancelRuns(r.ctx, schedule.RunFilter{QueueNo: j.queue.No, Limit: 10, Now: r.now}, func(found []schedule.Run) (schedule.CancelChange, error) {
			r.hold(len(found) == 2, "two are open, got %d", len(found))
			e := schedule.Event{
				ScheduleID: j.of.ScheduleID, Time: r.now, Kind: schedule.EventCancelAsked, From: runs[0].RunAt, To: runs[1].RunAt, Count: int64(len(ask)),
				Reason: reason, Actor: "ops", Note: "wrong input", Revision: runs[0].Revision,
			}
			return schedule.CancelChange{Ask: ask, Reason: reason, Events: []schedule.Event{e}, Audit: []schedule.AuditEntry{entry}, Now: r.now}, nil
		})
		r.ok(err, "cancel")
	}
	write(schedule.ReasonCancelled, runs[0].Key)
	first := r.now
	events, err := r.ListEvents(r.ctx, j.of.ScheduleID, 0, 1)
	r.ok(err, "list events")
	r.hold(len(events) == 1 && events[0].Kind == schedule.EventCancelAsked && events[0].Count == 1 && events[0].Note == "wrong input", "the event is written, got %+v", events)
	entry.Time = stored(entry.Time)
	equal(r, "the entry", r.trail(schedule.AuditFilter{Target: entry.Target}), []schedule.AuditEntry{entry})
	write(schedule.ReasonReplaced, runs[0].Key)
	got := j.isIn(runs[0], schedule.QueueDispatching)
	r.hold(got.CancelRequestedAt.Equal(first) && got.CancelReason == schedule.ReasonCancelled, "the first request stays, got %s %s", got.CancelRequestedAt, got.CancelReason)
}

func cancelRace(r *rig) {
	j := r.jobs("q", func(q *schedule.Queue) { q.MaxInFlight = 1000 })
	var runs []schedule.Run
	for i := range 60 {
		runs = append(runs, j.put(fmt.Sprint("run", i))...)
	}
	var counted atomic.Int32
	r.crowd(6, func(i int) {
		switch {
		case i < 2: // admits and ends
			for range 8 {
				out, err := r.Admit(r.ctx, j.admitRequest(5))
				if err != nil {
					r.Errorf("admit: %v", err)
					return
				}
				for _, d := range out.Dispatches {
					if _, err := r.Finish(r.ctx, []schedule.FinishRequest{{Key: d.Run.Key, Outcome: schedule.Outcome{Status: schedule.StatusSuccess}, RunTimeout: time.Minute}}, r.now); err != nil {
						r.Errorf("finish: %v", err)
					}
				}
			}
		default:
			ended, _ := r.cancelMany(schedule.RunFilter{QueueNo: j.queue.No, Limit: 7}, ledger.CancelOrder{})
			counted.Add(int32(len(ended)))
		}
	})
	r.cancelMany(schedule.RunFilter{QueueNo: j.queue.No}, ledger.CancelOrder{Waiting: true})
	var cancelled int32
	for i := range runs {
		got := r.ledger(runs[i].Key)
		r.hold(got.Status.Terminal(), "run %d has ended, got %s", i, got.Status)
		if got.Status == schedule.StatusCancelled {
			cancelled++
		}
	}
	r.hold(counted.Load() == cancelled, "each end is counted once: %d, and %d runs are cancelled", counted.Load(), cancelled)
	r.hold(len(j.listed()) == 0, "nothing waits")
}
