package expect

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// The clocks of a judge.
const (
	// slack lets a transaction that ended right before a deadline be seen.
	slack = 2 * time.Second
	// answer is how much longer a call of the executor may be under way that began
	// before the deadline: until it is answered nobody knows whether it started.
	answer = 30 * time.Second
	// poll is how soon an open alert is looked at again: it may recover any time.
	poll = 15 * time.Second
	// memory is less than the least retention: of what is older the ledger may
	// hold nothing, which says nothing.
	memory = 28 * 24 * time.Hour
	// maxSlots bounds one pass; the next goes on at once.
	maxSlots = 5000
	// unreadable is how soon a schedule is tried again that cannot be read.
	unreadable = time.Minute
)

// NoticeType says what a notice tells; a closed set.
type NoticeType string

// The types of notices.
const (
	NoticeOpened    NoticeType = schedule.NoticeOpened
	NoticeReminder  NoticeType = "alert.reminder"
	NoticeRecovered NoticeType = schedule.NoticeRecovered
	NoticeTest      NoticeType = "alert.test"
)

// Notice is one message that is to be told.
type Notice struct {
	Type  NoticeType
	Alert schedule.Alert
}

// Outcome is what a judgement writes and tells.
type Outcome struct {
	State   schedule.ExpectationState
	Drop    bool
	Alerts  []schedule.Alert
	Notices []Notice
}

// Judge brings one expectation up to now.
func Judge(c *schedule.ExpectationCase, now time.Time) Outcome {
	j := &judgement{c: c, s: c.State, now: now, alert: clone(c.Alert)}
	j.s.JudgedAt = now
	switch limit, resolution := j.promised(); {
	case resolution != "":
		j.close(resolution)
		return j.outcome(true)
	case c.Unreadable != nil:
		j.s.JudgeAt = now.Add(unreadable)
		return j.outcome(false)
	case c.State.Kind == schedule.ExpectNoFailure:
		return j.failures()
	case c.State.Kind == schedule.ExpectSuccess:
		j.successes(limit)
	default:
		j.slots(limit)
	}
	if c.Schedule.Pause.Active(now) { // whoever paused it knows; its end by hand wakes the judge
		return j.outcome(false)
	}
	j.remind()
	if j.alert != nil {
		j.sooner(now.Add(poll))
	}
	return j.outcome(false)
}

// judgement is the state of one.
type judgement struct {
	c      *schedule.ExpectationCase
	s      schedule.ExpectationState
	now    time.Time
	alert  *schedule.Alert // the open one
	opened bool            // in this pass
	closed *schedule.Alert // in this pass
	told   []Notice        // reminders
}

// promised is the limit in force, or why there is none any more.
func (j *judgement) promised() (time.Duration, schedule.Resolution) {
	s := j.c.Schedule
	if s == nil || !s.Alive() {
		return 0, schedule.ResolutionDeleted
	}
	limit := s.Expect.Limit(j.s.Kind)
	if limit == 0 && j.s.Kind != schedule.ExpectNoFailure && j.c.Unreadable == nil {
		return 0, schedule.ResolutionRemoved
	}
	return limit, ""
}

func (j *judgement) sooner(at time.Time) {
	if j.s.JudgeAt.IsZero() || at.Before(j.s.JudgeAt) {
		j.s.JudgeAt = at
	}
}

// met ends the row of late slots.
func (j *judgement) met(at time.Time) {
	j.s.Late, j.s.LateSince, j.s.MetAt = 0, time.Time{}, at
	j.close(schedule.ResolutionRecovered)
}

// broken is one more late slot, or so many periods without a success.
type broken struct {
	slot     time.Time
	deadline time.Time
	cause    schedule.Cause
	limit    time.Duration
	inRow    int64
	named    time.Time // by what the alert is named; default slot
}

func (j *judgement) late(b broken) {
	if j.s.Late == 0 {
		j.s.LateSince = b.slot
	}
	j.s.Late = b.inRow
	if j.s.Status == schedule.ExpectationOK {
		j.s.Status = schedule.ExpectationLate
	}
	if b.inRow < int64(max(j.c.Schedule.Expect.AlertAfter, 1)) {
		return
	}
	j.s.Status = schedule.ExpectationAlerting
	if j.alert == nil {
		j.open(b)
	}
	j.alert.Late, j.alert.LastSlot, j.alert.Deadline, j.alert.Cause = b.inRow, b.slot, b.deadline, b.cause
}

// open begins an alert, or goes on with the one that this pass has closed: what
// is looked at late, all at once, is told once.
func (j *judgement) open(b broken) {
	if j.closed != nil {
		j.alert, j.closed = j.closed, nil
		j.alert.ClosedAt, j.alert.Resolution = time.Time{}, ""
		j.s.AlertID = j.alert.AlertID
		return
	}
	s := j.c.Schedule
	j.opened = true
	if b.named.IsZero() {
		b.named = b.slot
	}
	j.alert = &schedule.Alert{
		AlertID:    schedule.AlertID(s.ScheduleID, j.s.Kind, b.named),
		ScheduleID: s.ScheduleID, WorkflowID: s.WorkflowID, UserID: s.UserID, Kind: j.s.Kind, Revision: s.Revision,
		LimitMS: uint32(b.limit.Milliseconds()), FirstSlot: j.s.LateSince, OpenedAt: j.now, NotifiedAt: j.now,
	}
	j.s.AlertID = j.alert.AlertID
}

func (j *judgement) close(why schedule.Resolution) {
	j.s.Status = schedule.ExpectationOK
	if j.s.Late > 0 {
		j.s.Status = schedule.ExpectationLate
	}
	if j.alert == nil {
		return
	}
	j.alert.ClosedAt, j.alert.Resolution = j.now, why
	j.closed, j.alert = j.alert, nil
	j.s.AlertID = ""
}

// remind tells an open alert again that nobody has seen to.
func (j *judgement) remind() {
	every := j.c.Schedule.Expect.RemindEvery()
	if j.alert == nil || every == 0 || !j.alert.AckedAt.IsZero() {
		return
	}
	if at := j.alert.NotifiedAt.Add(every); j.now.Before(at) {
		j.sooner(at)
		return
	}
	j.alert.NotifiedAt = j.now
	j.told = append(j.told, Notice{NoticeReminder, *j.alert})
	j.sooner(j.now.Add(every))
}

func (j *judgement) outcome(drop bool) Outcome {
	out := Outcome{State: j.s, Drop: drop}
	last := j.alert
	if last == nil {
		last = j.closed
	}
	if last != nil {
		out.Alerts = append(out.Alerts, *last)
		if j.opened {
			out.Notices = append(out.Notices, Notice{NoticeOpened, *last})
		}
	}
	out.Notices = append(out.Notices, j.told...)
	if j.closed != nil {
		out.Notices = append(out.Notices, Notice{NoticeRecovered, *j.closed})
	}
	return out
}

func clone(a *schedule.Alert) *schedule.Alert {
	if a == nil {
		return nil
	}
	copied := *a
	return &copied
}
