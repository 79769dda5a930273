package expect

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// verdict is what one slot ends as; pending: it has not.
type verdict int

const (
	pending verdict = iota
	met
	excused
	late
)

// slots judges kinds start and finish.
func (j *judgement) slots(limit time.Duration) {
	all, err := eras(j.c)
	if err != nil {
		j.s.JudgeAt = j.now.Add(unreadable)
		return
	}
	paused := stops(j.c)
	open := expected{} // the first slot without a verdict
	newest, n := time.Time{}, 0
	until := j.now
	if cut := j.c.RunsUntil; !cut.IsZero() {
		until = cut.Add(-time.Second)
	}
	full := false
	after := schedule.Later(j.s.JudgedUntil, j.now.Add(-memory))
	slotsIn(all, after, until, func(e expected) bool {
		newest = e.at
		if n++; n > maxSlots {
			full = true
			return false
		}
		v, cause := j.verdictOn(e, paused)
		switch v {
		case pending:
			open = e
			return false
		case met:
			j.met(e.at)
		case late:
			j.late(broken{slot: e.at, deadline: e.at.Add(e.limit), cause: cause, limit: e.limit, inRow: j.s.Late + 1})
		case excused:
		}
		j.s.JudgedUntil = e.at
		return true
	})
	j.s.LimitMS = uint32(limit.Milliseconds())
	switch {
	case full || until.Before(j.now) && open.at.IsZero():
		if !full {
			j.s.JudgedUntil = schedule.Later(j.s.JudgedUntil, until)
		}
		j.s.JudgeAt = j.now
	case !open.at.IsZero():
		j.s.JudgeAt = j.patience(open)
	default:
		j.s.JudgedUntil = schedule.Later(j.s.JudgedUntil, j.now)
		j.nextDeadline(all)
	}
	if newest.IsZero() { // nothing fell due since
		j.happened()
	}
}

// nextDeadline is when a slot that lies ahead can be late first.
func (j *judgement) nextDeadline(all []era) {
	j.s.JudgeAt = time.Time{}
	if pause := j.c.Schedule.Pause; pause.Active(j.now) {
		j.s.JudgeAt = pause.Until
		return
	}
	e := all[len(all)-1]
	if at, ok := e.timetable.Next(j.now); ok {
		j.s.JudgeAt = at.Add(e.limit + slack)
	}
}

// happened closes an alert whose slot has started or finished after all, where
// no other is due since: the report that came ten minutes late has come, and the
// next is due tomorrow. The row of late slots goes on.
func (j *judgement) happened() {
	if j.alert == nil || !j.alert.LastSlot.Before(j.now) {
		return
	}
	for i := range j.c.Runs {
		if r := &j.c.Runs[i]; r.RunAt.Equal(j.alert.LastSlot) {
			if at := j.fulfilled(r); !at.IsZero() {
				j.close(schedule.ResolutionHappened)
				return
			}
		}
	}
}

// fulfilled is when a run did what is expected of its slot, or zero.
func (j *judgement) fulfilled(r *schedule.SlotRun) time.Time {
	if j.s.Kind == schedule.ExpectFinish {
		if r.Status == schedule.StatusSuccess {
			return r.CompletedAt
		}
		return time.Time{}
	}
	switch r.Status {
	case schedule.StatusEnqueued, schedule.StatusStarted, schedule.StatusSuccess:
		return begun(r)
	case schedule.StatusCancelled:
		return r.LaunchedAt // set with the executor's yes only
	case schedule.StatusFailed:
		if r.Reason == schedule.ReasonWorkflowFailed || r.Reason == schedule.ReasonTimeout {
			return begun(r)
		}
	}
	return time.Time{}
}

// begun is when the executor was called that has accepted the run.
func begun(r *schedule.SlotRun) time.Time {
	switch {
	case !r.LaunchedAt.IsZero():
		return r.LaunchedAt
	case !r.StartedAt.IsZero():
		return r.StartedAt
	}
	return r.ClaimedAt
}

// stopped says whether a person ended the run.
func stopped(r *schedule.SlotRun) bool {
	switch r.Reason {
	case schedule.ReasonPaused, schedule.ReasonDeleted, schedule.ReasonCancelled:
		return r.Status == schedule.StatusSkipped || r.Status == schedule.StatusCancelled
	}
	return false
}

func (j *judgement) verdictOn(e expected, paused []stop) (verdict, schedule.Cause) {
	deadline := e.at.Add(e.limit)
	cause := schedule.CauseNotPlanned
	begun, byHand, calling := false, false, false
	for i := range j.c.Runs {
		r := &j.c.Runs[i]
		if !r.RunAt.Equal(e.at) {
			continue
		}
		at := j.fulfilled(r)
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
	case byHand, !begun && stood(paused, e.at, deadline):
		return excused, ""
	case j.now.Before(deadline.Add(slack)), calling && j.now.Before(deadline.Add(answer)):
		return pending, ""
	}
	return late, cause
}

// patience is when the first slot without a verdict can be late.
func (j *judgement) patience(e expected) time.Time {
	deadline := e.at.Add(e.limit)
	if at := deadline.Add(slack); at.After(j.now) {
		return at
	}
	return deadline.Add(answer) // a call is under way
}

// causeOf says what a run of a late slot stands at.
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
	}
	return schedule.CauseStillRunning
}
