package storetest

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// coalesces are checks of policy coalesce, and of the order of a group in which schedules share their
// overlap key.
var coalesces = []check{
	{"policy coalesce lets the newest slot wait, since the first of those whose place it takes", coalesceNewest},
	{"a manual run under policy coalesce takes the place of slots", coalesceManual},
	{"since when a run waits under policy coalesce survives a change of the leader", coalesceTakeover},
	{"a free key goes to what is on time, then by priority, then by waiting_since", coalesceOrder},
	{"a run that waits under policy queue keeps its place among others of that policy", coalesceAmongQueues},
}

// waitsSince fails unless a run waits since then.
func (r *rig) waitsSince(run schedule.Run, then time.Time) {
	r.Helper()
	got := r.ledger(run.Key)
	r.hold(got.Status == schedule.StatusPlanned && got.WaitingSince.Equal(then), "run_at %s waits since %s, got %s since %s", run.RunAt, then, got.Status, got.WaitingSince)
}

func coalesceNewest(r *rig) {
	r.lead()
	s := r.create("coalesce", withPolicy(schedule.OverlapCoalesce))
	old := r.bring(r.due(s, 9), schedule.StatusStarted)
	runs := r.add(r.due(s, 3), r.due(s, 2))
	result := r.claim()
	r.stand(runs, "SKIPPED(coalesced)", "waiting")
	r.ended(result, runs[0].Key, schedule.StatusSkipped, schedule.ReasonCoalesced)
	since := r.now
	r.waitsSince(runs[1], since)

	r.now = r.at(5 * time.Second)
	runs = append(runs, r.add(r.due(s, 1))...)
	r.claim()
	r.stand(runs, "SKIPPED(coalesced)", "SKIPPED(coalesced)", "waiting")
	r.waitsSince(runs[2], since)

	r.now = r.at(5 * time.Second)
	runs = append(runs, r.add(r.due(s, 1))...)
	r.succeed(old)
	equal(r, "launched", launched(r.claim()), []schedule.Key{runs[3].Key})
	r.stand(runs, "SKIPPED(coalesced)", "SKIPPED(coalesced)", "SKIPPED(coalesced)", "LAUNCHING")
}

func coalesceManual(r *rig) {
	r.lead()
	s := r.create("coalesce", withPolicy(schedule.OverlapCoalesce))
	old := r.bring(r.due(s, 9), schedule.StatusStarted)
	slot := r.add(r.due(s, 3))
	r.claim()
	since := r.now
	r.now = r.at(time.Second)
	manual := r.add(r.manual(s, "by hand", r.now))
	r.claim()
	r.stand(slot, "SKIPPED(coalesced)")
	r.waitsSince(manual[0], since)
	r.now = r.at(time.Second)
	next := r.add(r.slot(s, r.now))
	r.claim()
	r.stand(next, "SKIPPED(coalesced)")
	r.succeed(old)
	equal(r, "launched", launched(r.claim()), keysOf(manual))
	r.now = r.at(time.Second)
	next = r.add(r.slot(s, r.now))
	r.claim()
	r.stand(next, "waiting")
}

func coalesceTakeover(r *rig) {
	r.lead()
	s := r.create("coalesce", withPolicy(schedule.OverlapCoalesce))
	old := r.bring(r.due(s, 9), schedule.StatusStarted)
	first := r.add(r.due(s, 3))
	r.claim()
	since := r.now
	r.now = r.at(time.Second)
	r.lead()
	second := r.add(r.slot(s, r.now))
	r.claim()
	r.stand(first, "SKIPPED(coalesced)")
	r.waitsSince(second[0], since)
	r.succeed(old)
	equal(r, "launched", launched(r.claim()), keysOf(second))
}

func coalesceOrder(r *rig) {
	r.lead()
	shared := func(priority int32) func(*schedule.Schedule) {
		return func(s *schedule.Schedule) {
			s.OverlapPolicy, s.OverlapKey, s.Priority = schedule.OverlapCoalesce, r.id("shared"), priority
		}
	}
	busy := r.create("busy", shared(0))
	late, first, second, high := r.create("late", shared(1)), r.create("first", shared(0)), r.create("second", shared(0)), r.create("high", shared(1))
	flying := r.bring(r.due(busy, 9), schedule.StatusStarted)
	catchup := r.add(r.slot(late, r.at(-8*time.Second), func(run *schedule.Run) { run.Trigger = schedule.TriggerCatchup }))[0]
	of := func(s schedule.Schedule) schedule.Run {
		r.now = r.at(time.Second)
		run := r.add(r.slot(s, r.now))[0]
		r.claim()
		return run
	}
	a, b, c := of(first), of(second), of(high)
	again := of(first) // keeps the turn of a
	r.stand([]schedule.Run{catchup, a, b, c, again}, "waiting", "SKIPPED(coalesced)", "waiting", "waiting", "waiting")
	for _, want := range []schedule.Run{c, again, b, catchup} {
		r.succeed(flying)
		equal(r, "launched", launched(r.claim()), []schedule.Key{want.Key})
		flying = want
	}
}

func coalesceAmongQueues(r *rig) {
	r.lead()
	shared := func(policy schedule.OverlapPolicy, priority int32) func(*schedule.Schedule) {
		return func(s *schedule.Schedule) {
			s.OverlapPolicy, s.OverlapKey, s.Priority = policy, r.id("shared"), priority
		}
	}
	low, high := r.create("low", shared(schedule.OverlapQueue, 0)), r.create("high", shared(schedule.OverlapQueue, 2))
	coalesce := r.create("coalesce", shared(schedule.OverlapCoalesce, 1))
	flying := r.bring(r.due(low, 9), schedule.StatusStarted)
	runs := r.add(r.due(low, 5), r.due(high, 4), r.due(coalesce, 3))
	r.claim()
	r.stand(runs, "waiting", "waiting", "waiting")
	// The queue goes by fire_at: low comes before high. It competes with low's priority first.
	for _, want := range []schedule.Run{runs[2], runs[0], runs[1]} {
		r.succeed(flying)
		equal(r, "launched", launched(r.claim()), []schedule.Key{want.Key})
		flying = want
	}
}
