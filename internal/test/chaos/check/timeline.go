package check

import (
	"slices"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

// span is a time in which it is certain what a schedule was.
type span struct {
	from, until time.Time          // zero until: to the end
	def         *record.Definition // nil: paused, deleted or not there yet
	was         *record.Definition // the definition that a pause or deletion put to rest
	deleted     bool
}

// window is a time in which a change took place: what falls in it may belong to
// either side.
type window struct{ from, until time.Time }

func (w window) has(at time.Time) bool { return !at.Before(w.from) && !at.After(w.until) }

// life is what the journal says of one schedule.
type life struct {
	id      string
	spans   []span
	changes []window // by every act that changes slots
	quiet   []rest
	anchor  time.Time

	revisions map[int]*record.Definition
}

// rest is a time in which nothing of a schedule may be sent: from a second
// after the answer to a pause or deletion until its end is asked for.
type rest struct {
	from, until time.Time // zero until: for good
	deleted     bool
}

// slack is what clocks, and words on their way, may differ by on one machine.
const slack = 60 * time.Millisecond

// lives reads the journal. Acts of one schedule never overlap.
func lives(acts []record.Act, loose time.Duration) map[string]*life {
	all := make(map[string]*life)
	sorted := slices.Clone(acts)
	slices.SortStableFunc(sorted, func(a, b record.Act) int { return a.Asked.Compare(b.Asked) })
	for _, act := range sorted {
		if act.Verb == record.Trigger || act.Same {
			continue
		}
		l := all[act.ScheduleID]
		if l == nil {
			l = &life{id: act.ScheduleID, anchor: ceilSecond(act.CreatedAt), revisions: make(map[int]*record.Definition)}
			all[act.ScheduleID] = l
		}
		if act.Verb == record.Upsert {
			l.revisions[act.Revision] = act.Definition
		}
		l.take(act, loose)
	}
	return all
}

func (l *life) take(act record.Act, loose time.Duration) {
	var before span
	if n := len(l.spans); n > 0 {
		l.spans[n-1].until = act.Asked
		before = l.spans[n-1]
	}
	l.changes = append(l.changes, window{act.Asked.Add(-slack - loose), act.Answered.Add(slack + loose)})
	next := span{from: act.Answered}
	inForce := before.def
	if inForce == nil {
		inForce = before.was
	}
	asleep := before.def == nil && before.was != nil && !before.deleted
	switch act.Verb {
	case record.Upsert:
		if asleep { // an edit does not end a pause
			next.was = act.Definition
		} else {
			next.def = act.Definition
		}
	case record.Pause, record.Delete:
		next.was, next.deleted = inForce, act.Verb == record.Delete
	case record.Resume:
		next.def = inForce
	}
	if n := len(l.quiet); n > 0 && l.quiet[n-1].until.IsZero() && next.def != nil {
		l.quiet[n-1].until = act.Asked
	}
	if next.def == nil && (!asleep || next.deleted) {
		l.quiet = append(l.quiet, rest{from: act.Answered, deleted: next.deleted})
	}
	l.spans = append(l.spans, next)
	if act.Verb == record.Pause && !act.Until.IsZero() { // it ends by itself
		l.spans[len(l.spans)-1].until = act.Until
		l.quiet[len(l.quiet)-1].until = act.Until
		l.spans = append(l.spans, span{from: act.Until, def: inForce})
	}
}

// at is the span that an instant lies in; false while a change is under way.
func (l *life) at(when time.Time) (span, bool) {
	if l.changing(when) {
		return span{}, false
	}
	for _, s := range l.spans {
		if !when.Before(s.from) && (s.until.IsZero() || when.Before(s.until)) {
			return s, true
		}
	}
	return span{}, true
}

func (l *life) changing(when time.Time) bool {
	return slices.ContainsFunc(l.changes, func(w window) bool { return w.has(when) })
}

// changedNear says whether a change took place within a distance.
func (l *life) changedNear(when time.Time, distance time.Duration) bool {
	return slices.ContainsFunc(l.changes, func(w window) bool {
		return window{w.from.Add(-distance), w.until.Add(distance)}.has(when)
	})
}

// quietAt says whether nothing may be sent any more at an instant, and since when.
func (l *life) quietAt(when time.Time, trigger string) (time.Time, bool) {
	for _, r := range l.quiet {
		byHand := trigger != "schedule" && trigger != "catchup"
		if (r.deleted || !byHand) && when.After(r.from) && (r.until.IsZero() || when.Before(r.until)) {
			return r.from, true
		}
	}
	return time.Time{}, false
}

// restedBetween says whether a pause or deletion was in force at some time.
func (l *life) restedBetween(from, until time.Time) bool {
	return slices.ContainsFunc(l.quiet, func(r rest) bool {
		return r.from.Before(until) && (r.until.IsZero() || r.until.After(from))
	})
}
