package registrar

import (
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
)

// changing is a change of one schedule in progress.
type changing struct {
	was    *schedule.Schedule
	row    *schedule.Schedule
	change schedule.Change
	actor  string
	now    time.Time
}

// begin copies the row. It first ends a pause that has reached its end but is still stored, as the
// planner would: the cursor becomes the first slot at or after paused_until.
func begin(current *schedule.Schedule, actor string, now time.Time) *changing {
	row := *current
	c := &changing{was: current, row: &row, actor: actor, now: now, change: schedule.Change{
		ScheduleID: current.ScheduleID, Row: &row, ChangedBy: actor, Now: now, DropPlannedAfter: now,
	}}
	if row.Pause.Paused && !row.Pause.Active(now) {
		if tt, err := c.timetable(); err == nil {
			row.NextRunAt, _ = tt.From(row.Pause.Until)
		}
		e := newEvent(&row, schedule.EventPauseEnded, row.Pause.By, now)
		e.From = row.Pause.Until
		c.change.Events = append(c.change.Events, e)
		row.Pause = schedule.Pause{}
	}
	return c
}

func (c *changing) timetable() (*plan.Timetable, error) {
	return plan.NewTimetable(&c.row.Definition, c.row.CreatedAt, c.row.RevisedAt)
}

func (c *changing) event(kind schedule.EventKind, note string) {
	e := newEvent(c.row, kind, c.actor, c.now)
	e.Note = note
	c.change.Events = append(c.change.Events, e)
}

// due is the half-open range of slots that are due and not planned yet.
func (c *changing) due() (from, until time.Time, ok bool) {
	from = c.row.NextRunAt
	if c.row.Pause.Paused || from.IsZero() || from.After(c.now) {
		return from, until, false
	}
	return from, c.now.Truncate(time.Second).Add(time.Second), true
}

// moveDueToBacklog keeps due unplanned slots under the old revision, so that an edit neither loses
// nor refires them. A range of an earlier edit is closed with an event.
func (c *changing) moveDueToBacklog() {
	if b := c.row.Backlog; b.Open() && b.Revision != c.row.Revision {
		c.closeRange(schedule.ReasonMissed, b, "a second edit came before the backlog of an older revision was processed")
		c.row.Backlog = schedule.Backlog{}
	}
	from, until, ok := c.due()
	if !ok {
		return
	}
	c.row.NextRunAt = time.Time{} // these slots belong to the backlog now
	if c.row.Backlog.Open() {     // rows between the two ranges are respected: see Schedule.Planned
		c.row.Backlog.Until = until
		return
	}
	c.row.Backlog = schedule.Backlog{From: from, Until: until, Revision: c.row.Revision}
	e := newEvent(c.row, schedule.EventBacklogOpened, c.actor, c.now)
	e.From, e.To = from, until.Add(-time.Second)
	c.change.Events = append(c.change.Events, e)
}

// closeRange records slots that will have no rows in one event, or in several if rows lie between
// them. If their rule cannot be read, the event has the range but no count.
func (c *changing) closeRange(reason schedule.Reason, b schedule.Backlog, note string) {
	e := newEvent(c.row, schedule.EventBacklogClosed, c.actor, c.now)
	e.Reason, e.Note, e.Revision = reason, note, b.Revision
	var stretches []plan.Stretch
	if tt, err := c.timetableOf(b.Revision); err != nil {
		e.Note += "; the slots cannot be counted: " + err.Error()
		stretches = plan.Between(b.From, b.Until, c.was.Planned)
	} else {
		stretches = tt.Without(b.From, b.Until, c.was.Planned)
	}
	for _, x := range stretches {
		e.From, e.To, e.Count = x.From, x.Until.Add(-time.Second), int64(x.Count)
		c.change.Events = append(c.change.Events, e)
	}
}

// timetableOf is the timetable of the revision before this change or after it;
// no other is at hand under this lock.
func (c *changing) timetableOf(revision int64) (*plan.Timetable, error) {
	switch revision {
	case c.row.Revision:
		return c.timetable()
	case c.was.Revision:
		return plan.NewTimetable(&c.was.Definition, c.was.CreatedAt, c.was.RevisedAt)
	}
	return nil, fmt.Errorf("they are those of revision %d", revision)
}

// endDue is shared by pause and deletion: it records due unplanned slots and an open backlog (in
// one event unless rows lie between them), and ends the remaining planned rows.
func (c *changing) endDue(to schedule.Status, reason schedule.Reason, note string) {
	from, until, due := c.due()
	b := c.row.Backlog
	if b.Open() && due && b.Revision == c.row.Revision && !b.Until.Before(from) {
		b.Until, due = until, false
	}
	if b.Open() {
		c.closeRange(reason, b, note)
	}
	if due {
		c.closeRange(reason, schedule.Backlog{From: from, Until: until, Revision: c.row.Revision}, note)
	}
	c.row.Backlog = schedule.Backlog{}
	c.change.EndDue.To, c.change.EndDue.Reason = to, reason
}

// pause stops a schedule that runs.
func (c *changing) pause(p schedule.Pause) {
	c.endDue(schedule.StatusSkipped, schedule.ReasonPaused, "due but not planned when the schedule was paused")
	c.row.Pause = p
	c.event(schedule.EventPaused, p.Note)
}

// restart computes cursor and plan_at again.
func (c *changing) restart() error { return start(c.row, c.now) }
