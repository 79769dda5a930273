package expect_test

import (
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/alert/expect"
)

// t0 is when the schedules of these tests were made: an hour before noon.
var t0 = time.Date(2026, 5, 4, 11, 0, 0, 0, time.UTC)

func at(clock string) time.Time {
	d, err := time.Parse("15:04:05", clock)
	if err != nil {
		panic(err)
	}
	return t0.Truncate(24 * time.Hour).Add(d.Sub(d.Truncate(24 * time.Hour)))
}

// hourly is a schedule at every full hour with a promise.
func hourly(e schedule.Expect) *schedule.Schedule {
	return &schedule.Schedule{
		Definition: schedule.Definition{
			ScheduleID: "nightly", WorkflowID: "report", Version: 1, UserID: "ada", CronExpr: "0 * * * *", Timezone: "UTC", DST: schedule.DSTVixie,
			RunTimeoutMS: 3_600_000, Expect: e,
		},
		Revision: 1, RevisedAt: t0, CreatedAt: t0,
	}
}

func watched(s *schedule.Schedule, kind schedule.ExpectationKind, runs ...schedule.SlotRun) *schedule.ExpectationCase {
	return &schedule.ExpectationCase{
		Schedule: s, Runs: runs,
		State: schedule.ExpectationState{ScheduleID: s.ScheduleID, Kind: kind, Status: schedule.ExpectationOK, WatchedSince: t0, JudgedUntil: t0},
	}
}

func success(slot, began, ended string) schedule.SlotRun {
	return schedule.SlotRun{RunAt: at(slot), Status: schedule.StatusSuccess, ClaimedAt: at(began), LaunchedAt: at(began), StartedAt: at(began), CompletedAt: at(ended)}
}

func ended(slot string, status schedule.Status, reason schedule.Reason) schedule.SlotRun {
	return schedule.SlotRun{RunAt: at(slot), Status: status, Reason: reason, CompletedAt: at(slot)}
}

func within(d time.Duration, kind schedule.ExpectationKind) schedule.Expect {
	e := schedule.Expect{AlertAfter: 1}
	switch kind {
	case schedule.ExpectStart:
		e.StartWithinMS = uint32(d.Milliseconds())
	case schedule.ExpectFinish:
		e.FinishWithinMS = uint32(d.Milliseconds())
	case schedule.ExpectSuccess:
		e.SuccessEveryMS = uint32(d.Milliseconds())
	}
	return e
}

func TestASlotIsJudgedByWhatBecameOfIt(t *testing.T) {
	start, finish := schedule.ExpectStart, schedule.ExpectFinish
	launching := schedule.SlotRun{RunAt: at("12:00:00"), Status: schedule.StatusLaunching, ClaimedAt: at("12:00:00")}
	running := schedule.SlotRun{RunAt: at("12:00:00"), Status: schedule.StatusStarted, ClaimedAt: at("12:00:00"), LaunchedAt: at("12:00:01"), StartedAt: at("12:00:02")}
	failed := running
	failed.Status, failed.Reason, failed.CompletedAt = schedule.StatusFailed, schedule.ReasonWorkflowFailed, at("12:02:00")
	refused := failed
	refused.Reason = schedule.ReasonLaunchRefused
	for _, c := range []struct {
		name  string
		kind  schedule.ExpectationKind
		runs  []schedule.SlotRun
		now   string
		cause schedule.Cause // empty: not late
	}{
		{name: "nobody planned it", kind: start, now: "12:05:02", cause: schedule.CauseNotPlanned},
		{name: "nobody planned it, and its time is not quite over", kind: start, now: "12:05:01"},
		{name: "it is planned and nobody claims it", kind: start, runs: []schedule.SlotRun{{RunAt: at("12:00:00"), Status: schedule.StatusPlanned}}, now: "12:05:02", cause: schedule.CauseNotClaimed},
		{name: "it started in time", kind: start, runs: []schedule.SlotRun{running}, now: "12:30:00"},
		{name: "it started in time and failed", kind: start, runs: []schedule.SlotRun{failed}, now: "12:30:00"},
		{name: "the executor would not have it", kind: start, runs: []schedule.SlotRun{refused}, now: "12:30:00", cause: "launch_refused"},
		{name: "it started late", kind: start, runs: []schedule.SlotRun{success("12:00:00", "12:05:01", "12:06:00")}, now: "12:30:00", cause: schedule.CauseTooLate},
		{name: "it started at the last moment", kind: start, runs: []schedule.SlotRun{success("12:00:00", "12:05:00", "12:06:00")}, now: "12:30:00"},
		{name: "the executor has not answered yet", kind: start, runs: []schedule.SlotRun{launching}, now: "12:05:20"},
		{name: "the executor does not answer", kind: start, runs: []schedule.SlotRun{launching}, now: "12:05:31", cause: schedule.CauseNotAccepted},
		{name: "it was skipped for an overlap", kind: start, runs: []schedule.SlotRun{ended("12:00:00", schedule.StatusSkipped, schedule.ReasonOverlap)}, now: "12:05:02", cause: "overlap"},
		{name: "its grant was revoked", kind: start, runs: []schedule.SlotRun{ended("12:00:00", schedule.StatusSkipped, schedule.ReasonGrantRevoked)}, now: "12:05:02", cause: "grant_revoked"},
		{name: "a pause ended it", kind: start, runs: []schedule.SlotRun{ended("12:00:00", schedule.StatusSkipped, schedule.ReasonPaused)}, now: "12:30:00"},
		{name: "somebody cancelled it", kind: finish, runs: []schedule.SlotRun{ended("12:00:00", schedule.StatusCancelled, schedule.ReasonCancelled)}, now: "12:30:00"},
		{name: "a newer one replaced it", kind: finish, runs: []schedule.SlotRun{ended("12:00:00", schedule.StatusCancelled, schedule.ReasonReplaced)}, now: "12:30:00", cause: "replaced"},
		{name: "it finished in time", kind: finish, runs: []schedule.SlotRun{success("12:00:00", "12:00:00", "12:05:00")}, now: "12:30:00"},
		{name: "it still runs", kind: finish, runs: []schedule.SlotRun{running}, now: "12:05:02", cause: schedule.CauseStillRunning},
		{name: "it finished in time, but failed", kind: finish, runs: []schedule.SlotRun{failed}, now: "12:05:02", cause: "workflow_failed"},
		{name: "it failed, and a retry succeeded in time", kind: finish, runs: []schedule.SlotRun{failed, success("12:00:00", "12:03:00", "12:04:00")}, now: "12:30:00"},
		{name: "it failed, and a retry succeeded too late", kind: finish, runs: []schedule.SlotRun{failed, success("12:00:00", "12:03:00", "12:06:00")}, now: "12:30:00", cause: schedule.CauseTooLate},
		{name: "another slot's run does not count", kind: finish, runs: []schedule.SlotRun{success("11:59:00", "12:00:00", "12:01:00")}, now: "12:05:02", cause: schedule.CauseNotPlanned},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := expect.Evaluate(watched(hourly(within(5*time.Minute, c.kind)), c.kind, c.runs...), at(c.now))
			if c.cause == "" {
				if len(out.Notices) != 0 || out.State.Status != schedule.ExpectationOK {
					t.Fatalf("alarmed: %+v", out)
				}
				return
			}
			if len(out.Notices) != 1 || out.Notices[0].Type != expect.NoticeOpened || out.Notices[0].Alert.Cause != c.cause {
				t.Fatalf("notices %+v, want one opened for %s", out.Notices, c.cause)
			}
			if a := out.Notices[0].Alert; !a.LastSlot.Equal(at("12:00:00")) || !a.Deadline.Equal(at("12:05:00")) || a.Late != 1 || out.State.AlertID != a.AlertID {
				t.Errorf("the alert is %+v, in state %+v", a, out.State)
			}
		})
	}
}

// step evaluates c once more at a time and goes on from there.
func step(c *schedule.ExpectationCase, clock string) []expect.Notice {
	out := expect.Evaluate(c, at(clock))
	c.State, c.Alert = out.State, nil
	for i := range out.Alerts {
		if out.Alerts[i].ClosedAt.IsZero() {
			c.Alert = &out.Alerts[i]
		}
	}
	return out.Notices
}

func types(notices []expect.Notice) (found []expect.NoticeType) {
	for _, n := range notices {
		found = append(found, n.Type)
	}
	return found
}

func wantTypes(t *testing.T, when string, got []expect.Notice, want ...expect.NoticeType) {
	t.Helper()
	found := types(got)
	if len(found) != len(want) {
		t.Fatalf("%s: told %v, want %v", when, found, want)
	}
	for i := range want {
		if found[i] != want[i] {
			t.Fatalf("%s: told %v, want %v", when, found, want)
		}
	}
}

func TestAnAlertIsToldOnceAtItsEdgeAndOnceWhenItIsOver(t *testing.T) {
	e := within(5*time.Minute, schedule.ExpectStart)
	e.AlertAfter = 2
	c := watched(hourly(e), schedule.ExpectStart)
	wantTypes(t, "one late slot of two", step(c, "12:06:00"))
	if c.State.Status != schedule.ExpectationLate || c.State.Late != 1 {
		t.Fatalf("after one: %+v", c.State)
	}
	wantTypes(t, "the second in a row", step(c, "13:06:00"), expect.NoticeOpened)
	wantTypes(t, "the same again", step(c, "13:07:00"))
	wantTypes(t, "a third", step(c, "14:06:00"))
	if c.Alert == nil || c.Alert.Late != 3 || !c.Alert.FirstSlot.Equal(at("12:00:00")) || !c.Alert.LastSlot.Equal(at("14:00:00")) {
		t.Fatalf("the open alert is %+v", c.Alert)
	}
	c.Runs = []schedule.SlotRun{success("15:00:00", "15:00:00", "15:01:00")}
	closed := step(c, "15:00:10")
	wantTypes(t, "one in time", closed, expect.NoticeRecovered)
	if a := closed[0].Alert; a.Resolution != schedule.ResolutionRecovered || a.Late != 3 {
		t.Errorf("closed as %+v", a)
	}
	wantTypes(t, "and after it", step(c, "15:30:00"))
	if c.State.Status != schedule.ExpectationOK || c.State.Late != 0 || !c.State.MetAt.Equal(at("15:00:00")) {
		t.Errorf("in the end %+v", c.State)
	}
}

func TestWhatIsLookedAtLateIsToldOnce(t *testing.T) {
	e := within(5*time.Minute, schedule.ExpectStart)
	c := watched(hourly(e), schedule.ExpectStart,
		success("13:00:00", "13:00:00", "13:01:00"), success("15:00:00", "15:00:00", "15:01:00"))
	got := step(c, "17:30:00") // 12 late, 13 in time, 14 late, 15 in time, 16 and 17 late
	wantTypes(t, "hours later", got, expect.NoticeOpened)
	if a := got[0].Alert; a.Late != 2 || !a.LastSlot.Equal(at("17:00:00")) || !a.ClosedAt.IsZero() {
		t.Errorf("told %+v", a)
	}
}

func TestAReportThatCameLateClosesItsAlertWhileNoOtherIsDue(t *testing.T) {
	c := watched(hourly(within(5*time.Minute, schedule.ExpectFinish)), schedule.ExpectFinish)
	wantTypes(t, "late", step(c, "12:06:00"), expect.NoticeOpened)
	c.Runs = []schedule.SlotRun{success("12:00:00", "12:00:00", "12:10:00")}
	got := step(c, "12:10:05")
	wantTypes(t, "it has come", got, expect.NoticeRecovered)
	if got[0].Alert.Resolution != schedule.ResolutionHappened || c.State.Late != 1 {
		t.Errorf("closed as %+v in %+v", got[0].Alert, c.State)
	}
	c.Runs = nil
	got = step(c, "13:06:00")
	wantTypes(t, "the next is late again", got, expect.NoticeOpened)
	if got[0].Alert.Late != 2 {
		t.Errorf("the row goes on: %+v", got[0].Alert)
	}
}

func TestAnEditHoldsForTheSlotsBehindIt(t *testing.T) {
	s := hourly(within(5*time.Minute, schedule.ExpectStart))
	old := *s
	s.Revision, s.RevisedAt, s.CronExpr = 2, at("12:30:00"), "45 * * * *"
	c := watched(s, schedule.ExpectStart, success("12:00:00", "12:00:00", "12:00:01"))
	c.Revisions = []schedule.Revision{{Revision: 2, Definition: s.Definition, CreatedAt: s.RevisedAt}, {Revision: 1, Definition: old.Definition, CreatedAt: t0}}
	got := step(c, "13:30:00")
	wantTypes(t, "after the edit", got, expect.NoticeOpened)
	if a := got[0].Alert; !a.FirstSlot.Equal(at("12:45:00")) || a.Late != 1 {
		t.Errorf("late is %+v: 12:00 ran under the old rule, 13:00 is no slot of the new one", a)
	}

	tighter := hourly(within(5*time.Minute, schedule.ExpectStart))
	loose := *tighter
	loose.Expect = within(50*time.Minute, schedule.ExpectStart)
	tighter.Revision, tighter.RevisedAt = 2, at("12:30:00")
	c = watched(tighter, schedule.ExpectStart)
	c.Revisions = []schedule.Revision{{Revision: 2, Definition: tighter.Definition, CreatedAt: tighter.RevisedAt}, {Revision: 1, Definition: loose.Definition, CreatedAt: t0}}
	wantTypes(t, "the slot before a tightening has its own limit", step(c, "12:31:00"))
	wantTypes(t, "and is late by that", step(c, "12:50:02"), expect.NoticeOpened)

	bare := *tighter
	bare.Expect = schedule.Expect{}
	c.Revisions[1].Definition = bare.Definition
	c.State, c.Alert = watched(tighter, schedule.ExpectStart).State, nil
	wantTypes(t, "nothing was promised of the slot before", step(c, "12:59:00"))
}

func TestWhilePausedNothingIsExpected(t *testing.T) {
	event := func(kind schedule.EventKind, clock string) schedule.Event {
		return schedule.Event{ScheduleID: "nightly", Kind: kind, Time: at(clock)}
	}
	byItself := event(schedule.EventPauseEnded, "14:40:00")
	byItself.From = at("13:30:00")
	for _, c := range []struct {
		name   string
		pauses []schedule.Event
		pause  schedule.Pause
		late   int64
	}{
		{name: "never", late: 3},
		{name: "over one slot", pauses: []schedule.Event{event(schedule.EventPaused, "12:30:00"), event(schedule.EventResumed, "13:30:00")}, late: 2},
		{name: "right behind a slot that had not started", pauses: []schedule.Event{event(schedule.EventPaused, "13:03:00"), event(schedule.EventResumed, "13:04:00")}, late: 2},
		{name: "right behind a deadline", pauses: []schedule.Event{event(schedule.EventPaused, "13:05:01"), event(schedule.EventResumed, "13:59:00")}, late: 3},
		{name: "since its creation", pauses: []schedule.Event{event(schedule.EventResumed, "13:30:00")}, late: 1},
		{name: "still", pauses: []schedule.Event{event(schedule.EventPaused, "12:30:00")}, pause: schedule.Pause{Paused: true}, late: 1},
		{name: "from its creation, and still", pause: schedule.Pause{Paused: true}},
		{name: "until an end that the planner noted late", pauses: []schedule.Event{event(schedule.EventPaused, "12:30:00"), byItself}, late: 2},
		{name: "until an end that no planner has noted", pauses: []schedule.Event{event(schedule.EventPaused, "12:30:00")}, pause: schedule.Pause{Paused: true, Until: at("13:30:00")}, late: 2},
		{name: "paused twice without an end between", pauses: []schedule.Event{event(schedule.EventPaused, "11:30:00"), event(schedule.EventPaused, "13:30:00"), event(schedule.EventResumed, "13:40:00")}, late: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := hourly(within(5*time.Minute, schedule.ExpectStart))
			s.Pause = c.pause
			x := watched(s, schedule.ExpectStart)
			x.Pauses = c.pauses
			out := expect.Evaluate(x, at("14:50:00"))
			if out.State.Late != c.late {
				t.Errorf("late %d, want %d", out.State.Late, c.late)
			}
		})
	}
}

func TestTheEndOfAPromiseClosesItsAlert(t *testing.T) {
	c := watched(hourly(within(5*time.Minute, schedule.ExpectStart)), schedule.ExpectStart)
	wantTypes(t, "late", step(c, "12:06:00"), expect.NoticeOpened)
	open := *c
	for _, end := range []struct {
		name string
		edit func(*schedule.ExpectationCase)
		want schedule.Resolution
	}{
		{"deleted", func(c *schedule.ExpectationCase) { c.Schedule.DeletedAt = at("12:10:00") }, schedule.ResolutionDeleted},
		{"pruned", func(c *schedule.ExpectationCase) { c.Schedule = nil }, schedule.ResolutionDeleted},
		{"promised no more", func(c *schedule.ExpectationCase) { c.Schedule.Expect = schedule.Expect{} }, schedule.ResolutionRemoved},
	} {
		t.Run(end.name, func(t *testing.T) {
			c := open
			s := *open.Schedule
			c.Schedule = &s
			end.edit(&c)
			out := expect.Evaluate(&c, at("12:20:00"))
			if !out.Drop || len(out.Notices) != 1 || out.Notices[0].Type != expect.NoticeRecovered || out.Notices[0].Alert.Resolution != end.want {
				t.Errorf("got %+v", out)
			}
		})
	}
}

func TestSuccessEvery(t *testing.T) {
	success := schedule.ExpectSuccess
	c := watched(hourly(within(90*time.Minute, success)), success)
	wantTypes(t, "younger than its promise", step(c, "12:29:00"))
	if !c.State.JudgeAt.Equal(at("12:30:02")) {
		t.Errorf("looked at again %v", c.State.JudgeAt)
	}
	got := step(c, "12:30:02")
	wantTypes(t, "never since", got, expect.NoticeOpened)
	if a := got[0].Alert; !a.FirstSlot.Equal(t0) || a.Cause != schedule.CauseNoSuccess {
		t.Errorf("told %+v", a)
	}
	c.Failure = &schedule.Failure{
		LastEndedAt: at("13:00:10"), Reason: schedule.ReasonLaunchUnavailable, ErrorCode: string(schedule.CodeExecutorUnreachable), ErrorMessage: "connection refused",
	}
	wantTypes(t, "one limit later", step(c, "14:00:02"))
	if a := c.Alert; a.Cause != schedule.Cause(schedule.CodeExecutorUnreachable) || a.Detail != "executor_unreachable: connection refused" {
		t.Errorf("its runs failed: %q, %q", a.Cause, a.Detail)
	}
	if c.Alert.Late != 2 {
		t.Errorf("late %d, want 2", c.Alert.Late)
	}
	c.LastSuccess = at("14:10:00")
	wantTypes(t, "a success", step(c, "14:10:05"), expect.NoticeRecovered)
	c.Schedule.Pause = schedule.Pause{Paused: true, Until: at("20:00:00")}
	wantTypes(t, "paused for hours", step(c, "19:00:00"))
	c.Schedule.Pause = schedule.Pause{}
	c.Pauses = []schedule.Event{{Kind: schedule.EventPaused, Time: at("14:30:00")}, {Kind: schedule.EventResumed, Time: at("20:00:00")}}
	wantTypes(t, "the clock starts when the pause is over", step(c, "21:29:00"))
	wantTypes(t, "and runs out", step(c, "21:30:02"), expect.NoticeOpened)
}

func TestNoSuccessIsExpectedWhereTheRuleAsksForNone(t *testing.T) {
	e := within(90*time.Minute, schedule.ExpectSuccess)
	s := hourly(e)
	s.StartAt = at("18:00:00")
	c := watched(s, schedule.ExpectSuccess)
	wantTypes(t, "before start_at", step(c, "17:59:00"))
	wantTypes(t, "within the limit behind the first slot", step(c, "19:29:00"))
	wantTypes(t, "behind it", step(c, "19:30:02"), expect.NoticeOpened)

	s = hourly(e)
	s.EndAt = at("12:00:00")
	c = watched(s, schedule.ExpectSuccess)
	c.LastSuccess = at("12:00:30")
	wantTypes(t, "after end_at", step(c, "23:00:00"))
	if !c.State.JudgeAt.IsZero() {
		t.Errorf("what has ended is looked at again at %v", c.State.JudgeAt)
	}

	byHand := hourly(e)
	byHand.CronExpr = ""
	c = watched(byHand, schedule.ExpectSuccess)
	wantTypes(t, "a schedule that others start", step(c, "12:30:02"), expect.NoticeOpened)
}

func TestAnOpenAlertIsToldAgainUntilSomebodySeesToIt(t *testing.T) {
	e := within(5*time.Minute, schedule.ExpectStart)
	e.RemindEveryMS = uint32((30 * time.Minute).Milliseconds())
	c := watched(hourly(e), schedule.ExpectStart)
	wantTypes(t, "late", step(c, "12:06:00"), expect.NoticeOpened)
	wantTypes(t, "too soon", step(c, "12:35:00"))
	wantTypes(t, "half an hour later", step(c, "12:36:00"), expect.NoticeReminder)
	wantTypes(t, "the next", step(c, "13:06:00"), expect.NoticeReminder)
	c.Alert.AckedAt = at("13:10:00")
	wantTypes(t, "somebody sees to it", step(c, "14:20:00"))
}
