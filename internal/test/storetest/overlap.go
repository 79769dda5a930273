package storetest

import (
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var overlaps = []check{
	{"policy allow fires whatever is in flight, and is not judged", overlapAllow},
	{"policy skip skips while a run is in flight, and only then", overlapSkip},
	{"policy queue fires in order, as soon as the run before has ended", overlapQueue},
	{"policy queue skips what is more than max_queued", overlapQueueFull},
	{"policy replace cancels, waits, and fires the newest", overlapReplace},
	{"the whole group is judged, even where Limit leaves no capacity for all of it", overlapGroupBeyondLimit},
	{"every status in flight blocks, whatever the trigger and policy", overlapSeesEveryRunInFlight},
	{"rows that wait come along when their key is free, and only then", overlapWaitingComesAlong},
	{"schedules that share an overlap key are one group", overlapSharedKey},
	{"owners with the same overlap key do not see each other", overlapOwnersApart},
	{"a run that ended between two claims frees its key", overlapFreed},
	{"waiting goes on from when it began", overlapKeepsWaitingSince},
	{"a cancel that was asked for is not asked for otherwise", overlapKeepsFirstCancel},
	{"random histories end as the policies say", overlapHistories},
}

// due is a slot of s that has been due for so many seconds.
func (r *rig) due(s schedule.Schedule, seconds int) schedule.Run {
	return r.slot(s, r.at(-time.Duration(seconds)*time.Second))
}

// status is a short view of a run in the ledger.
func (r *rig) status(run schedule.Run) string {
	r.Helper()
	got := r.ledger(run.Key)
	switch {
	case got.Reason != schedule.ReasonNone:
		return fmt.Sprintf("%s(%s)", got.Status, got.Reason)
	case !got.WaitingSince.IsZero():
		return "waiting"
	}
	return string(got.Status)
}

// stand fails unless the runs stand as want says, in order.
func (r *rig) stand(runs []schedule.Run, want ...string) {
	r.Helper()
	got := make([]string, len(runs))
	for i, run := range runs {
		got[i] = r.status(run)
	}
	equal(r, "where the runs stand", got, want)
}

// succeed ends a run that is in flight.
func (r *rig) succeed(run schedule.Run) {
	r.Helper()
	r.hold(r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusSuccess})[0], "the run succeeds")
}

func overlapAllow(r *rig) {
	r.lead()
	s := r.create("allow")
	runs := r.add(r.due(s, 3), r.due(s, 2), r.due(s, 1))
	r.claim()
	r.stand(runs, "LAUNCHING", "LAUNCHING", "LAUNCHING")
}

func overlapSkip(r *rig) {
	r.lead()
	s := r.create("skip", withPolicy(schedule.OverlapSkip))
	runs := r.add(r.due(s, 3), r.due(s, 2))
	result := r.claim()
	r.stand(runs, "LAUNCHING", "SKIPPED(overlap)")
	r.ended(result, runs[1].Key, schedule.StatusSkipped, schedule.ReasonOverlap)
	for _, status := range []schedule.Status{schedule.StatusEnqueued, schedule.StatusStarted} {
		r.settle(schedule.Settlement{Key: runs[0].Key, To: status})
		next := r.add(r.slot(s, r.now))
		r.claim()
		r.stand(next, "SKIPPED(overlap)")
		r.now = r.at(time.Second)
	}
	r.succeed(runs[0])
	next := r.add(r.slot(s, r.now))
	r.claim()
	r.stand(next, "LAUNCHING")
}

func overlapQueue(r *rig) {
	r.lead()
	s := r.create("queue", withPolicy(schedule.OverlapQueue))
	runs := r.add(r.due(s, 3), r.due(s, 2), r.due(s, 1))
	result := r.claim()
	r.hold(result.Waiting == 2, "two began to wait, got %d", result.Waiting)
	r.stand(runs, "LAUNCHING", "waiting", "waiting")
	r.hold(r.ledger(runs[1].Key).WaitingSince.Equal(r.now), "it waits since now")
	equal(r, "launched while one is in flight", launched(r.claim()), nil)
	for i := range runs[1:] {
		r.succeed(runs[i])
		equal(r, "launched once it has ended", launched(r.claim()), []schedule.Key{runs[i+1].Key})
	}
	r.stand(runs, "SUCCESS", "SUCCESS", "LAUNCHING")
}

func overlapQueueFull(r *rig) {
	r.lead()
	s := r.create("queue", withPolicy(schedule.OverlapQueue), func(s *schedule.Schedule) { s.MaxQueued = 2 })
	runs := r.add(r.due(s, 4), r.due(s, 3), r.due(s, 2), r.due(s, 1))
	r.claim()
	r.stand(runs, "LAUNCHING", "waiting", "waiting", "SKIPPED(queue_full)")
}

func overlapReplace(r *rig) {
	r.lead()
	s := r.create("replace", withPolicy(schedule.OverlapReplace))
	old := r.bring(r.due(s, 9), schedule.StatusStarted)
	runs := r.add(r.due(s, 3), r.due(s, 2))
	result := r.claim()
	r.stand(runs, "SKIPPED(coalesced)", "waiting")
	equal(r, "cancels that were asked for", keysOf(result.Cancels), []schedule.Key{old.Key})
	got := r.ledger(old.Key)
	r.hold(got.CancelRequestedAt.Equal(r.now) && got.CancelReason == schedule.ReasonReplaced && got.Status == schedule.StatusStarted,
		"the old run's cancel is asked for, got %+v", got)

	newest := r.add(r.due(s, 1))
	r.claim()
	r.stand(runs, "SKIPPED(coalesced)", "SKIPPED(coalesced)")
	r.stand(newest, "waiting")
	r.settle(schedule.Settlement{Key: old.Key, To: schedule.StatusCancelled, Reason: schedule.ReasonReplaced})
	equal(r, "launched", launched(r.claim()), keysOf(newest))
}

func overlapSeesEveryRunInFlight(r *rig) {
	r.lead()
	s := r.create("seen")
	var want []schedule.Key
	for i, status := range schedule.InFlight {
		run := r.manual(s, fmt.Sprint(i), r.at(-time.Minute), func(run *schedule.Run) { run.Trigger = schedule.Triggers[2+i] })
		want = append(want, r.bring(run, status).Key)
	}
	for i, status := range []schedule.Status{schedule.StatusSuccess, schedule.StatusFailed, schedule.StatusSkipped, schedule.StatusCancelled} {
		r.bring(r.due(s, 20+i), status)
	}
	exclusive := r.due(s, 1)
	exclusive.OverlapPolicy, exclusive.Exclusive = schedule.OverlapSkip, true
	r.add(exclusive)
	for _, key := range want {
		r.claim()
		r.stand([]schedule.Run{exclusive}, "SKIPPED(overlap)")
		r.settle(schedule.Settlement{Key: key, To: schedule.StatusSuccess})
		exclusive = r.due(s, 0)
		exclusive.Key = schedule.ManualKey(s.ScheduleID, key.String())
		exclusive.OverlapPolicy, exclusive.Exclusive = schedule.OverlapSkip, true
		r.add(exclusive)
	}
	equal(r, "launched with nothing in flight", launched(r.claim()), []schedule.Key{exclusive.Key})
}

func overlapWaitingComesAlong(r *rig) {
	r.lead()
	free := r.create("free", withPolicy(schedule.OverlapQueue))
	busy := r.create("busy", withPolicy(schedule.OverlapQueue))
	wait := func(s schedule.Schedule) schedule.Run {
		run := r.due(s, 5)
		run.WaitingSince = r.at(-time.Second)
		return run
	}
	r.bring(r.due(busy, 9), schedule.StatusStarted)
	waits, blocked := wait(free), wait(busy)
	r.add(waits, blocked)
	result := r.claim()
	equal(r, "launched", launched(result), []schedule.Key{waits.Key})
	r.stand([]schedule.Run{waits, blocked}, "LAUNCHING", "waiting")
	r.hold(r.ledger(waits.Key).WaitingSince.IsZero(), "what was launched waits no more")
}
