package expect

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

const (
	// slack is the time for a transaction that ended right before a deadline to
	// become visible.
	slack = 2 * time.Second
	// answer is how long to wait after the deadline for an executor call that began
	// before it: until the answer it is unknown whether the run started.
	answer = 30 * time.Second
	// poll is the interval of evaluations while an alert is open, because it can
	// recover any time.
	poll = 15 * time.Second
	// memory is below the shortest retention. The ledger may have no rows of older
	// slots, which proves nothing.
	memory = 28 * 24 * time.Hour
	// maxSlots caps one pass. The next pass follows at once.
	maxSlots = 5000
	// unreadable is the pause before the next try if a schedule cannot be read.
	unreadable = time.Minute
)

// NoticeType is the type of a notice; a closed set.
type NoticeType string

// The types of notices.
const (
	NoticeOpened    NoticeType = schedule.NoticeOpened
	NoticeReminder  NoticeType = "alert.reminder"
	NoticeRecovered NoticeType = schedule.NoticeRecovered
	NoticeTest      NoticeType = "alert.test"
)

// Notice is one message to send.
type Notice struct {
	Type  NoticeType
	Alert schedule.Alert
}

// Outcome is what an evaluation writes and sends.
type Outcome struct {
	State   schedule.ExpectationState
	Drop    bool
	Alerts  []schedule.Alert
	Notices []Notice
}

// Evaluate brings one expectation up to now.
func Evaluate(c *schedule.ExpectationCase, now time.Time) Outcome {
	v := &evaluation{c: c, s: c.State, now: now, alert: clone(c.Alert)}
	v.s.JudgedAt = now
	switch limit, resolution := v.limit(); {
	case resolution != "":
		v.close(resolution)
		return v.outcome(true)
	case c.Unreadable != nil:
		v.s.JudgeAt = now.Add(unreadable)
		return v.outcome(false)
	case c.State.Kind == schedule.ExpectNoFailure:
		return v.failures()
	case c.State.Kind == schedule.ExpectSuccess:
		v.successes(limit)
	default:
		v.slots(limit)
	}
	if c.Schedule.Pause.Active(now) { // no reminders: the user who paused it knows. Resuming wakes the evaluation
		return v.outcome(false)
	}
	v.remind()
	if v.alert != nil {
		v.sooner(now.Add(poll))
	}
	return v.outcome(false)
}

// evaluation is the state of one Evaluate.
type evaluation struct {
	c      *schedule.ExpectationCase
	s      schedule.ExpectationState
	now    time.Time
	alert  *schedule.Alert // the open one
	opened bool            // in this pass
	closed *schedule.Alert // in this pass
	told   []Notice        // reminders
}

// limit is the current limit, or the reason why there is none any more.
func (v *evaluation) limit() (time.Duration, schedule.Resolution) {
	s := v.c.Schedule
	if s == nil || !s.Alive() {
		return 0, schedule.ResolutionDeleted
	}
	limit := s.Expect.Limit(v.s.Kind)
	if limit == 0 && v.s.Kind != schedule.ExpectNoFailure && v.c.Unreadable == nil {
		return 0, schedule.ResolutionRemoved
	}
	return limit, ""
}

func (v *evaluation) sooner(at time.Time) {
	if v.s.JudgeAt.IsZero() || at.Before(v.s.JudgeAt) {
		v.s.JudgeAt = at
	}
}

// met ends the row of late slots.
func (v *evaluation) met(at time.Time) {
	v.s.Late, v.s.LateSince, v.s.MetAt = 0, time.Time{}, at
	v.close(schedule.ResolutionRecovered)
}

// broken is another late slot, or a number of periods without a success.
type broken struct {
	slot     time.Time
	deadline time.Time
	cause    schedule.Cause
	limit    time.Duration
	inRow    int64
	named    time.Time // part of the alert's id; default slot
}

func (v *evaluation) late(b broken) {
	if v.s.Late == 0 {
		v.s.LateSince = b.slot
	}
	v.s.Late = b.inRow
	if v.s.Status == schedule.ExpectationOK {
		v.s.Status = schedule.ExpectationLate
	}
	if b.inRow < int64(max(v.c.Schedule.Expect.AlertAfter, 1)) {
		return
	}
	v.s.Status = schedule.ExpectationAlerting
	if v.alert == nil {
		v.open(b)
	}
	v.alert.Late, v.alert.LastSlot, v.alert.Deadline, v.alert.Cause = b.inRow, b.slot, b.deadline, b.cause
}

// open opens an alert, or reopens the one that this pass has closed, so that a
// pass over many old slots sends one notice.
func (v *evaluation) open(b broken) {
	if v.closed != nil {
		v.alert, v.closed = v.closed, nil
		v.alert.ClosedAt, v.alert.Resolution = time.Time{}, ""
		v.s.AlertID = v.alert.AlertID
		return
	}
	s := v.c.Schedule
	v.opened = true
	if b.named.IsZero() {
		b.named = b.slot
	}
	v.alert = &schedule.Alert{
		AlertID:    schedule.AlertID(s.ScheduleID, v.s.Kind, b.named),
		ScheduleID: s.ScheduleID, WorkflowID: s.WorkflowID, UserID: s.UserID, Kind: v.s.Kind, Revision: s.Revision,
		LimitMS: uint32(b.limit.Milliseconds()), FirstSlot: v.s.LateSince, OpenedAt: v.now, NotifiedAt: v.now,
	}
	v.s.AlertID = v.alert.AlertID
}

func (v *evaluation) close(why schedule.Resolution) {
	v.s.Status = schedule.ExpectationOK
	if v.s.Late > 0 {
		v.s.Status = schedule.ExpectationLate
	}
	if v.alert == nil {
		return
	}
	v.alert.ClosedAt, v.alert.Resolution = v.now, why
	v.closed, v.alert = v.alert, nil
	v.s.AlertID = ""
}

// remind repeats the notice of an open alert that is not acknowledged.
func (v *evaluation) remind() {
	every := v.c.Schedule.Expect.RemindEvery()
	if v.alert == nil || every == 0 || !v.alert.AckedAt.IsZero() {
		return
	}
	if at := v.alert.NotifiedAt.Add(every); v.now.Before(at) {
		v.sooner(at)
		return
	}
	v.alert.NotifiedAt = v.now
	v.told = append(v.told, Notice{NoticeReminder, *v.alert})
	v.sooner(v.now.Add(every))
}

func (v *evaluation) outcome(drop bool) Outcome {
	out := Outcome{State: v.s, Drop: drop}
	last := v.alert
	if last == nil {
		last = v.closed
	}
	if last != nil {
		out.Alerts = append(out.Alerts, *last)
		if v.opened {
			out.Notices = append(out.Notices, Notice{NoticeOpened, *last})
		}
	}
	out.Notices = append(out.Notices, v.told...)
	if v.closed != nil {
		out.Notices = append(out.Notices, Notice{NoticeRecovered, *v.closed})
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
