package sim

import (
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// life is the history of a schedule by its users' requests: which rule was in force when.
type life struct {
	row     schedule.Schedule // as it is now
	created time.Duration     // when that was committed: the last time, if it was deleted before
	parts   []part
	gaps    []gap
	until   time.Time     // a pause ends by itself then; zero: it does not
	paused  bool          // once at least
	deleted bool          // likewise
	stopped bool          // paused or deleted
	quiet   time.Duration // since when that was acknowledged; 0 = not

	queueOf   map[int64]string   // the queue of each revision
	limitsOf  map[int64][]string // its own limits
	expiresOf map[int64]uint32
	groupOf   map[int64]string // the group that its runs join
	webhookOf map[int64]string
}

// part is a time with one rule in force: slots in (from, until].
type part struct {
	rule        rule
	revision    int64
	from, until time.Time // until zero: it still runs
	including   bool      // a slot at from is one
}

// gap is a time in which a schedule was paused or deleted: instants in
// (from, until].
type gap struct {
	rule        rule
	deleted     bool
	from, until time.Time // until zero: it lasts
}

// schedule checks every write of a schedule's row. Users' changes must match a request;
// the planner may only end a pause.
func (l *ledgerWatch) schedule(term *schedule.Term, before, after *schedule.Schedule) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fence(term, "a schedule")
	f := l.lives[after.ScheduleID]
	if f == nil {
		f = &life{queueOf: make(map[int64]string), limitsOf: make(map[int64][]string), expiresOf: make(map[int64]uint32), webhookOf: make(map[int64]string), groupOf: make(map[int64]string)}
		l.lives[after.ScheduleID] = f
	}
	f.row = *after
	f.expiresOf[after.Revision], f.groupOf[after.Revision] = after.ExpiresMS, after.Group
	f.queueOf[after.Revision], f.limitsOf[after.Revision], f.webhookOf[after.Revision] = after.QueueID, after.Limits, after.Webhook
	if before == nil || !before.Alive() && after.Alive() {
		f.created = l.elapsed()
	}
	l.rules[revisionID{after.ScheduleID, after.Revision}] = ruleOf(after)
	l.named[revisionID{after.ScheduleID, after.Revision}] = after.ExecutionGrantID
	if before != nil && before.Revision == after.Revision && before.Pause == after.Pause && before.DeletedAt.Equal(after.DeletedAt) && before.Equal(&after.Definition) {
		l.cursor(before, after)
		return
	}
	if term != nil {
		if after.Pause.Paused || before.Revision != after.Revision || before.Pause.Until.IsZero() || before.Pause.Until.After(time.Now()) {
			l.violation("the planner changed %s, which is its user's", after.ScheduleID)
		}
		f.wake(before, time.Now())
		return
	}
	l.wished(before, after)
	f.changed(before, after)
	l.pausedRetries(after)
}

// cursor: without an edit, a plan only moves the cursor forward.
func (l *ledgerWatch) cursor(before, after *schedule.Schedule) {
	if after.UpdatedAt.Equal(before.UpdatedAt) && !after.NextRunAt.IsZero() && after.NextRunAt.Before(before.NextRunAt) {
		l.violation("the cursor of %s went back from %s to %s", after.ScheduleID, l.at(before.NextRunAt), l.at(after.NextRunAt))
	}
}

// wished compares a change with the user's pending request.
func (l *ledgerWatch) wished(before, after *schedule.Schedule) {
	a := l.asked
	if a == nil || a.id != after.ScheduleID {
		l.violation("%s changed and nobody asked", after.ScheduleID)
		return
	}
	// A pause whose time has come counts as ended, by the clock of the API.
	stood := before != nil && before.Alive() && before.Pause.Active(after.UpdatedAt)
	so := after.Alive()
	switch a.verb {
	case "upsert":
		so = so && after.Pause.Paused == stood && after.IntervalMS == a.definition.IntervalMS && after.CronExpr == a.definition.CronExpr &&
			after.JitterMS == a.definition.JitterMS && after.OverlapPolicy == a.definition.OverlapPolicy && after.EndAt.Equal(a.definition.EndAt) && after.Retry == a.definition.Retry && after.QueueID == a.definition.QueueID &&
			after.Consume.MaxEvents == a.definition.Consume.MaxEvents && slices.Equal(after.Consume.Topics, a.definition.Consume.Topics)
	case "pause":
		so = so && after.Pause.Paused && after.Pause.Until.Equal(a.until)
	case "resume":
		so = so && !after.Pause.Paused
	case "delete":
		so = !after.Alive()
	}
	if skew := time.Since(after.UpdatedAt); skew < 0 || skew > l.profile.maxSkew+time.Millisecond {
		so = false
	}
	if !so {
		l.violation("a user's %s of %s made something else of it: %+v", a.verb, a.id, after)
	}
}

// changed updates the parts after a user's change.
func (f *life) changed(before, after *schedule.Schedule) {
	now := after.UpdatedAt
	f.wake(before, now)
	f.close(now)
	f.until, f.stopped, f.quiet = time.Time{}, true, 0
	switch {
	case !after.Alive():
		f.deleted = true
		f.gaps = append(f.gaps, gap{deleted: true, from: now})
	case after.Pause.Paused:
		f.gaps = append(f.gaps, gap{rule: ruleOf(after), from: now})
		f.until, f.paused = after.Pause.Until, true
	default:
		f.stopped = false
		f.parts = append(f.parts, part{rule: ruleOf(after), revision: after.Revision, from: now})
	}
}

// wake begins the part after a pause that has ended by itself.
func (f *life) wake(was *schedule.Schedule, now time.Time) {
	if !f.until.IsZero() && !f.until.After(now) {
		f.fill(f.until.Add(-time.Nanosecond)) // the slot at its end is one again
		f.parts = append(f.parts, part{rule: ruleOf(was), revision: was.Revision, from: f.until, including: true})
		f.until, f.stopped, f.quiet = time.Time{}, false, 0
	}
}

// fill ends the gap that is open.
func (f *life) fill(until time.Time) {
	if n := len(f.gaps); n > 0 && f.gaps[n-1].until.IsZero() {
		f.gaps[n-1].until = until
	}
}

func (f *life) close(now time.Time) {
	f.fill(now)
	if n := len(f.parts); n > 0 && f.parts[n-1].until.IsZero() {
		f.parts[n-1].until = now
	}
}

// acknowledged: from now on the user may rely on it.
func (l *ledgerWatch) acknowledged(id string, at time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.lives[id]; f != nil && f.stopped {
		f.quiet = at
	}
}
