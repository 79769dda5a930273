package expect

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// successes judges kind success. The clock starts at the last success, and no
// earlier than the promise, an edit of its limit, or the end of the last pause;
// where the rule asks for nothing for longer than the limit, as before start_at,
// it starts at the next slot. It stands while the schedule is paused, and once
// the rule asks for nothing more.
func (j *judgement) successes(limit time.Duration) {
	s := j.c.Schedule
	if now := uint32(limit.Milliseconds()); j.s.LimitMS != now {
		if j.s.LimitMS != 0 {
			j.s.WatchedSince = schedule.Later(j.s.WatchedSince, s.RevisedAt)
		}
		j.s.LimitMS = now
	}
	if j.c.LastSuccess.After(j.s.MetAt) {
		j.met(j.c.LastSuccess)
	}
	if s.Pause.Active(j.now) {
		j.s.JudgeAt = s.Pause.Until
		return
	}
	since := schedule.Later(j.s.MetAt, j.s.WatchedSince)
	for _, p := range stops(j.c) {
		since = schedule.Later(since, p.until)
	}
	due, ok := j.due(since, limit)
	if !ok {
		j.s.JudgeAt = time.Time{}
		return
	}
	j.s.JudgedUntil = j.now
	over := j.now.Sub(due) - slack
	if over < 0 {
		j.s.JudgeAt = due.Add(slack)
		if j.alert == nil { // the clock was set anew
			j.s.Status, j.s.Late, j.s.LateSince = schedule.ExpectationOK, 0, time.Time{}
		}
		return
	}
	periods := int64(over/limit) + 1
	b := broken{slot: since, deadline: due, cause: schedule.CauseNoSuccess, limit: limit, inRow: periods}
	failure := j.c.Failure
	if failure != nil && failure.LastEndedAt.After(since) {
		b.cause = failureCause(failure)
	} else {
		failure = nil
	}
	j.late(b)
	if failure != nil && j.alert != nil {
		j.alert.RunKey, j.alert.Detail = failure.LastKey, detail(failure)
	}
	j.s.JudgeAt = due.Add(time.Duration(periods)*limit + slack)
}

// due is when there must have been a success, behind one at since; false: the
// rule asks for none.
func (j *judgement) due(since time.Time, limit time.Duration) (time.Time, bool) {
	s := j.c.Schedule
	if s.CronExpr == "" && s.IntervalMS == 0 && s.OnceAt.IsZero() {
		return since.Add(limit), true // it is started by hand, or by another program
	}
	all, err := eras(j.c)
	if err != nil {
		return since.Add(limit), true // a rule that cannot be read any more plans nothing either
	}
	next, ok := all[len(all)-1].timetable.Next(since)
	due := since.Add(limit)
	if ok && next.After(due) {
		due = next.Add(limit)
	}
	return due, ok
}
