package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

func slotGroupRetry(r *rig) {
	q, all := r.slotsTogether(schedule.OverlapSkip)
	at := r.now
	run := q.dueOf(all[:1])[0]
	q.passes("a")
	g := q.night(at)
	for attempt := 1; attempt <= 3; attempt++ {
		q.admits(1, "a")
		q.end(run, schedule.StatusFailed)
		if attempt == 3 {
			break
		}
		run = r.next(r.ledger(run.Key))
		got := r.ledger(run.Key)
		r.hold(got.Queue.GroupNo == g.No && got.Queue.GroupSeq == 1, "the retry has its place, got %+v", got.Queue)
		q.names[run.Key] = "a"
		r.now = got.FireAt
		q.sweepQueues()
	}
	r.now = at.Add(grace + time.Hour)
	q.sweepQueues()
	g = q.night(at)
	r.hold(g.State == schedule.GroupPartial && g.Failed == 1 && g.Members == 1, "it ends with the last attempt, got %+v", g)
}

func slotGroupCancelled(r *rig) {
	q, all := r.slotsTogether(schedule.OverlapQueue)
	at := r.now
	runs := q.dueOf(all)
	q.passes("a b c")
	q.later(time.Second)
	q.dueOf(all)
	q.passes("")
	q.admits(1, "a")
	q.accept(runs[0])
	_, err := r.ChangeJobGroup(r.ctx, q.nightID(at), func(g *schedule.JobGroup) (schedule.GroupChange, error) {
		g.Sealed, g.CancelRequestedAt = true, r.now
		return schedule.GroupChange{After: g, Now: r.now}, nil
	})
	r.ok(err, "cancel the group")
	r.stand(runs[1:], "CANCELLED(cancelled)", "CANCELLED(cancelled)")
	q.passes("b c")
	r.settleLaunched(schedule.Settlement{Key: runs[0].Key, To: schedule.StatusCancelled, Reason: schedule.ReasonCancelled, CompletedAt: r.now})
	g := q.night(at)
	r.hold(g.State == schedule.GroupCancelled && g.Cancelled == 3, "it has ended, got %+v", g)
	q.passes("a")
}

func slotGroupWebhook(r *rig) {
	q, all := r.slotsTogether(schedule.OverlapAllow, func(s *schedule.Schedule) { s.Webhook = "own" })
	at := r.now
	run := q.dueOf(all[:1])[0]
	q.passes("a")
	q.admits(1, "a")
	q.end(run, schedule.StatusSuccess)
	r.now = at.Add(grace)
	q.sweepQueues()
	told := q.groupTold(q.night(at))
	r.hold(len(told) == 1 && told[0].Target == "webhook:own", "its own target is told, got %+v", told)
}

func slotGroupGuarded(r *rig) {
	q, all := r.slotsTogether(schedule.OverlapSkip)
	a := q.dueOf(all[:1])[0]
	q.passes("a")
	q.later(time.Second)
	b := q.dueOf(all[:1])[0]
	alone := r.now
	q.leader = r.load(a.Key)
	result := q.leader.pass()
	equal(r, "refused", result.Refused, []schedule.Key{b.Key})
	q.noNight(alone)
	c := q.dueOf(all[1:2])[0]
	q.names[c.Key] = "c"
	q.leader = r.load(a.Key)
	result = q.leader.pass()
	equal(r, "what enters", q.named(result.Entered), "c")
	g := q.night(alone)
	r.hold(g.Members == 1 && r.ledger(c.Key).Queue.GroupSeq == 1, "it has the one member, got %+v", g)
}

func slotGroupShards(r *rig) {
	const n, instants = 2, 8
	terms := r.split(n)
	j := r.jobs("q", maxInFlight(100))
	for i, term := range terms {
		s := r.createIn(term, fmt.Sprint("s", i), withPolicy(schedule.OverlapAllow), func(s *schedule.Schedule) { s.QueueID, s.Group = j.queue.QueueID, "night" })
		for at := range instants {
			r.add(r.slot(s, r.at(-time.Duration(at)*time.Second)))
		}
	}
	leaders := make([]*memory, n)
	for i, term := range terms {
		r.asTerm(term, func() { leaders[i] = r.load() })
	}
	r.crowd(n, func(i int) {
		req := r.claimRequest()
		req.Term = terms[i]
		if _, err := leaders[i].claim(req); err != nil {
			r.Errorf("claim: %v", err)
		}
	})
	for at := range instants {
		g, err := r.GetJobGroup(r.ctx, schedule.SlotGroup{QueueID: j.queue.QueueID, UserID: r.user, Name: "night", RunAt: r.at(-time.Duration(at) * time.Second)}.ID())
		r.ok(err, "get the group")
		r.hold(g.Members == n, "it has a run of each shard, got %+v", g)
	}
}

func slotGroupStorm(r *rig) {
	const rounds = 12
	q, all := r.slotsTogether(schedule.OverlapAllow)
	at := r.now
	for i := range rounds {
		for _, s := range all {
			r.add(r.slot(s, at, func(run *schedule.Run) { run.Key = schedule.ManualKey(s.ScheduleID, fmt.Sprint("n", i)) }))
		}
	}
	q.leader = r.load()
	var mu sync.Mutex
	r.crowd(4, func(n int) {
		for range rounds {
			switch n {
			case 0:
				mu.Lock()
				req := r.claimRequest()
				req.Limit = 3
				if _, err := q.leader.claim(req); err != nil {
					r.Errorf("claim: %v", err)
				}
				mu.Unlock()
			case 1, 2:
				q.endAdmitted(3)
			default:
				if _, err := r.SweepQueues(r.ctx, schedule.QueueSweep{SweepRequest: schedule.SweepRequest{Now: r.now, CancelWait: time.Minute, RetryFor: retryFor, Limit: 100}, Free: 10}); err != nil {
					r.Errorf("sweep: %v", err)
				}
			}
		}
	})
	for range rounds {
		q.leader.pass()
	}
	for q.endAdmitted(100) > 0 { // the rest
	}
	r.now = at.Add(grace)
	q.sweepQueues()
	g := q.night(at)
	r.hold(g.State == schedule.GroupCompleted && g.Succeeded == 3*rounds && g.Members == 3*rounds, "all are counted, got %+v", g)
}
