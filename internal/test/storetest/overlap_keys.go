package storetest

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

func overlapSharedKey(r *rig) {
	r.lead()
	shared := func(s *schedule.Schedule) {
		s.OverlapPolicy, s.OverlapKey = schedule.OverlapSkip, r.id("shared")
	}
	a, b := r.create("a", shared), r.create("b", shared)
	runs := r.add(r.due(b, 2), r.due(a, 1))
	r.claim()
	r.stand(runs, "LAUNCHING", "SKIPPED(overlap)")
}

func overlapOwnersApart(r *rig) {
	r.lead()
	key := r.id("key")
	var runs []schedule.Run
	for _, owner := range []string{"ann", "bob"} {
		s := r.create(owner, func(s *schedule.Schedule) {
			s.UserID, s.OverlapKey, s.OverlapPolicy = r.id(owner), key, schedule.OverlapSkip
		})
		runs = append(runs, r.due(s, 1))
	}
	r.add(runs...)
	r.claim()
	r.stand(runs, "LAUNCHING", "LAUNCHING")
}

// overlapGroupBeyondLimit: a judge that saw only as many rows as there are free
// launches would fire a slot whose successor is due already.
func overlapGroupBeyondLimit(r *rig) {
	r.lead()
	s := r.create("replace", withPolicy(schedule.OverlapReplace))
	runs := r.add(r.due(s, 3), r.due(s, 2), r.due(s, 1))
	result := r.claim(func(req *claimRequest) { req.Limit = 1 })
	r.stand(runs, "SKIPPED(coalesced)", "SKIPPED(coalesced)", "LAUNCHING")
	equal(r, "launched", launched(result), []schedule.Key{runs[2].Key})
}

func overlapFreed(r *rig) {
	r.lead()
	for _, to := range []schedule.Status{schedule.StatusSuccess, schedule.StatusFailed, schedule.StatusSkipped, schedule.StatusCancelled} {
		s := r.create("freed-by-"+string(to), withPolicy(schedule.OverlapSkip))
		r.bring(r.due(s, 2), to)
		next := r.add(r.due(s, 1))
		r.claim()
		r.stand(next, "LAUNCHING")
	}
}

func overlapKeepsWaitingSince(r *rig) {
	r.lead()
	s := r.create("queue", withPolicy(schedule.OverlapQueue))
	r.bring(r.due(s, 3), schedule.StatusStarted)
	waiting := r.add(r.due(s, 2))[0]
	r.claim()
	since := r.now
	r.now = r.at(time.Second)
	r.add(r.slot(s, r.now)) // so that the group is judged again
	result := r.claim()
	r.hold(result.Waiting == 1, "one more began to wait, got %d", result.Waiting)
	r.hold(r.ledger(waiting.Key).WaitingSince.Equal(since), "it waits since %s, got %s", since, r.ledger(waiting.Key).WaitingSince)
}

func overlapKeepsFirstCancel(r *rig) {
	r.lead()
	s := r.create("replace", withPolicy(schedule.OverlapReplace))
	old := r.bring(r.due(s, 3), schedule.StatusStarted)
	asked := r.now
	r.askCancel(old.Key, schedule.ReasonCancelled, asked)
	r.now = r.at(time.Second)
	r.add(r.due(s, 1))
	r.claim()
	got := r.ledger(old.Key)
	r.hold(got.CancelRequestedAt.Equal(asked) && got.CancelReason == schedule.ReasonCancelled,
		"the first asker's time and reason stay, got %s (%s)", got.CancelRequestedAt, got.CancelReason)
}
