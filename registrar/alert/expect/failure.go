package expect

import (
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// pausedLook is how soon an open alert of a paused schedule is looked at again.
const pausedLook = 5 * time.Minute

// failures judges kind failure: an alert is open while the schedule fails, from
// its alert_after-th failed run to its next success. The store wakes the judge
// when runs fail or succeed, so there is no limit and no deadline.
func (j *judgement) failures() Outcome {
	f := j.c.Failure
	j.s.JudgedUntil, j.s.JudgeAt = j.now, time.Time{}
	if f == nil {
		j.met(j.now)
		return j.outcome(true)
	}
	if !j.s.LateSince.IsZero() && !j.s.LateSince.Equal(f.FirstRunAt) { // a success came between
		j.met(j.now)
	}
	j.s.Late, j.s.LateSince = f.Failures, f.FirstRunAt
	if !j.alertsOnFailure() {
		j.close(schedule.ResolutionRemoved)
		j.s.Status = schedule.ExpectationOK // the row stays: it says up to where failures are known
		return j.outcome(false)
	}
	j.late(broken{slot: f.LastRunAt, deadline: f.LastEndedAt, cause: failureCause(f), inRow: f.Failures, named: f.FirstEndedAt})
	if j.alert != nil {
		j.alert.RunKey, j.alert.Detail = f.LastKey, detail(f)
	}
	if j.c.Schedule.Pause.Active(j.now) {
		if j.alert != nil {
			j.sooner(j.now.Add(pausedLook))
		}
		return j.outcome(false)
	}
	j.remind()
	return j.outcome(false)
}

// alertsOnFailure: the schedule's own word wins over DEFAULT_EXPECT.
func (j *judgement) alertsOnFailure() bool {
	word := j.c.Schedule.Expect.OnFailure
	if word == "" {
		word = j.c.OnFailure
	}
	return word == schedule.OnFailureAlert
}

// failureCause is the reason of the newest failed run. For a run that no executor
// accepted it is what its launch attempts met: "lost" names no cause.
func failureCause(f *schedule.Failure) schedule.Cause {
	switch f.Reason {
	case schedule.ReasonLost, schedule.ReasonLaunchUnavailable:
		if schedule.ErrorCode(f.ErrorCode).OfLaunch() {
			return schedule.Cause(f.ErrorCode)
		}
	}
	return schedule.Cause(f.Reason)
}

// detail is the error of the newest failed run.
func detail(f *schedule.Failure) string {
	text := f.ErrorMessage
	if f.ErrorCode != "" {
		text = strings.TrimSuffix(f.ErrorCode+": "+text, ": ")
	}
	if len(text) > schedule.MaxAlertDetail {
		text = strings.ToValidUTF8(text[:schedule.MaxAlertDetail-len("…")], "") + "…"
	}
	return text
}
