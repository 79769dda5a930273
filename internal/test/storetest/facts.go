package storetest

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// runFacts are what a row says of who asked for its run, and how its queue chose it.
var runFacts = []check{
	{"an admission notes whether a run goes in order or because of its age", admittedAs},
	{"so does a fetch of a worker", fetchedAs},
	{"a run that goes back is noted as its next admission chooses it", admittedAgain},
	{"who asked for a job is known of its attempts and in history", requestedJob},
	{"of many runs those are named that are not over", openAmong},
	{"who asked for a run of a schedule stays when it enters a queue", requestedSlot},
}

func aging(q *schedule.Queue) { q.PromoteAfterMS = 60_000 }

// olds puts an old run and newer ones of a higher priority into a queue, and returns the old one.
func (j *jobs) olds(newer ...string) schedule.Run {
	j.Helper()
	old := j.job("old", -5)
	j.enqueue(0, old)
	j.now = j.at(time.Minute)
	for _, name := range newer {
		j.enqueue(0, j.job(name, 5))
	}
	return old
}

func admittedAs(r *rig) {
	j := r.jobs("q", maxInFlight(100), aging)
	old := j.olds("new", "last")
	admitted := j.admits(2, "old new")
	for i, as := range []schedule.Admittance{schedule.AdmittedAged, schedule.AdmittedInOrder} {
		j.hold(admitted[i].Queue.AdmittedAs == as, "the launcher hears it, got %q", admitted[i].Queue.AdmittedAs)
		j.everyView(admitted[i].Key, func(view string, run schedule.Run) { equal(r, view+": admitted as", run.Queue.AdmittedAs, as) })
	}
	j.hold(j.listed()[0].Queue.AdmittedAs == "", "a run that waits was not admitted")
	j.accept(old)
	ended := j.end(old, schedule.StatusFailed)
	j.everyView(old.Key, func(view string, run schedule.Run) {
		equal(r, view+": in history", run.Queue.AdmittedAs, schedule.AdmittedAged)
	})
	next := r.ledger(r.next(ended).Key)
	equal(r, "the attempt after it", next.Queue.AdmittedAs, schedule.Admittance(""))
}

func fetchedAs(r *rig) {
	j := r.jobs("q", maxInFlight(100), pulled, aging)
	old := j.olds("new", "last")
	got := j.fetches(fetch("w", 2), "old new")
	equal(r, "the worker's first run", r.ledger(old.Key).Queue.AdmittedAs, schedule.AdmittedAged)
	equal(r, "its second run", r.ledger(got[1].Key).Queue.AdmittedAs, schedule.AdmittedInOrder)
}

func admittedAgain(r *rig) {
	j := r.jobs("q", maxInFlight(100), aging)
	old := j.olds("new")
	j.admits(1, "old")
	j.unsent(old)
	j.hold(j.putsBack(old), "it waits again")
	j.now = j.at(-time.Second) // a launcher with another clock
	j.admits(2, "new old")
	equal(r, "as it was admitted last", r.ledger(old.Key).Queue.AdmittedAs, schedule.AdmittedInOrder)
}

func requestedJob(r *rig) {
	j := r.jobs("q")
	run := j.job("a", 0, func(run *schedule.Run) { run.RequestedBy = "ada" })
	j.enqueue(0, run, j.job("nobody", 0))
	j.admits(5, "a nobody")
	failed := j.end(run, schedule.StatusFailed)
	j.everyView(run.Key, func(view string, run schedule.Run) { equal(r, view+": in history", run.RequestedBy, "ada") })
	retry := r.next(failed)
	j.everyView(retry.Key, func(view string, run schedule.Run) { equal(r, view+": its retry", run.RequestedBy, "ada") })
	equal(r, "of a run without", r.ledger(j.keyNamed("nobody")).RequestedBy, "")
}

func requestedSlot(r *rig) {
	q := r.slotsIn(schedule.OverlapAllow)
	run := q.due("a", func(run *schedule.Run) { run.RequestedBy = "ada" })
	equal(r, "before it enters", r.ledger(run.Key).RequestedBy, "ada")
	entered := q.passes("a").Entered[0]
	equal(r, "what has entered", entered.RequestedBy, "ada")
	equal(r, "in its queue", r.ledger(run.Key).RequestedBy, "ada")
	equal(r, "what its launcher gets", q.admits(1, "a")[0].RequestedBy, "ada")
}

func openAmong(r *rig) {
	j := r.jobs("q")
	runs := j.put("waits", "runs", "over")
	j.admits(2, "waits runs")
	j.accept(runs[0])
	j.accept(runs[1])
	j.end(runs[1], schedule.StatusSuccess)
	keys := []schedule.Key{runs[0].Key, runs[1].Key, runs[2].Key, {1}}
	open, err := j.OpenAmong(j.ctx, keys)
	j.ok(err, "look for open runs")
	equal(r, "open runs", open, map[schedule.Key]bool{runs[0].Key: true, runs[2].Key: true})
	open, err = j.OpenAmong(j.ctx, nil)
	j.ok(err, "look for none")
	equal(r, "of none", len(open), 0)
}
