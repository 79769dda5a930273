package storetest

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// pullTogether are pull queues together with what else runs of queues have.
var pullTogether = []check{
	{"the retry of a run whose worker is lost keeps its ordered limit, and the next worker gets it", pullOrdered},
	{"runs of a fair pull queue are fetched in turns", pullFair},
	{"a fetched run of a slot is a member of its group, and so is its retry", pullSlotGroup},
	{"the cancel of a group of slots reaches the workers", pullSlotGroupCancelled},
}

func pullOrdered(r *rig) {
	customer := r.putLimit("customer", 1, ordered)
	j := r.jobs("q", pulled)
	runs := j.putUsing([]string{"a1", "a2"}, "customer=a")
	j.putUsing([]string{"b1"}, "customer=b")
	j.fetches(fetch("me/w", 1), "a1")
	r.now = r.at(time.Minute)
	j.hold(len(j.sweepQueues().Ended) == 1, "its worker is lost")
	next := j.ledger(schedule.AttemptKey(runs[0].Key))
	j.names[next.Key] = "a1+"
	r.keeps(customer, next.Key)
	j.fetches(fetch("you/w", 5), "b1")
	j.comes(next)
	j.admits(10, "") // a launcher takes none
	got := j.fetches(fetch("they/w", 5), "a1+")
	j.end(got[0], schedule.StatusSuccess)
	j.fetches(fetch("they/w", 5), "a2")
	r.used(customer, 2)
}

func pullFair(r *rig) {
	j := r.jobs("q", pulled, func(q *schedule.Queue) { q.Fair = schedule.FairKey })
	of := func(key string) func(*schedule.Run) {
		return func(run *schedule.Run) { run.Queue.FairKey = key }
	}
	j.putFair("a1 a2 a3", of("a"))
	j.putFair("b1", of("b"))
	j.fetches(fetch("me/w", 2), "a1 b1")
	j.fetches(fetch("you/w", 5), "a2 a3")
}

func pullSlotGroup(r *rig) {
	q, all := r.slotsTogether(schedule.OverlapSkip)
	q.changeQueue(func(now *schedule.Queue) { pulled(now) })
	at := r.now
	runs := q.dueOf(all)
	q.passes("a b c")
	got := q.fetches(fetch("me/w", 5), "a b c")
	for _, run := range got[1:] {
		q.end(run, schedule.StatusSuccess)
	}
	r.now = r.at(grace + time.Minute)
	q.hold(len(q.sweepQueues().Ended) == 1, "its worker is lost")
	next := q.ledger(schedule.AttemptKey(runs[0].Key))
	q.names[next.Key] = "a+"
	q.hold(q.night(at).State == schedule.GroupRunning, "the group waits for the retry")
	q.comes(next)
	q.end(q.fetches(fetch("you/w", 5), "a+")[0], schedule.StatusSuccess)
	g := q.night(at)
	q.hold(g.State == schedule.GroupCompleted && g.Succeeded == 3, "it has ended, got %+v", g)
}

func pullSlotGroupCancelled(r *rig) {
	q, all := r.slotsTogether(schedule.OverlapSkip)
	q.changeQueue(func(now *schedule.Queue) { pulled(now) })
	at := r.now
	q.dueOf(all)
	q.passes("a b c")
	got := q.fetches(fetch("me/w", 2), "a b")
	_, err := r.ChangeJobGroup(r.ctx, q.nightID(at), func(g *schedule.JobGroup) (schedule.GroupChange, error) {
		g.Sealed, g.CancelRequestedAt = true, r.now
		return schedule.GroupChange{After: g, Now: r.now}, nil
	})
	r.ok(err, "cancel the group")
	q.hears(fetch("me/w", 2, got...), "", "a b")
	for _, run := range got {
		r.report(schedule.Settlement{Key: run.Key, To: schedule.StatusCancelled, Reason: schedule.ReasonCancelled, CompletedAt: r.now})
	}
	g := q.night(at)
	q.hold(g.State == schedule.GroupCancelled && g.Cancelled == 3, "it has ended, got %+v", g)
}
