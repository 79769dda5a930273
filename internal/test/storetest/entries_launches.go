package storetest

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

func entryWithoutLaunches(r *rig) {
	q := r.slotsIn(schedule.OverlapSkip)
	plain := r.create("plain")
	waiting := r.add(r.slot(plain, r.now))[0]
	run := q.due("a")
	result := q.passes("a", limited(0))
	r.hold(result.More, "something is left for want of launches")
	q.isIn(run, schedule.QueueWaiting)
	r.hold(r.ledger(waiting.Key).Status == schedule.StatusPlanned, "the other one waits")
	q.later(time.Second)
	q.due("b") // its schedule is known now
	result = q.leader.pass(limited(1))
	r.hold(len(result.Launches) == 1 && result.Launches[0].Run.Key == waiting.Key && len(result.Skipped) == 1 && !result.More,
		"the one launch is for the other one, and the next slot overlaps: %+v", result)
}
