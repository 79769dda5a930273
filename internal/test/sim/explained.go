package sim

import (
	"context"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/registrar/explain"
)

// explained compares the explanation of every second of every schedule with the ledger
// and the requests of users.
func (w *world) explained() {
	asked := registrar.New(registrar.Options{Schedules: w.ledger, Runs: w.ledger, Grants: w.ledger, Now: time.Now, Logger: quiet})
	w.watch.mu.Lock()
	defer w.watch.mu.Unlock()
	w.verdicts = make(map[explain.Verdict]int)
	until := time.Now() // the future is not checked
	for _, id := range sorted(w.watch.lives) {
		f := w.watch.lives[id]
		for at := w.began.Truncate(time.Second).Add(-2 * time.Second); at.Before(until); at = at.Add(time.Second) {
			a, err := asked.Explain(context.Background(), id, at)
			if err != nil {
				w.violation("explain %s at %s: %v", id, w.at(at), err)
				return
			}
			w.verdicts[a.Verdict]++
			if len(a.Sentences()) == 0 {
				w.violation("the answer on %s at %s says nothing", id, w.at(at))
			}
			w.explainedAs(id, f, at, &a)
		}
	}
}

// explainedAs: the row, else the range, else the pause, else the rule.
func (w *world) explainedAs(id string, f *life, at time.Time, a *explain.Answer) {
	h := w.watch.rows[key(id, at)]
	p, g := f.partAt(at), f.gapAt(at)
	want, why := explain.VerdictNoSchedule, explain.WhyNotCreated
	switch {
	case h != nil && !h.gone:
		want, why = verdictOf(&h.row)
	case p != nil && p.rule.is(at):
		want, why = explain.VerdictNotFired, w.rangeReason(id, p, at)
	case p != nil:
		want, why = explain.VerdictNotASlot, a.Why
	case g != nil && g.deleted:
		want, why = explain.VerdictNoSchedule, explain.Why(schedule.ReasonDeleted)
	case g != nil && g.rule.is(at):
		want, why = explain.VerdictNotFired, explain.Why(schedule.ReasonPaused)
	case g != nil:
		want, why = explain.VerdictNotASlot, a.Why
	}
	if a.Verdict != want || a.Why != why {
		w.violation("%s at %s is explained as %s(%s), and was %s(%s): %s", id, w.at(at), a.Verdict, a.Why, want, why, a)
		return
	}
	if h != nil && !h.gone {
		w.explainedRun(h, a)
	} else if p != nil {
		w.explainedAround(p, at, a)
	}
}

func verdictOf(r *schedule.Run) (explain.Verdict, explain.Why) {
	return map[schedule.Status]explain.Verdict{
		"SUCCESS": explain.VerdictRan, "FAILED": explain.VerdictFailed, "SKIPPED": explain.VerdictSkipped, "CANCELLED": explain.VerdictCancelled,
		"PLANNED":  explain.VerdictWillFire, // after the end of the world
		"ENQUEUED": explain.VerdictInFlight, // in a queue that is paused for good
	}[r.Status], explain.Why(r.Reason)
}

// rangeReason is the reason in the schedule's log for a slot without a row.
func (w *world) rangeReason(id string, p *part, at time.Time) explain.Why {
	for _, e := range w.watch.ranges[id] {
		if e.Revision == p.revision && !at.Before(e.From) && !at.After(e.To) {
			return explain.Why(e.Reason)
		}
	}
	return "no range"
}

// explainedRun: the run that blocked another was in flight at the verdict.
func (w *world) explainedRun(h *history, a *explain.Answer) {
	if a.Run == nil || a.Run.Status != h.row.Status || a.Rule == nil || a.Rule.Revision != h.row.Revision {
		w.violation("%s run_at %s is explained by another run or revision than its own", h.row.ScheduleID, w.at(h.row.RunAt))
		return
	}
	if h.row.Reason != schedule.ReasonOverlap {
		return
	}
	if len(a.Blocking) == 0 {
		w.violation("%s run_at %s was skipped for an overlap, and no run is named", h.row.ScheduleID, w.at(h.row.RunAt))
	}
	for i := range a.Blocking {
		b := w.watch.rows[a.Blocking[i].Key]
		if b == nil || b.row.OverlapKey != h.row.OverlapKey || b.claimed == 0 || b.claimed > h.completed+schedule.BlockingSlack ||
			b.completed > 0 && b.completed < h.completed-schedule.BlockingSlack {
			w.violation("%s run_at %s is said to have been blocked by %s run_at %s, which was not in flight", h.row.ScheduleID, w.at(h.row.RunAt),
				a.Blocking[i].ScheduleID, w.at(a.Blocking[i].RunAt))
		}
	}
}

// explainedAround: the slots around an instant are those of the rule that was in force.
func (w *world) explainedAround(p *part, at time.Time, a *explain.Answer) {
	if next := p.rule.between(at, false, p.until); len(next) > 0 && (a.Next == nil || !a.Next.RunAt.Equal(next[0])) {
		w.violation("after %s comes %s, and not %+v", w.at(at), w.at(next[0]), a.Next)
	}
	before := p.rule.between(p.from, p.including, at.Add(-time.Second))
	if n := len(before); n > 0 && (a.Previous == nil || !a.Previous.RunAt.Equal(before[n-1])) {
		w.violation("before %s comes %s, and not %+v", w.at(at), w.at(before[n-1]), a.Previous)
	}
}

func (f *life) partAt(at time.Time) *part {
	i := slices.IndexFunc(f.parts, func(p part) bool {
		return (at.After(p.from) || p.including && at.Equal(p.from)) && (p.until.IsZero() || !at.After(p.until))
	})
	if i < 0 {
		return nil
	}
	return &f.parts[i]
}

func (f *life) gapAt(at time.Time) *gap {
	i := slices.IndexFunc(f.gaps, func(g gap) bool { return at.After(g.from) && (g.until.IsZero() || !at.After(g.until)) })
	if i < 0 {
		return nil
	}
	return &f.gaps[i]
}
