package expect

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// successes evaluates the kind success. The limit counts from the last success,
// but not from before the expectation was set, its limit was edited, or the last
// pause ended. If the rule has no slot for longer than the limit, for example
// before start_at, it counts from the next slot. It does not run while the schedule
// is paused or after its last slot.
func (v *evaluation) successes(limit time.Duration) {
	s := v.c.Schedule
	if now := uint32(limit.Milliseconds()); v.s.LimitMS != now {
		if v.s.LimitMS != 0 {
			v.s.WatchedSince = schedule.Later(v.s.WatchedSince, s.RevisedAt)
		}
		v.s.LimitMS = now
	}
	if v.c.LastSuccess.After(v.s.MetAt) {
		v.met(v.c.LastSuccess)
	}
	if s.Pause.Active(v.now) {
		v.s.JudgeAt = s.Pause.Until
		return
	}
	since := schedule.Later(v.s.MetAt, v.s.WatchedSince)
	for _, p := range pauses(v.c) {
		since = schedule.Later(since, p.until)
	}
	due, ok := v.due(since, limit)
	if !ok {
		v.s.JudgeAt = time.Time{}
		return
	}
	v.s.JudgedUntil = v.now
	over := v.now.Sub(due) - slack
	if over < 0 {
		v.s.JudgeAt = due.Add(slack)
		if v.alert == nil { // the limit counts from a later time now
			v.s.Status, v.s.Late, v.s.LateSince = schedule.ExpectationOK, 0, time.Time{}
		}
		return
	}
	periods := int64(over/limit) + 1
	b := broken{slot: since, deadline: due, cause: schedule.CauseNoSuccess, limit: limit, inRow: periods}
	failure := v.c.Failure
	if failure != nil && failure.LastEndedAt.After(since) {
		b.cause = failureCause(failure)
	} else {
		failure = nil
	}
	v.late(b)
	if failure != nil && v.alert != nil {
		v.alert.RunKey, v.alert.Detail = failure.LastKey, detail(failure)
	}
	v.s.JudgeAt = due.Add(time.Duration(periods)*limit + slack)
}

// due is when the next success after since is required; false: the rule has no more
// slots.
func (v *evaluation) due(since time.Time, limit time.Duration) (time.Time, bool) {
	s := v.c.Schedule
	if s.ByHand() {
		return since.Add(limit), true // started by hand or by another program
	}
	all, err := eras(v.c)
	if err != nil {
		return since.Add(limit), true // an unreadable rule plans nothing either
	}
	next, ok := all[len(all)-1].timetable.Next(since)
	due := since.Add(limit)
	if ok && next.After(due) {
		due = next.Add(limit)
	}
	return due, ok
}
