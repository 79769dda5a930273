package storetest

import (
	"slices"
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
	groups := 0
	r.claimBy(func(g schedule.OverlapGroup) []schedule.Verdict {
		groups++
		equal(r, "due", keysOf(g.Due), keysOf(runs))
		return judge(g)
	})
	r.hold(groups == 1, "they are one group, got %d", groups)
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
	result := r.claim(func(req *schedule.ClaimRequest) { req.Limit = 1 })
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
	result := r.claimBy(func(g schedule.OverlapGroup) []schedule.Verdict {
		verdicts := judge(g)
		for _, run := range g.Waiting { // a judge may say it again in so many words
			verdicts = append(verdicts, schedule.Verdict{Key: run.Key, Action: schedule.VerdictWait})
		}
		return verdicts
	})
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

// claimEverything is a judge that errs: it claims whatever it sees.
func claimEverything(g schedule.OverlapGroup) []schedule.Verdict {
	var verdicts []schedule.Verdict
	for _, run := range slices.Concat(g.Waiting, g.Due) {
		verdicts = append(verdicts, schedule.Verdict{Key: run.Key, Action: schedule.VerdictClaim})
	}
	return verdicts
}

func overlapGuardedByIndex(r *rig) {
	r.lead()
	s := r.create("skip", withPolicy(schedule.OverlapSkip))
	flying := r.bring(r.due(s, 3), schedule.StatusStarted)
	blocked := r.add(r.due(s, 2), r.due(s, 1))
	result := r.claimBy(claimEverything)
	equal(r, "launched while one is in flight", launched(result), nil)
	r.stand(blocked, "PLANNED", "PLANNED")

	r.succeed(flying)
	result = r.claimBy(claimEverything)
	r.hold(len(result.Launches) == 1, "one of the two is launched, got %d", len(result.Launches))
	inFlight := 0
	for _, run := range blocked {
		if got := r.ledger(run.Key); got.Status.InFlight() {
			inFlight++
		} else {
			r.hold(got.Status == schedule.StatusPlanned && got.ClaimedAt.IsZero(), "the loser stays as it was, got %+v", got)
		}
	}
	r.hold(inFlight == 1, "one is in flight, got %d", inFlight)
}

func overlapErringJudgeHarmsNoOther(r *rig) {
	r.lead()
	bad := r.create("a-bad", withPolicy(schedule.OverlapSkip))
	good := r.create("b-good", withPolicy(schedule.OverlapSkip))
	queue := r.create("c-queue", withPolicy(schedule.OverlapQueue))
	allow := r.create("d-allow")
	r.bring(r.due(bad, 9), schedule.StatusStarted)
	r.bring(r.due(queue, 9), schedule.StatusStarted)
	runs := r.add(r.due(bad, 5), r.due(good, 5), r.due(good, 4), r.due(queue, 5), r.due(allow, 5))
	result := r.claimBy(func(g schedule.OverlapGroup) []schedule.Verdict {
		if g.OverlapKey == bad.QualifiedOverlapKey() {
			return claimEverything(g)
		}
		return judge(g)
	})
	r.stand(runs, "PLANNED", "LAUNCHING", "SKIPPED(overlap)", "waiting", "LAUNCHING")
	got := launched(result)
	r.hold(len(got) == 2 && slices.Contains(got, runs[1].Key) && slices.Contains(got, runs[4].Key),
		"exactly what became LAUNCHING is handed out, got %d", len(got))
	r.hold(result.Waiting == 1, "one began to wait, got %d", result.Waiting)
	r.hold(len(result.Skipped) == 1, "one was skipped, got %d", len(result.Skipped))
}

func overlapWithoutVerdict(r *rig) {
	r.lead()
	s := r.create("undecided", withPolicy(schedule.OverlapSkip))
	runs := r.add(r.due(s, 2), r.due(s, 1))
	result := r.claimBy(func(schedule.OverlapGroup) []schedule.Verdict { return nil })
	r.hold(len(result.Launches) == 0, "nothing is launched")
	r.stand(runs, "PLANNED", "PLANNED")
}
