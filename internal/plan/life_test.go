package plan_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
)

// TestNoSlotIsLostOrDoubled simulates a schedule with outages, edits, pauses and claims at
// irregular times. Then every second at which the rules in force had a slot must have exactly one
// row or lie in exactly one recorded range.
func TestNoSlotIsLostOrDoubled(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := plan.Config{Lookahead: 10 * time.Second, Grace: 15 * time.Second, Tick: time.Second}
		cfg.MaxCatchup = rapid.IntRange(1, 20).Draw(t, "max catch-up")
		w := newWorld(t, cfg, clock("12:00:00").Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "created"))*time.Millisecond))
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			w.step()
		}
		end := w.now
		w.resume()
		w.drain()
		w.checkLife(end)
	})
}

func (w *world) step() {
	pass := rapid.SampledFrom([]string{"tick", "tick", "tick", "while", "outage", "long outage"}).Draw(w.T, "time")
	seconds := map[string]int{"tick": 1, "while": 20, "outage": 100, "long outage": 600}[pass]
	w.now = w.now.Add(time.Duration(rapid.IntRange(seconds*500, seconds*1500).Draw(w.T, "ms")) * time.Millisecond)
	switch rapid.SampledFrom([]string{"plan", "plan", "plan", "plan", "claim", "edit", "pause", "resume"}).Draw(w.T, "event") {
	case "plan":
		w.plan()
		w.claim(rapid.SampledFrom([]int{0, 1, 1000}).Draw(w.T, "free launches"))
	case "claim":
		w.claim(1000)
	case "edit":
		w.edit(drawRevision(w.T, w.now))
	case "pause":
		var until time.Time
		if rapid.Bool().Draw(w.T, "ends") {
			until = w.now.Add(time.Duration(rapid.IntRange(1, 200_000).Draw(w.T, "until")) * time.Millisecond)
			if rapid.Bool().Draw(w.T, "on the second") {
				until = schedule.CeilSecond(until)
			}
		}
		w.pause(until)
	case "resume":
		w.resume()
	}
}

// drain plans until the backlog is empty; three hours are always enough.
func (w *world) drain() {
	for range 2200 {
		w.now = w.now.Add(5 * time.Second)
		w.plan()
		w.claim(1000)
		if w.s.Pause.Active(w.now) || w.s.Backlog.Open() {
			continue
		}
		if w.s.NextRunAt.IsZero() || w.s.NextRunAt.After(w.now) {
			return
		}
	}
	w.Fatalf("at %s the backlog is still open: %+v", clockText(w.now), w.s.Backlog)
}

// checkDecision checks one decision on its own.
func (w *world) checkDecision(c *schedule.PlanCandidate, d *schedule.PlanDecision) {
	caughtUp := 0
	for i := range d.Rows {
		row := &d.Rows[i]
		r := w.revision(row.Revision)
		if !row.RunAt.After(r.made) || !r.rule.rings(row.RunAt, &r.definition, w.s.CreatedAt) {
			w.Fatalf("%s at %s is no slot of revision %d", rowText(row, 0), clockText(w.now), row.Revision)
		}
		switch due := latestOf(row.FireAt, row.RunAt); {
		case row.Trigger == schedule.TriggerCatchup:
			if r.definition.CatchupPolicy != schedule.CatchupLatest {
				caughtUp++
			}
			if row.FireAt.Before(w.now.Truncate(time.Millisecond)) || w.now.Sub(due) > 0 {
				w.Fatalf("%s is caught up in the past, at %s", rowText(row, 0), clockText(w.now))
			}
		case w.now.Sub(due) > w.cfg.Grace:
			w.Fatalf("%s is planned as on time at %s", rowText(row, 0), clockText(w.now))
		case row.RunAt.After(w.now.Add(w.cfg.Lookahead + r.definition.Jitter())):
			w.Fatalf("%s is planned too early, at %s", rowText(row, 0), clockText(w.now))
		case row.Revision == w.s.Revision && !row.FireAt.Equal(r.fireAt(row.RunAt, w.s.CreatedAt)):
			w.Fatalf("%s should fire at %s", rowText(row, 0), clockText(r.fireAt(row.RunAt, w.s.CreatedAt)))
		}
	}
	if caughtUp > w.cfg.MaxCatchup {
		w.Fatalf("%d slots are caught up at once", caughtUp)
	}
	judged := make(map[schedule.Key]int)
	for _, j := range d.LateVerdicts {
		judged[j.Key]++
	}
	for i := range c.Late {
		if judged[c.Late[i].Key] != 1 || len(judged) != len(c.Late) {
			w.Fatalf("late row %s is judged %d times", clockText(c.Late[i].RunAt), judged[c.Late[i].Key])
		}
	}
	for _, e := range d.Events {
		w.checkEvent(e)
	}
}

// checkEvent checks the count and the reason of a range.
func (w *world) checkEvent(e schedule.Event) {
	if !slices.Contains([]schedule.EventKind{schedule.EventMissed, schedule.EventCoalesced, schedule.EventBacklogClosed}, e.Kind) {
		return
	}
	r := w.revision(e.Revision)
	slots := r.slots(e.From, e.To, w.s.CreatedAt)
	if int64(len(slots)) != e.Count || !slots[0].Equal(e.From) || !slots[len(slots)-1].Equal(e.To) {
		w.Fatalf("%s, but it holds %d", eventText(e, 0), len(slots))
	}
	oldest := w.now.Add(-r.definition.CatchupWindow())
	right := e.Reason == schedule.ReasonMissed
	switch {
	case e.Kind == schedule.EventCoalesced:
		right = r.definition.CatchupPolicy == schedule.CatchupLatest && e.Reason == schedule.ReasonCoalesced
	case e.Kind == schedule.EventMissed && r.definition.CatchupPolicy != schedule.CatchupNone:
		right = right && e.To.Before(oldest)
	}
	if !right {
		w.Fatalf("%s at %s under %s", eventText(e, 0), clockText(w.now), r.definition.CatchupPolicy)
	}
}

// checkOnTimeSlotsAreThere: an on-time slot within the horizon has its row despite a backlog, and
// the cursor is right behind it.
func (w *world) checkOnTimeSlotsAreThere() {
	r := w.revision(w.s.Revision)
	horizon := w.now.Add(w.cfg.Lookahead + r.definition.Jitter())
	for _, at := range r.slots(w.now.Add(-w.cfg.Grace-r.definition.Jitter()), horizon, w.s.CreatedAt) {
		if !w.expected(at, w.s.Revision) || w.now.Sub(latestOf(at, r.fireAt(at, w.s.CreatedAt))) > w.cfg.Grace {
			continue
		}
		if w.rows[schedule.SlotKey("s", at)] == nil && w.ranges(at, w.s.Revision) == 0 { // a pause may have recorded it
			w.Fatalf("at %s the slot %s, on time, has no row", clockText(w.now), clockText(at))
		}
	}
	if want := w.next(latestOf(horizon, w.revisions[0].made)); !w.s.NextRunAt.Equal(want) {
		w.Fatalf("at %s the cursor is %s, want %s", clockText(w.now), clockText(w.s.NextRunAt), clockText(want))
	}
}

// expected reports whether a second of the rule is a slot: the revision was in force and no pause
// was active.
func (w *world) expected(at time.Time, revision int64) bool {
	if !at.After(w.revision(revision).made) || int(revision) < len(w.revisions) && at.After(w.revision(revision+1).made) {
		return false
	}
	return !slices.ContainsFunc(w.paused, func(p pauseSpan) bool {
		return at.After(p.from) && (p.until.IsZero() || at.Before(p.until) || p.resumed && at.Equal(p.until))
	})
}

func (w *world) checkLife(end time.Time) {
	for _, row := range w.rows {
		if row.Status == schedule.StatusPlanned && !row.FireAt.After(w.now) {
			w.Fatalf("%s has never ended", rowText(row, 0))
		}
	}
	for n := range w.revisions {
		revision := int64(n + 1)
		for _, at := range w.revision(revision).slots(w.s.CreatedAt, end, w.s.CreatedAt) {
			if w.expected(at, revision) {
				w.checkSlot(at, revision)
			}
		}
	}
}

// checkSlot: exactly one row, or exactly one recorded range. The planner does not know rows, so in
// two cases a row may lie inside a range: one planned on time between two outages with joined
// ranges, and one that jitter brought forward before an edit or pause that came before its run_at.
func (w *world) checkSlot(at time.Time, revision int64) {
	key, ranges := schedule.SlotKey("s", at), w.ranges(at, revision)
	row := w.rows[key]
	switch {
	case row == nil && ranges != 1:
		w.Fatalf("slot %s of revision %d has no row and lies in %d ranges", clockText(at), revision, ranges)
	case row != nil && ranges != 0 && (ranges > 1 || !w.between[key] && !row.ClaimedAt.Before(at)):
		w.Fatalf("slot %s of revision %d has a row (%s %s) and lies in %d ranges", clockText(at), revision, row.Status, row.Reason, ranges)
	}
}

func (w *world) ranges(at time.Time, revision int64) int {
	n := 0
	for _, e := range w.events {
		if e.Count > 0 && e.Revision == revision && !at.Before(e.From) && !at.After(e.To) {
			n++
		}
	}
	return n
}

func latestOf(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
