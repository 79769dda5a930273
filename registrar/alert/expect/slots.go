package expect

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// verdict is the result of one slot; pending: none yet.
type verdict int

const (
	pending verdict = iota
	met
	excused
	late
)

// slots evaluates the kinds start and finish.
func (v *evaluation) slots(limit time.Duration) {
	all, err := eras(v.c)
	if err != nil {
		v.s.JudgeAt = v.now.Add(unreadable)
		return
	}
	paused := pauses(v.c)
	open := expected{} // the first slot without a verdict
	newest, n := time.Time{}, 0
	until := v.now
	if cut := v.c.RunsUntil; !cut.IsZero() {
		until = cut.Add(-time.Second)
	}
	full := false
	after := schedule.Later(v.s.JudgedUntil, v.now.Add(-memory))
	slotsIn(all, after, until, func(e expected) bool {
		newest = e.at
		if n++; n > maxSlots {
			full = true
			return false
		}
		result, cause := v.verdictOn(e, paused)
		switch result {
		case pending:
			open = e
			return false
		case met:
			v.met(e.at)
		case late:
			v.late(broken{slot: e.at, deadline: e.at.Add(e.limit), cause: cause, limit: e.limit, inRow: v.s.Late + 1})
		case excused:
		}
		v.s.JudgedUntil = e.at
		return true
	})
	v.s.LimitMS = uint32(limit.Milliseconds())
	switch {
	case full || until.Before(v.now) && open.at.IsZero():
		if !full {
			v.s.JudgedUntil = schedule.Later(v.s.JudgedUntil, until)
		}
		v.s.JudgeAt = v.now
	case !open.at.IsZero():
		v.s.JudgeAt = v.lateAt(open)
	default:
		v.s.JudgedUntil = schedule.Later(v.s.JudgedUntil, v.now)
		v.nextDeadline(all)
	}
	if newest.IsZero() { // no slot was due since
		v.closeIfMet()
	}
}

// nextDeadline sets JudgeAt to the earliest time at which a future slot can be
// late.
func (v *evaluation) nextDeadline(all []era) {
	v.s.JudgeAt = time.Time{}
	if pause := v.c.Schedule.Pause; pause.Active(v.now) {
		v.s.JudgeAt = pause.Until
		return
	}
	e := all[len(all)-1]
	if at, ok := e.timetable.Next(v.now); ok {
		v.s.JudgeAt = at.Add(e.limit + slack)
	}
}

// closeIfMet closes an alert whose slot has started or finished after all, if no
// other slot was due since. Example: a daily report came ten minutes late and the
// next is due tomorrow. The count of late slots in a row is kept.
func (v *evaluation) closeIfMet() {
	if v.alert == nil || !v.alert.LastSlot.Before(v.now) {
		return
	}
	for i := range v.c.Runs {
		if r := &v.c.Runs[i]; r.RunAt.Equal(v.alert.LastSlot) {
			if at := v.metAt(r); !at.IsZero() {
				v.close(schedule.ResolutionHappened)
				return
			}
		}
	}
}

// metAt is when a run met the expectation of its slot, or zero.
func (v *evaluation) metAt(r *schedule.SlotRun) time.Time {
	if v.s.Kind == schedule.ExpectFinish {
		if r.Status == schedule.StatusSuccess {
			return r.CompletedAt
		}
		return time.Time{}
	}
	switch r.Status {
	case schedule.StatusEnqueued, schedule.StatusStarted, schedule.StatusSuccess:
		return begun(r)
	case schedule.StatusSkipped:
		if r.Reason == schedule.ReasonSnoozed {
			return begun(r)
		}
	case schedule.StatusCancelled:
		return r.LaunchedAt // set only if the executor accepted the run
	case schedule.StatusFailed:
		if r.Reason == schedule.ReasonWorkflowFailed || r.Reason == schedule.ReasonTimeout || r.Reason == schedule.ReasonInterrupted {
			return begun(r)
		}
	}
	return time.Time{}
}

// begun is the time of the call with which the executor accepted the run.
func begun(r *schedule.SlotRun) time.Time {
	switch {
	case !r.LaunchedAt.IsZero():
		return r.LaunchedAt
	case !r.StartedAt.IsZero():
		return r.StartedAt
	}
	return r.ClaimedAt
}

// stopped reports whether a user ended the run.
func stopped(r *schedule.SlotRun) bool {
	switch r.Reason {
	case schedule.ReasonPaused, schedule.ReasonDeleted, schedule.ReasonCancelled:
		return r.Status == schedule.StatusSkipped || r.Status == schedule.StatusCancelled
	}
	return false
}

func (v *evaluation) verdictOn(e expected, paused []interval) (verdict, schedule.Cause) {
	deadline := e.at.Add(e.limit)
	cause := schedule.CauseNotPlanned
	begun, byHand, calling := false, false, false
	for i := range v.c.Runs {
		r := &v.c.Runs[i]
		if !r.RunAt.Equal(e.at) {
			continue
		}
		at := v.metAt(r)
		switch {
		case !at.IsZero() && !at.After(deadline):
			return met, ""
		case !at.IsZero():
			cause = schedule.CauseTooLate
		default:
			cause = causeOf(r)
		}
		begun = begun || !r.LaunchedAt.IsZero()
		byHand = byHand || stopped(r)
		calling = calling || r.Status == schedule.StatusLaunching && !r.ClaimedAt.After(deadline)
	}
	switch {
	case byHand, !begun && pausedIn(paused, e.at, deadline):
		return excused, ""
	case v.now.Before(deadline.Add(slack)), calling && v.now.Before(deadline.Add(answer)):
		return pending, ""
	}
	return late, cause
}

// lateAt is when a slot without a verdict becomes late.
func (v *evaluation) lateAt(e expected) time.Time {
	deadline := e.at.Add(e.limit)
	if at := deadline.Add(slack); at.After(v.now) {
		return at
	}
	return deadline.Add(answer) // a call is open
}

// causeOf is the cause of a late slot, by the state of its run.
func causeOf(r *schedule.SlotRun) schedule.Cause {
	switch {
	case r.Reason != "" && r.Status.Terminal():
		return schedule.Cause(r.Reason)
	case r.Status == schedule.StatusPlanned:
		return schedule.CauseNotClaimed
	case r.Status == schedule.StatusLaunching:
		return schedule.CauseNotAccepted
	case r.Status.Terminal():
		return schedule.CauseTooLate
	case r.Status == schedule.StatusEnqueued && r.LaunchedAt.IsZero():
		return schedule.CauseQueued
	}
	return schedule.CauseStillRunning
}
