package explain

import (
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// before is the newest event of the kinds before the instant, since the first one
// after it; nil: none.
func (x *derivation) before(kinds ...schedule.EventKind) *schedule.Event {
	for i := len(x.Events) - 1; i >= 0; i-- {
		if e := &x.Events[i]; e.Time.Before(x.at) && slices.Contains(kinds, e.Kind) {
			return e
		}
	}
	return nil
}

func (x *derivation) since(kinds ...schedule.EventKind) *schedule.Event {
	for i := range x.Events {
		if e := &x.Events[i]; !e.Time.Before(x.at) && slices.Contains(kinds, e.Kind) {
			return e
		}
	}
	return nil
}

// last is the newest event of the kinds.
func (x *derivation) last(kinds []schedule.EventKind) *schedule.Event {
	for i := len(x.Events) - 1; i >= 0; i-- {
		if slices.Contains(kinds, x.Events[i].Kind) {
			return &x.Events[i]
		}
	}
	return nil
}

// life finds the creation and deletion of the schedule around the instant. An id
// can be used again after a deletion: the row has only the newest creation, events
// have earlier ones for as long as they are kept.
func (x *derivation) life() {
	s := x.Schedule
	made, gone := x.before(schedule.EventCreated), x.since(schedule.EventDeleted, schedule.EventCreated)
	if s.CreatedAt.Before(x.at) { // since its newest creation
		x.out.CreatedAt, x.out.DeletedAt = s.CreatedAt, s.DeletedAt
		if made != nil && made.Time.Equal(s.CreatedAt) {
			x.out.CreatedBy = made.Actor
		}
		if e := x.last([]schedule.EventKind{schedule.EventDeleted}); e != nil && !s.DeletedAt.IsZero() {
			x.out.DeletedBy = e.Actor
		}
		return
	}
	switch was := x.before(schedule.EventDeleted, schedule.EventCreated); {
	case was != nil && was.Kind == schedule.EventDeleted:
		x.out.DeletedAt, x.out.DeletedBy = was.Time, was.Actor
		if e := x.before(schedule.EventCreated); e != nil {
			x.out.CreatedAt, x.out.CreatedBy = e.Time, e.Actor
		}
	case was != nil:
		x.out.CreatedAt, x.out.CreatedBy = was.Time, was.Actor
		x.endOf(gone)
	case gone != nil && gone.Kind == schedule.EventDeleted: // created before the oldest event
		x.endOf(gone)
		x.out.CreatedAt = x.oldest()
	}
}

func (x *derivation) endOf(e *schedule.Event) {
	if e != nil && e.Kind == schedule.EventDeleted {
		x.out.DeletedAt, x.out.DeletedBy = e.Time, e.Actor
	}
}

// oldest is the time of the oldest known revision.
func (x *derivation) oldest() time.Time {
	if n := len(x.Revisions); n > 0 {
		return x.Revisions[n-1].CreatedAt
	}
	return time.Time{}
}

// exists reports whether the schedule existed at the instant. It has a slot at the
// instant of its deletion, but none at that of its creation.
func (x *derivation) exists() bool {
	return !x.out.CreatedAt.IsZero() && x.out.CreatedAt.Before(x.at) && (x.out.DeletedAt.IsZero() || !x.at.After(x.out.DeletedAt))
}

// createdBefore is the creation time of the schedule that had a revision at an
// instant.
func (x *derivation) createdBefore(revised time.Time) time.Time {
	if !x.Schedule.CreatedAt.After(revised) {
		return x.Schedule.CreatedAt
	}
	created := x.oldest()
	for i := range x.Events {
		if e := &x.Events[i]; e.Kind == schedule.EventCreated && !e.Time.After(revised) && e.Time.After(created) {
			created = e.Time
		}
	}
	return created
}

func (x *derivation) noSchedule() {
	x.out.Blocking = nil
	if x.out.DeletedAt.IsZero() || x.out.DeletedAt.After(x.at) {
		x.say(VerdictNoSchedule, WhyNotCreated)
		x.out.CreatedAt = x.Schedule.CreatedAt
		if e := x.since(schedule.EventCreated); e != nil {
			x.out.CreatedAt, x.out.CreatedBy = e.Time, e.Actor
		}
		return
	}
	x.say(VerdictNoSchedule, Why(schedule.ReasonDeleted))
}

// rangeOf is the recorded range that contains the instant. If there are several,
// that of the slot's revision wins.
func (x *derivation) rangeOf() *schedule.Event {
	var found *schedule.Event
	for i := range x.Events {
		e := &x.Events[i]
		if !slices.Contains(schedule.RangeEvents, e.Kind) || x.at.Before(e.From) || x.at.After(e.To) {
			continue
		}
		if x.rule == nil || e.Revision == x.rule.Revision.Revision {
			return e
		}
		found = e
	}
	return found
}

// pause is the pause in force at the instant. The first event after the instant
// tells whether there was one:
//
//   - resumed: there was;
//   - ended at its end time: there was, unless that end was before the instant;
//   - paused or deleted: there was, if the last event before was a pause;
//   - none: the schedule is paused now.
func (x *derivation) pause() *Pause {
	began := x.before(append(schedule.PauseEvents, schedule.LifeEvents...)...)
	p := &Pause{}
	if began != nil && began.Kind == schedule.EventPaused {
		p.From, p.By, p.Note = began.Time, began.Actor, began.Note
	} else if began != nil && began.Kind == schedule.EventCreated {
		p.From, p.By = began.Time, began.Actor
	}
	end := x.since(append(schedule.PauseEvents, schedule.EventDeleted)...)
	if end == nil {
		return x.pausedNow(p)
	}
	// A schedule that began paused has no event of it where an older release made it.
	tomb := x.Schedule.Pause.Paused && end.Time.Equal(x.Schedule.DeletedAt)
	switch paused := began != nil && began.Kind == schedule.EventPaused || tomb; {
	case end.Kind == schedule.EventResumed:
		p.Until, p.EndedBy = end.Time, end.Actor
	case end.Kind == schedule.EventPauseEnded && x.at.Before(end.From):
		p.Until, p.By, p.Note = end.From, end.Actor, end.Note
	case (end.Kind == schedule.EventPaused || end.Kind == schedule.EventDeleted) && paused:
		p.Until, p.EndedBy = end.Time, end.Actor
	default:
		return nil
	}
	return p
}

func (x *derivation) pausedNow(p *Pause) *Pause {
	now := x.Schedule.Pause
	if !now.Paused || !now.Until.IsZero() && !x.at.Before(now.Until) || !x.Schedule.CreatedAt.Before(x.at) {
		return nil
	}
	p.By, p.Note, p.Until = now.By, now.Note, now.Until
	return p
}

// takenBy says who has got a run.
func takenBy(r *schedule.Run) string {
	if r.Queue.Worker != "" {
		return "fetched by worker " + r.Queue.Worker
	}
	return "accepted by the executor"
}
