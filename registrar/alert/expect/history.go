package expect

import (
	"slices"
	"time"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
)

// era is a stretch of time, (from, until], in which one revision was in force.
type era struct {
	from, until time.Time // until is zero for the one in force now
	limit       time.Duration
	timetable   *plan.Timetable
}

// eras are those that are known of the schedule's present life, oldest first.
// What came before they cannot tell: nothing is expected of it.
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
			break // of a schedule of this name that was deleted
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

// expected is one slot that there should have been.
type expected struct {
	at    time.Time
	limit time.Duration
}

// slotsIn calls each with the slots of (after, until], in their order, until it
// answers false.
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

// stop is a stretch of time, [from, until), in which the schedule was paused.
type stop struct{ from, until time.Time } // until is zero while it has no end

// stops are the pauses that the events tell of, oldest first. A schedule that was
// created paused has no event of it, and shows it by its end, or by its row.
func stops(c *schedule.ExpectationCase) []stop {
	var found []stop
	var since time.Time
	paused, first := false, true
	for i := range c.Pauses {
		e := &c.Pauses[i]
		if e.Time.Before(c.Schedule.CreatedAt) {
			continue // of a schedule of this name that was deleted
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
				found = append(found, stop{since, until})
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
		found = append(found, stop{since, pause.Until})
	}
	return found
}

// endOf is when the pause ended that an event tells the end of: one that ended by
// itself did so before anybody wrote it down.
func endOf(e *schedule.Event) time.Time {
	if e.Kind == schedule.EventPauseEnded && !e.From.IsZero() && e.From.Before(e.Time) {
		return e.From
	}
	return e.Time
}

// stood says whether the schedule was paused at any time in [from, to].
func stood(all []stop, from, to time.Time) bool {
	return slices.ContainsFunc(all, func(s stop) bool {
		return !s.from.After(to) && (s.until.IsZero() || s.until.After(from))
	})
}
