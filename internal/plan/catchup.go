package plan

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// catchUp decides on everything that is late, oldest first: rows planned in time but never claimed
// (c.Late), an open backlog, and the slots between the cursor and the first on-time slot.
//
// It moves the cursor to the first on-time slot: on-time slots never wait for a backlog.
func (p *planner) catchUp(c *schedule.PlanCandidate) {
	r := recovery{planner: p, d: &p.s.Definition, tt: p.tt, revision: p.s.Revision, late: c.Late}
	var missed span
	var older schedule.Backlog // the rest of an edit's range
	switch b := p.s.Backlog; {
	case !b.Open():
	case b.Revision == p.s.Revision:
		missed, r.notBefore = r.recent(span{b.From, b.Until}), b.At
	default:
		older, r.notBefore = p.workOffOlder(b, c.BacklogDefinition)
	}
	// Slots between an open backlog and a new outage have rows. They
	// lie inside the joined range: offering them again changes nothing, and what
	// is recorded of the range leaves them out (Schedule.Planned).
	missed = missed.join(r.recent(p.outage()))

	p.out.Backlog = r.run(missed)
	switch {
	case !older.Open():
	case p.out.Backlog.Open(): // a schedule has one range, so the older one is closed, as at a second edit
		p.closeOlder(older, c.BacklogDefinition, "the schedule fell behind again before the range of its older revision was worked off")
	default:
		p.out.Backlog = older
	}
}

// workOffOlder fires a portion of the range that an edit left behind, by the definition in force
// then. It returns the rest of the range and when the schedule's next portion is due.
func (p *planner) workOffOlder(b schedule.Backlog, d *schedule.Definition) (left schedule.Backlog, next time.Time) {
	tt, problem := p.olderTimetable(d)
	if problem != "" {
		p.closeOlder(b, d, problem)
		return schedule.Backlog{}, time.Time{}
	}
	r := recovery{planner: p, d: d, tt: tt, revision: b.Revision, notBefore: b.At}
	left = r.run(r.recent(span{b.From, b.Until}))
	return left, r.nextAt
}

func (p *planner) olderTimetable(d *schedule.Definition) (tt *Timetable, problem string) {
	if d == nil {
		return nil, "the range's revision is gone"
	}
	tt, err := NewTimetable(d, p.s.CreatedAt, time.Time{})
	if err != nil {
		return nil, "the range's revision can no longer be read: " + err.Error()
	}
	return tt, ""
}

// closeOlder records that a range will not be caught up. Slots of an unreadable definition cannot
// be counted.
func (p *planner) closeOlder(b schedule.Backlog, d *schedule.Definition, why string) {
	e := schedule.Event{
		Kind: schedule.EventBacklogClosed, Revision: b.Revision, From: b.From, To: b.Until.Add(-time.Second),
		Reason: schedule.ReasonMissed, Note: why,
	}
	tt, problem := p.olderTimetable(d)
	if problem != "" {
		p.event(e)
		return
	}
	for _, x := range tt.Without(b.From, b.Until, p.s.Planned) {
		e.From, _ = tt.From(x.From)
		e.To, _ = tt.last(x.From, x.Until)
		e.Count = int64(x.Count)
		p.event(e)
	}
}

// outage moves the cursor to the first on-time slot and returns the range of missed slots before
// it.
func (p *planner) outage() span {
	from := p.out.NextRunAt
	if from.IsZero() {
		return span{}
	}
	until, ok := p.tt.firstOnTime(from, p.now, p.cfg.Grace)
	p.out.NextRunAt = until
	if !ok { // exhausted meanwhile, and every missed slot lies before now
		until = schedule.CeilSecond(p.now)
	}
	return span{from, until}
}

// span is a half-open range of nominal instants; zero from = empty.
type span struct{ from, until time.Time }

func (s span) open() bool { return !s.from.IsZero() && s.from.Before(s.until) }

// join is the range from s to later, including the gap between them.
func (s span) join(later span) span {
	switch {
	case !s.open():
		return later
	case !later.open():
		return s
	}
	return span{s.from, later.until}
}
