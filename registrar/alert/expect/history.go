package expect

import (
	"slices"
	"time"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
)

// era is an interval (from, until] in which one revision was in force.
type era struct {
	from, until time.Time // until is zero for the current revision
	limit       time.Duration
	timetable   *plan.Timetable
}

// eras returns the known eras since the schedule was created, oldest first. Before
// the first one nothing is expected.
func eras(c *schedule.ExpectationCase) ([]era, error) {
	s := c.Schedule
	revisions := c.Revisions
	if len(revisions) == 0 {
		revisions = []schedule.Revision{{Revision: s.Revision, Definition: s.Definition, CreatedAt: s.RevisedAt}}
	}
	var found []era
	var until time.Time
	for i := range revisions { // newest first
		r := &revisions[i]
		if r.CreatedAt.Before(s.CreatedAt) {
			break // of a deleted schedule with the same id
		}
		timetable, err := plan.NewTimetable(&r.Definition, s.CreatedAt, r.CreatedAt)
		if err != nil {
			return nil, err
		}
		found = append(found, era{from: r.CreatedAt, until: until, limit: r.Definition.Expect.Limit(c.State.Kind), timetable: timetable})
		until = r.CreatedAt
	}
	slices.Reverse(found)
	return found, nil
}

// expected is one slot that should exist.
type expected struct {
	at    time.Time
	limit time.Duration
}

// slotsIn calls each with the slots in (after, until], in order, until it returns
// false.
func slotsIn(all []era, after, until time.Time, each func(expected) bool) {
	for _, e := range all {
		from, to := schedule.Later(after, e.from), until
		if !e.until.IsZero() && e.until.Before(to) {
			to = e.until
		}
		if e.limit == 0 {
			continue
		}
		for at, ok := e.timetable.Next(from); ok && !at.After(to); at, ok = e.timetable.Next(at) {
			if !each(expected{at: at, limit: e.limit}) {
				return
			}
		}
	}
}

// interval is a time [from, until) in which the schedule was paused.
type interval struct{ from, until time.Time } // until is zero: no end

// pauses returns the pauses, oldest first, from the events. A schedule that was
// created paused has no event of the beginning; the end of that pause, or the row,
// shows it.
func pauses(c *schedule.ExpectationCase) []interval {
	var found []interval
	var since time.Time
	paused, first := false, true
	for i := range c.Pauses {
		e := &c.Pauses[i]
		if e.Time.Before(c.Schedule.CreatedAt) {
			continue // of a deleted schedule with the same id
		}
		switch e.Kind {
		case schedule.EventPaused:
			if !paused {
				paused, since = true, e.Time
			}
		case schedule.EventResumed, schedule.EventPauseEnded:
			if !paused && first {
				paused, since = true, c.Schedule.CreatedAt
			}
			if until := endOf(e); paused && until.After(since) {
				found = append(found, interval{since, until})
			}
			paused = false
		}
		first = false
	}
	if pause := c.Schedule.Pause; pause.Paused {
		if !paused {
			since = c.Schedule.CreatedAt
			if len(found) > 0 {
				since = found[len(found)-1].until
			}
		}
		found = append(found, interval{since, pause.Until})
	}
	return found
}

// endOf is the end of a pause by its event. A pause with an end time ended before
// its event was written.
func endOf(e *schedule.Event) time.Time {
	if e.Kind == schedule.EventPauseEnded && !e.From.IsZero() && e.From.Before(e.Time) {
		return e.From
	}
	return e.Time
}

// pausedIn reports whether the schedule was paused at any time in [from, to].
func pausedIn(all []interval, from, to time.Time) bool {
	return slices.ContainsFunc(all, func(s interval) bool {
		return !s.from.After(to) && (s.until.IsZero() || s.until.After(from))
	})
}
