package storetest

import (
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// loads are the clauses on what a leader reads when it takes over, and when its window
// moves.
var loads = []check{
	{"all in flight, all that waits, and what is planned in the window are loaded", loadAll},
	{"the window's next part is what is planned in it and does not wait", loadPart},
	{"schedules that are paused or deleted come along, if they have a run", loadStopped},
	{"a shard loads its own runs", loadShard},
	{"an empty ledger has a position", loadNothing},
}

// mixedLedger has runs of every kind; want are those that a takeover loads with a
// window of ten seconds, part those that fire after five.
func (r *rig) mixedLedger() (want, part []schedule.Run) {
	r.Helper()
	s := r.create("s", withPolicy(schedule.OverlapQueue), func(s *schedule.Schedule) { s.Priority, s.MaxQueued = 7, 9 })
	many := r.create("many")
	for i, status := range schedule.Statuses[1:] {
		run := r.bring(r.manual(many, string(status), r.at(-time.Duration(i)*time.Second)), status)
		if status.InFlight() {
			want = append(want, r.askCancel(run.Key, schedule.ReasonCancelled, r.now))
		}
	}
	waits := r.slot(s, r.at(-time.Hour), func(run *schedule.Run) { run.WaitingSince = r.now })
	later := r.slot(s, r.at(time.Hour), func(run *schedule.Run) { run.WaitingSince = r.now })
	edge := r.slot(s, r.at(10*time.Second))
	fifth := r.slot(s, r.at(5*time.Second))
	early := r.slot(s, r.at(2*time.Hour), func(run *schedule.Run) { run.FireAt = r.at(6 * time.Second) })
	beyond := r.slot(s, r.at(10*time.Second+time.Microsecond))
	overdue := r.slot(s, r.at(-2*time.Hour))
	r.add(waits, later, edge, fifth, early, beyond, overdue)
	return append(want, waits, later, edge, fifth, early, overdue), []schedule.Run{edge, early}
}

func sorted(runs []ledger.Run) []ledger.Run {
	runs = slices.Clone(runs)
	slices.SortFunc(runs, func(a, b ledger.Run) int { return compareKeys(a.Key, b.Key) })
	return runs
}

func (r *rig) ledgerRuns(runs []schedule.Run) []ledger.Run {
	r.Helper()
	out := make([]ledger.Run, len(runs))
	for i := range runs {
		run := r.ledger(runs[i].Key)
		out[i] = ledger.RunOf(&run)
	}
	return sorted(out)
}

func loadAll(r *rig) {
	r.lead()
	want, _ := r.mixedLedger()
	open, err := r.LoadOpen(r.ctx, r.term, time.Time{}, r.at(10*time.Second))
	r.ok(err, "load")
	equal(r, "open runs", sorted(open.Runs), r.ledgerRuns(want))
	r.hold(len(open.Stopped) == 0, "nothing is stopped, got %+v", open.Stopped)
	r.hold(open.Position != "", "there is a position")
}

func loadPart(r *rig) {
	r.lead()
	_, part := r.mixedLedger()
	open, err := r.LoadOpen(r.ctx, r.term, r.at(5*time.Second), r.at(10*time.Second))
	r.ok(err, "load")
	equal(r, "open runs", sorted(open.Runs), r.ledgerRuns(part))
}

func loadStopped(r *rig) {
	r.lead()
	var want []ledger.ScheduleNow
	for _, name := range []string{"deleted", "paused", "paused-without-runs", "alive"} {
		s := r.create(name)
		if name != "paused-without-runs" {
			r.add(r.slot(s, r.now), r.slot(s, r.at(time.Second)))
		}
		switch name {
		case "deleted":
			r.rewrite(s, func(s *schedule.Schedule) { s.DeletedAt = r.now })
			want = append(want, ledger.ScheduleNow{ScheduleID: s.ScheduleID, Deleted: true})
		case "paused":
			s = r.rewrite(s, func(s *schedule.Schedule) { s.Pause = schedule.Pause{Paused: true, Until: r.at(time.Hour)} })
			want = append(want, ledger.ScheduleNow{ScheduleID: s.ScheduleID, Pause: s.Pause})
		case "paused-without-runs":
			r.rewrite(s, func(s *schedule.Schedule) { s.Pause.Paused = true })
		}
	}
	for _, from := range []time.Time{{}, r.at(-time.Hour)} {
		open, err := r.LoadOpen(r.ctx, r.term, from, r.at(10*time.Second))
		r.ok(err, "load")
		r.hold(len(open.Stopped) == len(want), "two are stopped, got %+v", open.Stopped)
		for _, now := range want {
			i := slices.IndexFunc(open.Stopped, func(s ledger.ScheduleNow) bool { return s.ScheduleID == now.ScheduleID })
			r.hold(i >= 0, "%s is stopped", now.ScheduleID)
			got := open.Stopped[i]
			r.hold(got.Deleted == now.Deleted && got.Pause.Paused == now.Pause.Paused && got.Pause.Until.Equal(now.Pause.Until), "want %+v, got %+v", now, got)
		}
	}
}

func loadShard(r *rig) {
	terms := r.split(3)
	var want []schedule.Run
	for i, term := range terms {
		s := r.createIn(term, "s", withPolicy(schedule.OverlapQueue))
		runs := r.add(r.slot(s, r.at(time.Second)), r.slot(s, r.at(-time.Second), func(run *schedule.Run) { run.WaitingSince = r.now }))
		r.asTerm(term, func() {
			runs = append(runs, r.bring(r.manual(r.createIn(term, "other"), "m", r.now), schedule.StatusStarted))
		})
		if i == 1 {
			want = runs
		}
	}
	open, err := r.LoadOpen(r.ctx, terms[1], time.Time{}, r.at(10*time.Second))
	r.ok(err, "load")
	equal(r, "open runs of a shard", sorted(open.Runs), r.ledgerRuns(want))
}

func loadNothing(r *rig) {
	r.lead()
	m := r.load()
	r.hold(m.position != "" && r.seenUntil().IsZero(), "there is a position, and nothing was seen, got %q, %s", m.position, r.seenUntil())
	r.add(r.manual(r.create("s"), "m", r.now))
	equal(r, "launched from it", len(m.pass().Launches), 1)
}
