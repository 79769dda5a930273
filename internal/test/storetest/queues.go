package storetest

import (
	"errors"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// queues are what a store keeps of dispatch queues.
var queues = []check{
	{"a queue comes back as it was given", queueRoundTrip},
	{"a change that changes nothing writes nothing", queueUnchanged},
	{"a refused change writes nothing", queueRefused},
	{"a queue that is not there is not found", queueMissing},
	{"a deleted queue is found by its id and comes in no list", queueDeleted},
	{"queues are listed in order, of an owner with the shared ones, page by page", queueLists},
	{"the log of a queue is read newest first, page by page", queueLog},
	{"of two that create one queue at once the second sees what the first has made", queueRace},
}

// queue is a queue of the rig's owner. Nothing is stored yet.
func (r *rig) queue(name string, edits ...func(*schedule.Queue)) schedule.Queue {
	q := schedule.Queue{
		QueueDefinition: schedule.QueueDefinition{
			QueueID: r.id(name), UserID: r.user, MaxInFlight: 3, RunTimeoutMS: 60_000, MaxWaiting: 500, MaxReservations: 7,
			Fair: schedule.FairNone, Delivery: schedule.DeliveryPush, Backpressure: schedule.BackpressureRun, History: schedule.HistoryAll, Labels: map[string]string{"team": "x"}, ManagedBy: "git",
		},
		Revision: 1, CreatedAt: r.at(-time.Hour), UpdatedAt: r.at(-time.Minute),
	}
	for _, edit := range edits {
		edit(&q)
	}
	return q
}

// putQueue stores a queue with events.
func (r *rig) putQueue(q schedule.Queue, events ...schedule.QueueEvent) schedule.Queue {
	r.Helper()
	_, err := r.ChangeQueue(r.ctx, q.QueueID, func(*schedule.Queue) (schedule.QueueChange, error) {
		return schedule.QueueChange{After: &q, Events: events}, nil
	})
	r.ok(err, "put queue")
	return r.readQueue(q)
}

func (r *rig) readQueue(q schedule.Queue) schedule.Queue {
	r.Helper()
	found, err := r.GetQueue(r.ctx, q.QueueID)
	r.ok(err, "get queue")
	return *found
}

func queueRoundTrip(r *rig) {
	q := r.queue("q", func(q *schedule.Queue) {
		q.Retry = schedule.RetryPolicy{MaxAttempts: 5}.Resolved()
		q.History, q.ExpiresMS, q.MaxRunMS = schedule.HistoryFailed, 9000, 8000
		q.Expect = schedule.QueueExpect{WaitWithinMS: 6000, DeadAtMost: new(uint32)}
		q.Shared, q.Closed, q.Fair, q.Weights = true, true, schedule.FairKey, map[string]uint32{"a b": 7}
		q.Delivery, q.Workers, q.HeartbeatMS = schedule.DeliveryPull, []string{"worker"}, 7000
		q.Pause = schedule.Pause{Paused: true, Note: "GPU away", By: "ada", Until: r.at(time.Hour)}
	})
	r.putQueue(q)
	got := r.readQueue(q)
	r.hold(got.No > 0, "it has a number")
	q.No = got.No
	equal(r, "queue", got, q)
	q.Pause, q.Closed, q.Shared, q.Revision, q.MaxInFlight = schedule.Pause{}, false, false, 2, 7
	r.putQueue(q)
	equal(r, "after a change", r.readQueue(q), q)
}

func queueUnchanged(r *rig) {
	q := r.putQueue(r.queue("q"))
	after, err := r.ChangeQueue(r.ctx, q.QueueID, func(now *schedule.Queue) (schedule.QueueChange, error) {
		now.MaxInFlight = 9 // its own copy
		return schedule.QueueChange{}, nil
	})
	r.ok(err, "change")
	r.hold(after != nil && r.readQueue(q).MaxInFlight == 3, "nothing is written")
}

func queueRefused(r *rig) {
	refusal := errors.New("no")
	_, err := r.ChangeQueue(r.ctx, r.id("q"), func(now *schedule.Queue) (schedule.QueueChange, error) {
		r.hold(now == nil, "there is none")
		return schedule.QueueChange{}, refusal
	})
	r.hold(errors.Is(err, refusal), "the refusal comes back: %v", err)
	_, err = r.GetQueue(r.ctx, r.id("q"))
	r.hold(errors.Is(err, schedule.ErrNotFound), "nothing is written: %v", err)
}

func queueMissing(r *rig) {
	_, err := r.GetQueue(r.ctx, r.id("nobody"))
	r.hold(errors.Is(err, schedule.ErrNotFound), "got %v", err)
}

func queueDeleted(r *rig) {
	q := r.putQueue(r.queue("q"))
	no := r.readQueue(q).No
	q.DeletedAt = r.now
	r.putQueue(q)
	r.hold(r.readQueue(q).DeletedAt.Equal(r.now), "it is found by its id")
	listed, err := r.ListQueues(r.ctx, schedule.QueueFilter{UserID: r.user})
	r.ok(err, "list")
	for i := range listed {
		r.hold(listed[i].QueueID != q.QueueID, "it comes in a list")
	}
	q.DeletedAt, q.Revision = time.Time{}, 2
	r.putQueue(q)
	r.hold(r.readQueue(q).No == no, "it lives again under its number")
}

func queueLists(r *rig) {
	own := func(user string, shared bool) func(*schedule.Queue) {
		return func(q *schedule.Queue) { q.UserID, q.Shared = user, shared }
	}
	mine, other := r.id("me"), r.id("other")
	for name, edit := range map[string]func(*schedule.Queue){
		"a": own(mine, false), "b": own(other, false), "c": own(other, true), "d": own(mine, true),
	} {
		r.putQueue(r.queue(name, edit))
	}
	var got []string
	f := schedule.QueueFilter{UserID: mine, Limit: 2}
	for {
		page, err := r.ListQueues(r.ctx, f)
		r.ok(err, "list")
		for i := range page {
			got = append(got, page[i].QueueID)
		}
		if len(page) < f.Limit {
			break
		}
		f.After = page[len(page)-1].QueueID
	}
	var ours []string
	for _, id := range got {
		for _, name := range []string{"a", "b", "c", "d"} {
			if id == r.id(name) {
				ours = append(ours, name)
			}
		}
	}
	equal(r, "the owner's queues and the shared ones", ours, []string{"a", "c", "d"})
}

func queueLog(r *rig) {
	q := r.queue("q")
	var want []schedule.QueueEvent
	for i, kind := range []schedule.QueueEventKind{schedule.QueueCreated, schedule.QueuePaused, schedule.QueueResumed} {
		e := schedule.QueueEvent{QueueID: q.QueueID, Time: r.at(time.Duration(i) * time.Second), Kind: kind, Actor: "ada", Note: "why", Revision: int64(i)}
		r.putQueue(q, e)
		want = append([]schedule.QueueEvent{e}, want...)
	}
	other := r.queue("other")
	r.putQueue(other, schedule.QueueEvent{QueueID: other.QueueID, Time: r.now, Kind: schedule.QueueCreated})
	first, err := r.ListQueueEvents(r.ctx, q.QueueID, 0, 2)
	r.ok(err, "first page")
	r.hold(len(first) == 2, "two events, got %+v", first)
	rest, err := r.ListQueueEvents(r.ctx, q.QueueID, first[1].ID, 2)
	r.ok(err, "second page")
	got := append(first, rest...)
	for i := len(got) - 1; i >= 0; i-- {
		r.hold(i == 0 || got[i].ID < got[i-1].ID, "ids fall: %+v", got)
		got[i].ID = 0
	}
	equal(r, "log", got, want)
}

func queueRace(r *rig) {
	const writers = 8
	var wg sync.WaitGroup
	errs := make([]error, writers)
	for i := range writers {
		wg.Go(func() {
			_, errs[i] = r.ChangeQueue(r.ctx, r.id("q"), func(now *schedule.Queue) (schedule.QueueChange, error) {
				q := r.queue("q")
				if now != nil {
					q = *now
					q.Revision++
				}
				return schedule.QueueChange{After: &q, Events: []schedule.QueueEvent{{QueueID: q.QueueID, Time: r.now, Kind: schedule.QueueChanged}}}, nil
			})
		})
	}
	wg.Wait()
	r.ok(errors.Join(errs...), "change at once")
	r.hold(r.readQueue(r.queue("q")).Revision == writers, "revision %d after %d changes", r.readQueue(r.queue("q")).Revision, writers)
	events, err := r.ListQueueEvents(r.ctx, r.id("q"), 0, 20)
	r.ok(err, "log")
	r.hold(len(events) == writers, "%d events", len(events))
}
