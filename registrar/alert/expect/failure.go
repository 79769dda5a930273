package expect

import (
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// pausedLook is the interval of evaluations of a paused schedule with an open
// alert.
const pausedLook = 5 * time.Minute

// failures evaluates the kind failure: an alert is open from the alert_after-th
// failed run to the next success. The store wakes the evaluation when runs fail or
// succeed, so there is no limit and no deadline.
func (v *evaluation) failures() Outcome {
	f := v.c.Failure
	v.s.JudgedUntil, v.s.JudgeAt = v.now, time.Time{}
	if f == nil {
		v.met(v.now)
		return v.outcome(true)
	}
	if !v.s.LateSince.IsZero() && !v.s.LateSince.Equal(f.FirstRunAt) { // a success came between
		v.met(v.now)
	}
	v.s.Late, v.s.LateSince = f.Failures, f.FirstRunAt
	if !v.alertsOnFailure() {
		v.close(schedule.ResolutionRemoved)
		v.s.Status = schedule.ExpectationOK // keep the row: it records up to where failures are known
		return v.outcome(false)
	}
	v.late(broken{slot: f.LastRunAt, deadline: f.LastEndedAt, cause: failureCause(f), inRow: f.Failures, named: f.FirstEndedAt})
	if v.alert != nil {
		v.alert.RunKey, v.alert.Detail = f.LastKey, detail(f)
	}
	if v.c.Schedule.Pause.Active(v.now) {
		if v.alert != nil {
			v.sooner(v.now.Add(pausedLook))
		}
		return v.outcome(false)
	}
	v.remind()
	return v.outcome(false)
}

// alertsOnFailure: the schedule's setting overrides DEFAULT_EXPECT.
func (v *evaluation) alertsOnFailure() bool {
	word := v.c.Schedule.Expect.OnFailure
	if word == "" {
		word = v.c.OnFailure
	}
	return word == schedule.OnFailureAlert
}

// failureCause is the reason of the newest failed run. If no executor accepted the
// run, it is the error of its launch attempts, because "lost" names no cause.
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
