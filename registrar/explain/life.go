package explain

import (
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// before is the newest event of the kinds that came before the instant, since
// the first that came since; nil = none.
func (j *judge) before(kinds ...schedule.EventKind) *schedule.Event {
	for i := len(j.Events) - 1; i >= 0; i-- {
		if e := &j.Events[i]; e.Time.Before(j.at) && slices.Contains(kinds, e.Kind) {
			return e
		}
	}
	return nil
}

func (j *judge) since(kinds ...schedule.EventKind) *schedule.Event {
	for i := range j.Events {
		if e := &j.Events[i]; !e.Time.Before(j.at) && slices.Contains(kinds, e.Kind) {
			return e
		}
	}
	return nil
}

// last is the newest event of the kinds.
func (j *judge) last(kinds []schedule.EventKind) *schedule.Event {
	for i := len(j.Events) - 1; i >= 0; i-- {
		if slices.Contains(kinds, j.Events[i].Kind) {
			return &j.Events[i]
		}
	}
	return nil
}

// life finds when the schedule was made and deleted, of which the instant is
// in between. The row knows of its newest life alone; events know of earlier
// ones, as long as they are kept.
func (j *judge) life() {
	s := j.Schedule
	made, gone := j.before(schedule.EventCreated), j.since(schedule.EventDeleted, schedule.EventCreated)
	if s.CreatedAt.Before(j.at) { // in its newest life, or after it
		j.out.CreatedAt, j.out.DeletedAt = s.CreatedAt, s.DeletedAt
		if made != nil && made.Time.Equal(s.CreatedAt) {
			j.out.CreatedBy = made.Actor
		}
		if e := j.last([]schedule.EventKind{schedule.EventDeleted}); e != nil && !s.DeletedAt.IsZero() {
			j.out.DeletedBy = e.Actor
		}
		return
	}
	switch was := j.before(schedule.EventDeleted, schedule.EventCreated); {
	case was != nil && was.Kind == schedule.EventDeleted:
		j.out.DeletedAt, j.out.DeletedBy = was.Time, was.Actor
		if e := j.before(schedule.EventCreated); e != nil {
			j.out.CreatedAt, j.out.CreatedBy = e.Time, e.Actor
		}
	case was != nil:
		j.out.CreatedAt, j.out.CreatedBy = was.Time, was.Actor
		j.endOf(gone)
	case gone != nil && gone.Kind == schedule.EventDeleted: // made so long ago that nobody knows when
		j.endOf(gone)
		j.out.CreatedAt = j.oldest()
	}
}

func (j *judge) endOf(e *schedule.Event) {
	if e != nil && e.Kind == schedule.EventDeleted {
		j.out.DeletedAt, j.out.DeletedBy = e.Time, e.Actor
	}
}

// oldest is when the first revision was made that there is.
func (j *judge) oldest() time.Time {
	if n := len(j.Revisions); n > 0 {
		return j.Revisions[n-1].CreatedAt
	}
	return time.Time{}
}

// exists: at the instant there was a schedule. A slot at the moment of its
// deletion was its own; one at that of its creation was not.
func (j *judge) exists() bool {
	return !j.out.CreatedAt.IsZero() && j.out.CreatedAt.Before(j.at) && (j.out.DeletedAt.IsZero() || !j.at.After(j.out.DeletedAt))
}

// createdBefore is when the schedule was made of which a revision was made at
// an instant.
func (j *judge) createdBefore(revised time.Time) time.Time {
	if !j.Schedule.CreatedAt.After(revised) {
		return j.Schedule.CreatedAt
	}
	created := j.oldest()
	for i := range j.Events {
		if e := &j.Events[i]; e.Kind == schedule.EventCreated && !e.Time.After(revised) && e.Time.After(created) {
			created = e.Time
		}
	}
	return created
}

func (j *judge) noSchedule() {
	j.out.Blocking = nil
	if j.out.DeletedAt.IsZero() || j.out.DeletedAt.After(j.at) {
		j.say(VerdictNoSchedule, WhyNotCreated)
		j.out.CreatedAt = j.Schedule.CreatedAt
		if e := j.since(schedule.EventCreated); e != nil {
			j.out.CreatedAt, j.out.CreatedBy = e.Time, e.Actor
		}
		return
	}
	j.say(VerdictNoSchedule, Why(schedule.ReasonDeleted))
}

// rangeOf is the recorded range that the instant lies in, of its own revision
// if there are several.
func (j *judge) rangeOf() *schedule.Event {
	var found *schedule.Event
	for i := range j.Events {
		e := &j.Events[i]
		if !slices.Contains(schedule.RangeEvents, e.Kind) || j.at.Before(e.From) || j.at.After(e.To) {
			continue
		}
		if j.rule == nil || e.Revision == j.rule.Revision.Revision {
			return e
		}
		found = e
	}
	return found
}

// pause is the pause that held at the instant. What came first since then says
// how it ended, and thereby whether there was one:
//
//   - resumed: it held;
//   - it ended by itself: it held unless its end had come already;
//   - paused or deleted: it held if a pause was the last thing before;
//   - nothing: it holds to this day, if it does.
func (j *judge) pause() *Pause {
	began := j.before(append(schedule.PauseEvents, schedule.LifeEvents...)...)
	p := &Pause{}
	if began != nil && began.Kind == schedule.EventPaused {
		p.From, p.By, p.Note = began.Time, began.Actor, began.Note
	} else if began != nil && began.Kind == schedule.EventCreated {
		p.From, p.By = began.Time, began.Actor
	}
	end := j.since(append(schedule.PauseEvents, schedule.EventDeleted)...)
	if end == nil {
		return j.pausedNow(p)
	}
	// A schedule that began paused has no event of it where an older release made it.
	tomb := j.Schedule.Pause.Paused && end.Time.Equal(j.Schedule.DeletedAt)
	switch paused := began != nil && began.Kind == schedule.EventPaused || tomb; {
	case end.Kind == schedule.EventResumed:
		p.Until, p.EndedBy = end.Time, end.Actor
	case end.Kind == schedule.EventPauseEnded && j.at.Before(end.From):
		p.Until, p.By, p.Note = end.From, end.Actor, end.Note
	case (end.Kind == schedule.EventPaused || end.Kind == schedule.EventDeleted) && paused:
		p.Until, p.EndedBy = end.Time, end.Actor
	default:
		return nil
	}
	return p
}

func (j *judge) pausedNow(p *Pause) *Pause {
	now := j.Schedule.Pause
	if !now.Paused || !now.Until.IsZero() && !j.at.Before(now.Until) || !j.Schedule.CreatedAt.Before(j.at) {
		return nil
	}
	p.By, p.Note, p.Until = now.By, now.Note, now.Until
	return p
}
