package expect_test

import (
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/alert/expect"
)

// failingCase is a schedule that has failed n times in a row, the first at first.
func failingCase(c *schedule.ExpectationCase, first string, n int64) {
	begin := at(first)
	last := begin.Add(time.Duration(n-1) * time.Hour)
	c.Failure = &schedule.Failure{
		ScheduleID: c.Schedule.ScheduleID, Failures: n, FirstRunAt: begin, FirstEndedAt: begin.Add(time.Second), LastRunAt: last, LastEndedAt: last.Add(time.Second),
		LastKey: schedule.SlotKey(c.Schedule.ScheduleID, last), Reason: schedule.ReasonWorkflowFailed, ErrorCode: "exit", ErrorMessage: "status 3",
	}
}

func watchedFailures(e schedule.Expect, byDefault schedule.OnFailure) *schedule.ExpectationCase {
	c := watched(hourly(e), schedule.ExpectNoFailure)
	c.OnFailure = byDefault
	return c
}

func TestAFailingScheduleAlertsOnceAndRecovers(t *testing.T) {
	c := watchedFailures(schedule.Expect{}, schedule.OnFailureAlert)
	failingCase(c, "12:00:00", 1)
	told := step(c, "12:00:02")
	wantTypes(t, "the first failure", told, expect.NoticeOpened)
	a := told[0].Alert
	if a.Cause != "workflow_failed" || a.Detail != "exit: status 3" || a.RunKey != c.Failure.LastKey || !a.FirstSlot.Equal(at("12:00:00")) || a.Late != 1 {
		t.Errorf("the alert is %+v", a)
	}
	failingCase(c, "12:00:00", 2)
	wantTypes(t, "the second", step(c, "13:00:02"))
	if c.Alert == nil || c.Alert.Late != 2 || !c.Alert.LastSlot.Equal(at("13:00:00")) {
		t.Errorf("the alert grows: %+v", c.Alert)
	}
	c.Failure = nil
	out := expect.Evaluate(c, at("14:00:02"))
	if !out.Drop || len(out.Notices) != 1 || out.Notices[0].Type != expect.NoticeRecovered || out.Notices[0].Alert.Resolution != schedule.ResolutionRecovered {
		t.Errorf("a success ends it: %+v", out)
	}
}

func TestAFailingScheduleThatDoesNotRunAgainIsToldAgain(t *testing.T) {
	c := watchedFailures(schedule.Expect{RemindEveryMS: 300_000}, schedule.OnFailureAlert)
	failingCase(c, "12:00:00", 1)
	wantTypes(t, "the failure", step(c, "12:00:02"), expect.NoticeOpened)
	if !c.State.JudgeAt.Equal(at("12:05:02")) {
		t.Errorf("it is looked at again at %v: no run ends before, so no reminder would come", c.State.JudgeAt)
	}
	wantTypes(t, "five minutes later", step(c, "12:05:02"), expect.NoticeReminder)
}

func TestWhoIsToldOfFailures(t *testing.T) {
	for _, c := range []struct {
		name      string
		expect    schedule.Expect
		byDefault schedule.OnFailure
		failures  int64
		told      bool
	}{
		{name: "DEFAULT_EXPECT=failure", byDefault: schedule.OnFailureAlert, failures: 1, told: true},
		{name: "DEFAULT_EXPECT=none", byDefault: schedule.OnFailureIgnore, failures: 1},
		{name: "a registrar without the setting", failures: 1},
		{name: "the schedule's own word wins over none", expect: schedule.Expect{OnFailure: schedule.OnFailureAlert, AlertAfter: 1}, byDefault: schedule.OnFailureIgnore, failures: 1, told: true},
		{name: "the schedule's own word wins over failure", expect: schedule.Expect{OnFailure: schedule.OnFailureIgnore, AlertAfter: 1}, byDefault: schedule.OnFailureAlert, failures: 1},
		{name: "fewer than alert_after", expect: schedule.Expect{OnFailure: schedule.OnFailureAlert, AlertAfter: 3}, failures: 2},
		{name: "alert_after", expect: schedule.Expect{OnFailure: schedule.OnFailureAlert, AlertAfter: 3}, failures: 3, told: true},
		{name: "another promise leaves the default", expect: schedule.Expect{StartWithinMS: 60_000, AlertAfter: 1}, byDefault: schedule.OnFailureAlert, failures: 1, told: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := watchedFailures(c.expect, c.byDefault)
			failingCase(x, "12:00:00", c.failures)
			told := step(x, "15:00:02")
			if (len(told) == 1) != c.told {
				t.Errorf("told %+v", told)
			}
			if x.State.Late != c.failures || !x.State.LateSince.Equal(at("12:00:00")) {
				t.Errorf("an evaluation is noted, so that it is not repeated: %+v", x.State)
			}
		})
	}
}

func TestASilencedScheduleClosesItsAlert(t *testing.T) {
	c := watchedFailures(schedule.Expect{}, schedule.OnFailureAlert)
	failingCase(c, "12:00:00", 1)
	wantTypes(t, "it fails", step(c, "12:00:02"), expect.NoticeOpened)
	c.Schedule.Expect = schedule.Expect{OnFailure: schedule.OnFailureIgnore, AlertAfter: 1}
	told := step(c, "12:10:00")
	wantTypes(t, "it is told no more", told, expect.NoticeRecovered)
	if told[0].Alert.Resolution != schedule.ResolutionRemoved || c.State.Status != schedule.ExpectationOK {
		t.Errorf("closed as %+v, state %+v", told[0].Alert, c.State)
	}
}

func TestALongErrorIsCut(t *testing.T) {
	c := watchedFailures(schedule.Expect{}, schedule.OnFailureAlert)
	failingCase(c, "12:00:00", 1)
	c.Failure.ErrorMessage = strings.Repeat("é", 600)
	told := step(c, "12:00:02")
	if d := told[0].Alert.Detail; len(d) > schedule.MaxAlertDetail || !strings.HasSuffix(d, "é…") {
		t.Errorf("detail of %d bytes ends in %q", len(d), d[len(d)-8:])
	}
}

func TestTheCauseOfAFailureIsWhatTheLaunchMet(t *testing.T) {
	for _, c := range []struct {
		name   string
		reason schedule.Reason
		code   string
		want   schedule.Cause
	}{
		{"the executor was down until the run was given up", schedule.ReasonLaunchUnavailable, "executor_unreachable", "executor_unreachable"},
		{"the executor answered 500 until the run was given up", schedule.ReasonLost, "executor_error", "executor_error"},
		{"a run that reported nothing", schedule.ReasonLost, "", "lost"},
		{"the local executor's process died", schedule.ReasonLost, "lost", "lost"},
		{"an executor's own code that is the same word", schedule.ReasonWorkflowFailed, "executor_error", "workflow_failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := watchedFailures(schedule.Expect{}, schedule.OnFailureAlert)
			failingCase(x, "12:00:00", 1)
			x.Failure.Reason, x.Failure.ErrorCode = c.reason, c.code
			step(x, "12:00:02")
			if x.Alert == nil || x.Alert.Cause != c.want {
				t.Errorf("the alert is %+v, want cause %s", x.Alert, c.want)
			}
		})
	}
}
