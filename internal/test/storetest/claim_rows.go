package storetest

import (
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// ended tells how a claim ended a run: the settlement that it reports, and the
// same in the ledger.
func (r *rig) ended(result claimResult, key schedule.Key, to schedule.Status, reason schedule.Reason) {
	r.Helper()
	i := slices.IndexFunc(result.Skipped, func(s schedule.Skip) bool { return s.Key == key })
	r.hold(i >= 0, "the claim reports that the row ended")
	got := result.Skipped[i]
	r.hold(got.To == to && got.Reason == reason, "it is reported as %s(%s), got %s(%s)", to, reason, got.To, got.Reason)
	run := r.ledger(key)
	r.hold(got.ScheduleID == run.ScheduleID && got.RunAt.Equal(run.RunAt), "it is reported as of %s at %s, got %s at %s", run.ScheduleID, run.RunAt, got.ScheduleID, got.RunAt)
	r.hold(run.Status == to && run.Reason == reason, "it is %s(%s), got %s(%s)", to, reason, run.Status, run.Reason)
	r.hold(run.WaitingSince.IsZero(), "it does not wait any more")
}

func claimDeleted(r *rig) {
	r.lead()
	for _, policy := range []schedule.OverlapPolicy{schedule.OverlapAllow, schedule.OverlapSkip} {
		s := r.create("deleted-"+string(policy), withPolicy(policy))
		slot, byHand := r.slot(s, r.now), r.manual(s, "m", r.at(-time.Second))
		r.add(slot, byHand)
		r.rewrite(s, func(s *schedule.Schedule) { s.DeletedAt = r.now })
		result := r.claim()
		r.hold(len(result.Launches) == 0, "nothing of a deleted schedule is launched")
		r.ended(result, slot.Key, schedule.StatusCancelled, schedule.ReasonDeleted)
		r.ended(result, byHand.Key, schedule.StatusCancelled, schedule.ReasonDeleted)
	}
}

func claimPaused(r *rig) {
	r.lead()
	for _, policy := range []schedule.OverlapPolicy{schedule.OverlapAllow, schedule.OverlapQueue} {
		s := r.create("paused-"+string(policy), withPolicy(policy))
		slot := r.slot(s, r.at(-time.Second))
		caughtUp := r.slot(s, r.at(-2*time.Second), func(run *schedule.Run) { run.Trigger = schedule.TriggerCatchup })
		byHand := r.manual(s, "m", r.now)
		r.add(slot, caughtUp, byHand)
		r.rewrite(s, func(s *schedule.Schedule) { s.Pause = schedule.Pause{Paused: true, Until: r.at(time.Microsecond)} })
		result := r.claim()
		equal(r, "launched", launched(result), []schedule.Key{byHand.Key})
		r.ended(result, slot.Key, schedule.StatusSkipped, schedule.ReasonPaused)
		r.ended(result, caughtUp.Key, schedule.StatusSkipped, schedule.ReasonPaused)
	}
}

func claimLateAndHalted(r *rig) {
	r.lead()
	deleted, paused := r.create("deleted"), r.create("paused")
	ofDeleted, ofPaused := r.slot(deleted, r.at(-2*grace)), r.slot(paused, r.at(-2*grace))
	r.add(ofDeleted, ofPaused)
	r.rewrite(deleted, func(s *schedule.Schedule) { s.DeletedAt = r.now })
	r.rewrite(paused, func(s *schedule.Schedule) { s.Pause.Paused = true })
	result := r.claim()
	r.hold(len(result.Launches) == 0, "nothing is launched")
	r.ended(result, ofDeleted.Key, schedule.StatusCancelled, schedule.ReasonDeleted)
	r.ended(result, ofPaused.Key, schedule.StatusSkipped, schedule.ReasonPaused)
}

// claimWithoutDefinition has rows of a revision that does not exist. They can
// never be sent, and left PLANNED they would be first in line forever.
func claimWithoutDefinition(r *rig) {
	r.lead()
	s, exclusive := r.create("allow"), r.create("skip", withPolicy(schedule.OverlapSkip))
	unknown := func(run *schedule.Run) { run.Revision = 99 }
	lost := []schedule.Run{r.slot(s, r.at(-2*time.Second), unknown), r.slot(exclusive, r.at(-2*time.Second), unknown)}
	sound := r.slot(s, r.at(-time.Second))
	r.add(lost[0], lost[1], sound)
	equal(r, "launched", launched(r.claim()), []schedule.Key{sound.Key})
	for _, run := range lost {
		got := r.ledger(run.Key)
		r.hold(got.Status == schedule.StatusFailed && got.Reason == schedule.ReasonLaunchRefused && got.ErrorCode == "definition_unreadable" && got.ErrorMessage != "",
			"it is FAILED(launch_refused) and says why, got %s(%s) %s %q", got.Status, got.Reason, got.ErrorCode, got.ErrorMessage)
	}
}

func claimAfterPause(r *rig) {
	r.lead()
	s := r.create("resumed")
	slot := r.slot(s, r.now)
	r.add(slot)
	r.rewrite(s, func(s *schedule.Schedule) { s.Pause = schedule.Pause{Paused: true, Until: r.now} })
	equal(r, "launched", launched(r.claim()), []schedule.Key{slot.Key})
}

func claimOnlyPlanned(r *rig) {
	r.lead()
	s := r.create("moved")
	var rows []schedule.Run
	for i, status := range schedule.Statuses[1:] {
		rows = append(rows, r.bring(r.slot(s, r.at(-time.Duration(i)*time.Second)), status))
	}
	result := r.claim()
	r.hold(len(result.Launches) == 0 && len(result.Skipped) == 0 && !result.More, "nothing is left to claim, got %+v", result)
	for _, run := range rows {
		equal(r, string(run.Status)+" rows", r.ledger(run.Key), run)
	}
}

// claimAsJudged has a leader that believes what is no longer so, as after a change that it
// has missed. The runs stay as they are, and the leader learns that it must look again.
func claimAsJudged(r *rig) {
	r.lead()
	s, jittered, other := r.create("edited"), r.create("jittered"), r.create("other")
	s = r.revise(s)
	sound := r.slot(other, r.now)
	runs := r.add(
		r.slot(s, r.at(-time.Second), func(run *schedule.Run) { run.Revision-- }),
		r.slot(jittered, r.at(time.Second), func(run *schedule.Run) { run.FireAt = r.at(2 * time.Second) }),
		sound,
	)[:2]
	m := r.load()
	revised, moved := ledger.RunOf(&runs[0]), ledger.RunOf(&runs[1])
	revised.Revision, moved.FireAt = s.Revision, r.at(time.Second)
	m.state.Apply(ledger.Changes{Runs: []ledger.Run{revised, moved}})

	result := m.pass(func(req *claimRequest) { req.ClaimAhead = time.Second })
	equal(r, "launched", launched(result), []schedule.Key{sound.Key})
	missing := slices.SortedFunc(slices.Values(result.Missing), compareKeys)
	equal(r, "missing", missing, slices.SortedFunc(slices.Values(keysOf(runs)), compareKeys))
	for i := range runs {
		equal(r, "a run that is not as it was judged", r.ledger(runs[i].Key), runs[i])
	}
}

func claimNothing(r *rig) {
	r.lead()
	result := r.claim()
	r.hold(!result.Verdicts.Moved() && len(result.Launches) == 0 && !result.More, "nothing is claimed, got %+v", result)
	req := r.claimRequest()
	again, err := r.Reclaim(r.ctx, req.reclaim())
	r.ok(err, "reclaim")
	r.hold(len(again.Launches) == 0, "nothing is to be sent again, got %d", len(again.Launches))
}

func cancelsDue(r *rig) {
	r.lead()
	s := r.create("cancelled")
	var rows []schedule.Run
	for i, status := range []schedule.Status{schedule.StatusStarted, schedule.StatusLaunching, schedule.StatusEnqueued, schedule.StatusStarted} {
		rows = append(rows, r.bring(r.slot(s, r.at(-time.Duration(i)*time.Second)), status))
	}
	due := func() []schedule.Key {
		runs, err := r.CancelRequests(r.ctx, append(keysOf(rows), schedule.ManualKey("no", "run")))
		r.ok(err, "read requested cancels")
		return keysOf(runs)
	}
	m := r.load()
	chosen := func() []schedule.Key {
		return m.state.CancelsDue(r.now, 10, func(schedule.Key) time.Time { return time.Time{} })
	}
	equal(r, "cancels before any was asked for", due(), nil)
	equal(r, "cancels that the state chooses before any was asked for", chosen(), []schedule.Key{})
	for i, at := range []int{3, 1, 2} { // the fourth is not asked for
		r.askCancel(rows[i].Key, schedule.ReasonCancelled, r.at(time.Duration(at)*time.Second))
	}
	equal(r, "cancels", due(), []schedule.Key{rows[1].Key, rows[2].Key, rows[0].Key})
	m.read()
	equal(r, "cancels that the state chooses", chosen(), []schedule.Key{rows[2].Key, rows[1].Key, rows[0].Key})
	r.settle(schedule.Settlement{Key: rows[1].Key, To: schedule.StatusCancelled, Reason: schedule.ReasonCancelled})
	equal(r, "cancels once one has ended", due(), []schedule.Key{rows[2].Key, rows[0].Key})
	m.read()
	equal(r, "cancels that the state chooses once one has ended", chosen(), []schedule.Key{rows[2].Key, rows[0].Key})
}
