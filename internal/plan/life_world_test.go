package plan_test

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
)

// world is one schedule with a minimal store and registrar: a ledger, an event log, and the
// changes as in docs/semantics.md.
type world struct {
	*rapid.T
	cfg       plan.Config
	now       time.Time
	s         schedule.Schedule
	revisions []lifeRevision // revision n is at n-1
	rows      map[schedule.Key]*schedule.Run
	between   map[schedule.Key]bool // planned on time while a range was open
	seen      map[schedule.Key]bool // by a claim, in time: cannot be missed
	events    []schedule.Event
	paused    []pauseSpan
}

// pauseSpan is a pause: slots in (from, until) do not exist, nor the one at until if the pause was
// resumed by a user.
type pauseSpan struct {
	from, until time.Time
	resumed     bool
}

func newWorld(t *rapid.T, cfg plan.Config, now time.Time) *world {
	w := &world{T: t, cfg: cfg, now: now, rows: make(map[schedule.Key]*schedule.Run), between: make(map[schedule.Key]bool), seen: make(map[schedule.Key]bool)}
	w.revisions = []lifeRevision{drawRevision(t, now)}
	w.s = schedule.Schedule{Definition: w.revisions[0].definition, Revision: 1, RevisedAt: now, CreatedAt: now}
	w.restart()
	return w
}

func (w *world) revision(n int64) *lifeRevision { return &w.revisions[n-1] }

// next is the first slot after an instant by the oracle; zero: none within two hours, longer than
// a simulation.
func (w *world) next(after time.Time) time.Time {
	r := w.revision(w.s.Revision)
	for at := after.Truncate(time.Second).Add(time.Second); at.Before(after.Add(2 * time.Hour)); at = at.Add(time.Second) {
		if r.rule.rings(at, &r.definition, w.s.CreatedAt) {
			return at
		}
	}
	return time.Time{}
}

func (w *world) restart() {
	w.s.NextRunAt, w.s.PlanAt = w.next(w.now), w.now
	if w.s.Pause.Paused {
		w.s.PlanAt = w.s.Pause.Until
	}
}

// endExpiredPause does what the registrar does before any change.
func (w *world) endExpiredPause() {
	if w.s.Pause.Paused && !w.s.Pause.Active(w.now) {
		w.s.NextRunAt = w.next(w.s.Pause.Until.Add(-time.Nanosecond))
		w.s.Pause = schedule.Pause{}
	}
}

// edit deletes future rows, moves due unplanned slots to the range of the old revision, and sets
// the cursor to the first slot after now.
func (w *world) edit(r lifeRevision) {
	w.endExpiredPause()
	if b := w.s.Backlog; b.Open() && b.Revision != w.s.Revision {
		w.close(b.From, b.Until, b.Revision)
		w.s.Backlog = schedule.Backlog{}
	}
	if from, until, ok := w.due(); ok {
		if !w.s.Backlog.Open() {
			w.s.Backlog = schedule.Backlog{From: from, Revision: w.s.Revision}
		}
		w.s.Backlog.Until = until
	}
	w.dropAhead()
	w.revisions = append(w.revisions, r)
	w.s.Definition, w.s.RevisedAt = r.definition, w.now
	w.s.Revision++
	w.restart()
}

// pause ends due rows, deletes future rows, and records and closes ranges.
func (w *world) pause(until time.Time) {
	w.endExpiredPause()
	if w.s.Pause.Paused {
		return
	}
	if b := w.s.Backlog; b.Open() {
		w.close(b.From, b.Until, b.Revision)
		w.s.Backlog = schedule.Backlog{}
	}
	if from, until, ok := w.due(); ok {
		w.close(from, until, w.s.Revision)
	}
	w.dropAhead()
	for _, row := range w.rows {
		if row.Status == schedule.StatusPlanned {
			row.Status, row.Reason = schedule.StatusSkipped, schedule.ReasonPaused
		}
	}
	w.s.Pause = schedule.Pause{Paused: true, Until: until}
	w.s.PlanAt = until
	w.paused = append(w.paused, pauseSpan{from: w.now, until: until})
}

func (w *world) resume() {
	if !w.s.Pause.Active(w.now) {
		return
	}
	last := &w.paused[len(w.paused)-1]
	last.until, last.resumed = w.now, true
	w.s.Pause = schedule.Pause{}
	w.restart()
}

func (w *world) due() (from, until time.Time, ok bool) {
	from = w.s.NextRunAt
	if w.s.Pause.Paused || from.IsZero() || from.After(w.now) {
		return from, until, false
	}
	return from, w.now.Truncate(time.Second).Add(time.Second), true
}

func (w *world) close(from, until time.Time, revision int64) {
	w.events = append(w.events, schedule.Event{
		Kind: schedule.EventBacklogClosed, Time: w.now, Revision: revision, From: from, To: until.Add(-time.Second),
		Count: int64(len(w.revision(revision).slots(from, until.Add(-time.Second), w.s.CreatedAt))),
	})
}

func (w *world) dropAhead() {
	for key, row := range w.rows {
		if row.Status == schedule.StatusPlanned && row.RunAt.After(w.now) {
			delete(w.rows, key)
			delete(w.seen, key)
		}
	}
}

// late lists the late rows as the store loads them, oldest first.
func (w *world) late() []schedule.Run {
	var out []schedule.Run
	for _, row := range w.rows {
		if w.missed(row) {
			out = append(out, *row)
		}
	}
	slices.SortFunc(out, func(a, b schedule.Run) int { return a.RunAt.Compare(b.RunAt) })
	return out
}

// claim takes up to free due rows; the rest count as seen in time.
func (w *world) claim(free int) {
	var due []*schedule.Run
	for _, row := range w.rows {
		if row.Status == schedule.StatusPlanned && !row.FireAt.After(w.now) && !w.missed(row) && !w.s.Pause.Active(w.now) {
			due = append(due, row)
		}
	}
	slices.SortFunc(due, func(a, b *schedule.Run) int { return a.RunAt.Compare(b.RunAt) })
	for i, row := range due {
		if i < free {
			row.Status, row.ClaimedAt = schedule.StatusSuccess, w.now
		} else {
			w.seen[row.Key] = true
		}
	}
}

// missed reports whether a row is later than the grace and no claim has seen it in time.
func (w *world) missed(row *schedule.Run) bool {
	return row.Status == schedule.StatusPlanned && row.Trigger == schedule.TriggerSchedule && row.WaitingSince.IsZero() &&
		!w.seen[row.Key] && row.Late(w.now) > w.cfg.Grace
}

// plan decides if the planner has work, checks the decision and writes it.
func (w *world) plan() {
	late := w.late()
	if w.s.Pause.Active(w.now) {
		return
	}
	if len(late) == 0 && (w.s.PlanAt.IsZero() || w.s.PlanAt.After(w.now)) {
		w.checkOnTimeSlotsAreThere() // otherwise NextPlanAt was wrong
		return
	}
	c := &schedule.PlanCandidate{Schedule: w.s, Late: late}
	if b := w.s.Backlog; b.Open() && b.Revision != w.s.Revision {
		c.BacklogDefinition = &w.revision(b.Revision).definition
	}
	d, err := plan.Decide(c, w.now, w.cfg)
	if err != nil {
		w.Fatalf("decide at %s: %v", clockText(w.now), err)
	}
	w.checkDecision(c, &d)
	w.write(&d)
	w.checkOnTimeSlotsAreThere()
}

func (w *world) write(d *schedule.PlanDecision) {
	for i := range d.Rows {
		row := &d.Rows[i]
		if _, there := w.rows[row.Key]; there {
			continue
		}
		w.rows[row.Key] = row
		w.between[row.Key] = row.Trigger == schedule.TriggerSchedule && (w.s.Backlog.Open() || d.Backlog.Open())
	}
	for _, j := range d.LateVerdicts {
		row := w.rows[j.Key]
		if j.Fire {
			row.FireAt, row.Trigger = j.FireAt, j.Trigger
		} else {
			row.Status, row.Reason = schedule.StatusSkipped, j.Reason
		}
	}
	w.s.NextRunAt, w.s.PlanAt, w.s.Backlog = d.NextRunAt, d.PlanAt, d.Backlog
	if d.EndPause {
		w.s.Pause = schedule.Pause{}
	}
	w.events = append(w.events, d.Events...)
}
