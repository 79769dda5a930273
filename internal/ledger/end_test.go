package ledger_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

func TestWhatAnAnswerMakesOfARun(t *testing.T) {
	now := beginNow
	fireAt := now.Add(-time.Second)
	for _, c := range []struct {
		name    string
		outcome schedule.Outcome
		called  time.Time
		cancel  schedule.Reason
		want    schedule.Settlement
	}{
		{
			"an acceptance starts the run timeout",
			schedule.Outcome{Status: "ENQUEUED", RunID: "r"},
			now, "",
			schedule.Settlement{To: "ENQUEUED", RunID: "r", LaunchedAt: now, TimeoutAt: now.Add(time.Hour)},
		},
		{
			"a success ends the run",
			schedule.Outcome{Status: "SUCCESS", TraceID: "t"},
			now, "",
			schedule.Settlement{To: "SUCCESS", TraceID: "t", LaunchedAt: now, CompletedAt: now},
		},
		{
			"an answer to an earlier call was launched no earlier than fire_at",
			schedule.Outcome{Status: "SUCCESS"},
			time.Time{},
			"",
			schedule.Settlement{To: "SUCCESS", LaunchedAt: fireAt, CompletedAt: now},
		},
		{
			"a run that the executor refused was not launched",
			schedule.Outcome{Status: "FAILED", Reason: "launch_refused"},
			time.Time{},
			"",
			schedule.Settlement{To: "FAILED", Reason: "launch_refused", CompletedAt: now},
		},
		{
			"a failure after a cancel is cancelled",
			schedule.Outcome{Status: "FAILED", Reason: "workflow_failed", ErrorCode: "E"},
			now, "cancelled",
			schedule.Settlement{To: "CANCELLED", Reason: "cancelled", ErrorCode: "E", ErrorMessage: "answered FAILED after its cancel was requested", LaunchedAt: now, CompletedAt: now},
		},
		{
			"the executor's message stays",
			schedule.Outcome{Status: "FAILED", Reason: "workflow_failed", ErrorMessage: "broken"},
			now, "cancelled",
			schedule.Settlement{To: "CANCELLED", Reason: "cancelled", ErrorMessage: "broken", LaunchedAt: now, CompletedAt: now},
		},
		{
			"a success after a cancel is a success",
			schedule.Outcome{Status: "SUCCESS"},
			now, "cancelled",
			schedule.Settlement{To: "SUCCESS", LaunchedAt: now, CompletedAt: now},
		},
		{
			"a success of a run that was to be replaced is replaced",
			schedule.Outcome{Status: "SUCCESS"},
			now, "replaced",
			schedule.Settlement{To: "CANCELLED", Reason: "replaced", ErrorMessage: "answered SUCCESS after its cancel was requested", LaunchedAt: now, CompletedAt: now},
		},
		{
			"an acceptance of a run that is to be replaced is no end",
			schedule.Outcome{Status: "ENQUEUED"},
			now, "replaced",
			schedule.Settlement{To: "ENQUEUED", LaunchedAt: now, TimeoutAt: now.Add(time.Hour)},
		},
		{
			"a run that was skipped for a pause stays skipped after a cancel",
			schedule.Outcome{Status: "SKIPPED", Reason: "paused"},
			time.Time{},
			"replaced",
			schedule.Settlement{To: "SKIPPED", Reason: "paused", CompletedAt: now},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := schedule.Run{Key: schedule.Key{1}, FireAt: fireAt, ClaimedAt: fireAt.Add(-time.Second), CancelReason: c.cancel}
			if c.cancel != "" {
				run.CancelRequestedAt = now
			}
			c.want.Key, c.want.Deliveries = run.Key, 2
			got := ledger.SettlementOf(&run, &schedule.FinishRequest{Key: run.Key, Outcome: c.outcome, LaunchedAt: c.called, Deliveries: 2, RunTimeout: time.Hour}, now)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("settlement (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatAReportMakesOfARun(t *testing.T) {
	now := beginNow
	cancel := func(reason schedule.Reason) func(*schedule.Run) {
		return func(r *schedule.Run) { r.CancelRequestedAt, r.CancelReason = now, reason }
	}
	for _, c := range []struct {
		name   string
		run    func(*schedule.Run)
		report schedule.ExecutorReport
		want   schedule.Settlement
		maxRun time.Duration
	}{
		{
			"STARTED starts the run and its timeout", nil,
			schedule.ExecutorReport{Status: "STARTED", RunID: "r"},
			schedule.Settlement{To: "STARTED", RunID: "r", StartedAt: now, TimeoutAt: now.Add(time.Hour)},
			0,
		},
		{
			"a heartbeat moves the timeout only", func(r *schedule.Run) { r.StartedAt = now.Add(-time.Minute) },
			schedule.ExecutorReport{Status: "STARTED"},
			schedule.Settlement{To: "STARTED", TimeoutAt: now.Add(time.Hour)},
			0,
		},
		{
			"STARTED begins the longest run, if the answer to the launch is still to come", func(r *schedule.Run) { r.Status = "LAUNCHING" },
			schedule.ExecutorReport{Status: "STARTED"},
			schedule.Settlement{To: "STARTED", StartedAt: now, TimeoutAt: now.Add(time.Minute), DeadlineAt: now.Add(time.Minute)},
			time.Minute,
		},
		{
			"a heartbeat does not move the deadline, and the timeout at most as far", func(r *schedule.Run) { r.StartedAt, r.DeadlineAt = now.Add(-time.Minute), now.Add(59*time.Minute) },
			schedule.ExecutorReport{Status: "STARTED"},
			schedule.Settlement{To: "STARTED", TimeoutAt: now.Add(59 * time.Minute), DeadlineAt: now.Add(59 * time.Minute)},
			2 * time.Hour,
		},
		{
			"a heartbeat before a late deadline moves the timeout as ever", func(r *schedule.Run) { r.StartedAt, r.DeadlineAt = now.Add(-time.Minute), now.Add(61*time.Minute) },
			schedule.ExecutorReport{Status: "STARTED"},
			schedule.Settlement{To: "STARTED", TimeoutAt: now.Add(time.Hour), DeadlineAt: now.Add(61 * time.Minute)},
			2 * time.Hour,
		},
		{
			"a report that overtakes the launcher's answer says when it was launched", func(r *schedule.Run) { r.LaunchedAt = time.Time{} },
			schedule.ExecutorReport{Status: "SUCCESS"},
			schedule.Settlement{To: "SUCCESS", LaunchedAt: now.Add(-time.Second), CompletedAt: now},
			0,
		},
		{
			"a failure has the executor's code", nil,
			schedule.ExecutorReport{Status: "FAILED", ErrorCode: "E", ErrorMessage: "broken"},
			schedule.Settlement{To: "FAILED", Reason: "workflow_failed", ErrorCode: "E", ErrorMessage: "broken", CompletedAt: now},
			0,
		},
		{
			"a run that its executor lost is lost", nil,
			schedule.ExecutorReport{Status: "FAILED", ErrorCode: string(schedule.CodeLost)},
			schedule.Settlement{To: "FAILED", Reason: "lost", ErrorCode: string(schedule.CodeLost), CompletedAt: now},
			0,
		},
		{
			"a failure after a cancel is cancelled", cancel("cancelled"),
			schedule.ExecutorReport{Status: "FAILED"},
			schedule.Settlement{To: "CANCELLED", Reason: "cancelled", ErrorMessage: "reported FAILED after its cancel was requested", CompletedAt: now},
			0,
		},
		{
			"a failure after a cancel without a reason is cancelled", cancel(""),
			schedule.ExecutorReport{Status: "FAILED"},
			schedule.Settlement{To: "CANCELLED", Reason: "cancelled", ErrorMessage: "reported FAILED after its cancel was requested", CompletedAt: now},
			0,
		},
		{
			"a success after a cancel is a success", cancel("cancelled"),
			schedule.ExecutorReport{Status: "SUCCESS"},
			schedule.Settlement{To: "SUCCESS", CompletedAt: now},
			0,
		},
		{
			"a success of a run that was to be replaced is replaced", cancel("replaced"),
			schedule.ExecutorReport{Status: "SUCCESS"},
			schedule.Settlement{To: "CANCELLED", Reason: "replaced", ErrorMessage: "reported SUCCESS after its cancel was requested", CompletedAt: now},
			0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := schedule.Run{Key: schedule.Key{1}, Status: "ENQUEUED", FireAt: now.Add(-time.Second), LaunchedAt: now.Add(-time.Millisecond)}
			if c.run != nil {
				c.run(&run)
			}
			c.want.Key = run.Key
			if diff := cmp.Diff(c.want, ledger.SettlementOfReport(&run, &c.report, time.Hour, c.maxRun, now)); diff != "" {
				t.Errorf("settlement (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatACancelMakesOfARun(t *testing.T) {
	for status, want := range map[schedule.Status]struct {
		ends, requests, ok bool
	}{
		"PLANNED": {ends: true, ok: true}, "LAUNCHING": {ends: true, ok: true}, "ENQUEUED": {requests: true, ok: true},
		"STARTED": {requests: true, ok: true}, "SUCCESS": {}, "FAILED": {}, "SKIPPED": {}, "CANCELLED": {ok: true},
	} {
		end, request, ok := ledger.RequestCancel(&schedule.Run{Status: status}, schedule.ReasonCancelled, beginNow)
		if (end != nil) != want.ends || (request == schedule.ReasonCancelled) != want.requests || ok != want.ok {
			t.Errorf("%s: ends %v, requests %q, %t; want %+v", status, end, request, ok, want)
		}
		if end != nil && (end.To != schedule.StatusCancelled || end.Reason != schedule.ReasonCancelled) {
			t.Errorf("%s ends %s(%s), want CANCELLED(cancelled)", status, end.To, end.Reason)
		}
	}
	end, request, ok := ledger.RequestCancel(&schedule.Run{Status: schedule.StatusLaunching, Deliveries: 1}, schedule.ReasonReplaced, beginNow)
	if end != nil || request != schedule.ReasonReplaced || !ok {
		t.Errorf("a launch that may have been sent: ends %v, requests %q, %t; want a request", end, request, ok)
	}
}

func TestWhichAnswerSettlesARun(t *testing.T) {
	answers := map[string]schedule.Outcome{
		"accepted": {Status: "ENQUEUED"}, "unheard": {Status: "SUCCESS", Reason: "accepted"}, "refused": {Status: "FAILED", Reason: "launch_refused"},
		"success": {Status: "SUCCESS"}, "failed": {Status: "FAILED", Reason: "workflow_failed"},
	}
	for status, settling := range map[schedule.Status][]string{
		"PLANNED": nil, "LAUNCHING": {"accepted", "failed", "refused", "success", "unheard"},
		"ENQUEUED": {"failed", "success"}, "STARTED": {"failed", "success"}, "SUCCESS": nil, "CANCELLED": nil,
	} {
		var got []string
		for name, answer := range answers {
			if ledger.MayAnswer(&schedule.Run{Status: status}, &answer) {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, settling) {
			t.Errorf("a run that is %s is settled by %v, want %v", status, got, settling)
		}
	}
}

func TestWhichLateAnswerLeavesAnEvent(t *testing.T) {
	run := schedule.Run{Key: schedule.Key{1}, ScheduleID: "s", RunAt: settleThen, Revision: 3, Status: "CANCELLED", Reason: "replaced"}
	for status, want := range map[schedule.Status]bool{"ENQUEUED": false, "CANCELLED": false, "SUCCESS": true, "FAILED": true} {
		event, leaves := ledger.LateAnswer(&run, &schedule.Outcome{Status: status}, settleNow)
		if leaves != want {
			t.Errorf("%s leaves an event: %t, want %t", status, leaves, want)
		}
		event.Note = ""
		if diff := cmp.Diff(schedule.Event{
			ScheduleID: "s", Time: settleNow, Kind: schedule.EventReportIgnored, From: settleThen, To: settleThen, Count: 1, Reason: "replaced", Revision: 3,
		}, event); diff != "" {
			t.Errorf("%s: %s", status, diff)
		}
	}
}

// settleCase is a run that was LAUNCHING unless it says otherwise, and what a
// settlement changes.
type settleCase struct {
	name   string
	run    schedule.Run
	settle schedule.Settlement
	want   schedule.Run
}

var (
	settleNow   = beginNow.Truncate(time.Microsecond)
	settleThen  = settleNow.Add(-time.Minute)
	settleCases = []settleCase{
		{
			name: "an acceptance ends the claim and the error of failed attempts",
			run:  schedule.Run{Status: "LAUNCHING", ClaimedUntil: settleThen, ErrorCode: "E", ErrorMessage: "m", FailedAttempts: 1},
			settle: schedule.Settlement{
				To: "ENQUEUED", RunID: "r", TraceID: "t", LaunchedAt: settleThen, TimeoutAt: settleNow.Add(time.Hour), Deliveries: 1,
			},
			want: schedule.Run{
				Status: "ENQUEUED", RunID: "r", TraceID: "t", LaunchedAt: settleThen, TimeoutAt: settleNow.Add(time.Hour), Deliveries: 1, FailedAttempts: 1,
			},
		},
		{
			name: "empty fields leave what the run has",
			run: schedule.Run{
				Status: "STARTED", RunID: "r", TraceID: "t", LaunchedAt: settleThen, StartedAt: settleThen, TimeoutAt: settleThen, ErrorCode: "E", ErrorMessage: "m", Deliveries: 3,
			},
			settle: schedule.Settlement{To: "SUCCESS"},
			want: schedule.Run{
				Status: "SUCCESS", RunID: "r", TraceID: "t", LaunchedAt: settleThen, StartedAt: settleThen, TimeoutAt: settleThen, ErrorCode: "E", ErrorMessage: "m", Deliveries: 3,
				CompletedAt: settleNow,
			},
		},
		{
			name:   "completed_at is as given",
			run:    schedule.Run{Status: "STARTED"},
			settle: schedule.Settlement{To: "FAILED", Reason: "workflow_failed", CompletedAt: settleThen},
			want:   schedule.Run{Status: "FAILED", Reason: "workflow_failed", CompletedAt: settleThen},
		},
		{
			name:   "a heartbeat does not move started_at",
			run:    schedule.Run{Status: "STARTED", StartedAt: settleThen},
			settle: schedule.Settlement{To: "STARTED", StartedAt: settleNow, TimeoutAt: settleNow},
			want:   schedule.Run{Status: "STARTED", StartedAt: settleThen, TimeoutAt: settleNow},
		},
		{
			name:   "the move to STARTED does not move a started_at that is there",
			run:    schedule.Run{Status: "ENQUEUED", StartedAt: settleThen},
			settle: schedule.Settlement{To: "STARTED", StartedAt: settleNow},
			want:   schedule.Run{Status: "STARTED", StartedAt: settleThen},
		},
		{
			name:   "a run that waited waits no more",
			run:    schedule.Run{Status: "PLANNED", WaitingSince: settleThen},
			settle: schedule.Settlement{To: "SKIPPED", Reason: "grant_revoked"},
			want:   schedule.Run{Status: "SKIPPED", Reason: "grant_revoked", CompletedAt: settleNow},
		},
		{
			name:   "CANCELLED takes the settlement's reason first",
			run:    schedule.Run{Status: "STARTED", Reason: "coalesced", CancelReason: "replaced"},
			settle: schedule.Settlement{To: "CANCELLED", Reason: "deleted"},
			want:   schedule.Run{Status: "CANCELLED", Reason: "deleted", CancelReason: "replaced", CompletedAt: settleNow},
		},
		{
			name:   "CANCELLED without a reason takes that of the cancel",
			run:    schedule.Run{Status: "STARTED", CancelReason: "replaced"},
			settle: schedule.Settlement{To: "CANCELLED"},
			want:   schedule.Run{Status: "CANCELLED", Reason: "replaced", CancelReason: "replaced", CompletedAt: settleNow},
		},
		{
			name:   "CANCELLED without any reason is cancelled",
			run:    schedule.Run{Status: "STARTED"},
			settle: schedule.Settlement{To: "CANCELLED"},
			want:   schedule.Run{Status: "CANCELLED", Reason: "cancelled", CompletedAt: settleNow},
		},
		{
			name:   "an end that is no cancel does not take the reason of the cancel",
			run:    schedule.Run{Status: "STARTED", CancelReason: "replaced"},
			settle: schedule.Settlement{To: "SUCCESS"},
			want:   schedule.Run{Status: "SUCCESS", CancelReason: "replaced", CompletedAt: settleNow},
		},
		{
			name:   "a settlement that does not know the number of calls keeps it",
			run:    schedule.Run{Status: "LAUNCHING", Deliveries: 2},
			settle: schedule.Settlement{To: "SUCCESS"},
			want:   schedule.Run{Status: "SUCCESS", Deliveries: 2, CompletedAt: settleNow},
		},
		{
			name:   "the number of calls only rises",
			run:    schedule.Run{Status: "LAUNCHING", Deliveries: 2},
			settle: schedule.Settlement{To: "ENQUEUED", Deliveries: 1},
			want:   schedule.Run{Status: "ENQUEUED", Deliveries: 2},
		},
		{
			name:   "except by a call that was not made",
			run:    schedule.Run{Status: "LAUNCHING", Deliveries: 2},
			settle: schedule.Settlement{To: "FAILED", Reason: "launch_refused", Deliveries: 1, Unsent: true},
			want:   schedule.Run{Status: "FAILED", Reason: "launch_refused", Deliveries: 1, CompletedAt: settleNow},
		},
		{
			name:   "an unknown outcome puts off the next call and keeps the error",
			run:    schedule.Run{Status: "LAUNCHING", ClaimedUntil: settleThen, TimeoutAt: settleThen},
			settle: schedule.Settlement{To: "LAUNCHING", ClaimedUntil: settleNow, ErrorCode: "E", ErrorMessage: "m", Deliveries: 1, Attempt: &schedule.LaunchAttempt{}},
			want: schedule.Run{
				Status: "LAUNCHING", ClaimedUntil: settleNow, TimeoutAt: settleThen, ErrorCode: "E", ErrorMessage: "m", Deliveries: 1, FailedAttempts: 1,
			},
		},
	}
)

func TestWhatASettlementMakesOfARun(t *testing.T) {
	for _, c := range settleCases {
		t.Run(c.name, func(t *testing.T) {
			got, moved := ledger.Settle(c.run, free, &c.settle, beginNow)
			c.want.UpdatedAt = settleNow
			if diff := cmp.Diff(c.want, got); !moved || diff != "" {
				t.Errorf("moved: %t; the run (-want +got):\n%s", moved, diff)
			}
		})
	}
}

func TestASettlementMovesARunForwardOnly(t *testing.T) {
	may := map[schedule.Status][]schedule.Status{
		"PLANNED":   {"FAILED", "SKIPPED", "CANCELLED"},
		"LAUNCHING": {"LAUNCHING", "ENQUEUED", "STARTED", "SUCCESS", "FAILED", "SKIPPED", "CANCELLED"},
		"ENQUEUED":  {"STARTED", "SUCCESS", "FAILED", "CANCELLED"},
		"STARTED":   {"STARTED", "SUCCESS", "FAILED", "CANCELLED"},
	}
	for _, from := range schedule.Statuses {
		var got []schedule.Status
		for _, to := range schedule.Statuses {
			before := schedule.Run{Status: from, Reason: "lost", RunID: "r"}
			after, moved := ledger.Settle(before, free, &schedule.Settlement{To: to, RunID: "other"}, beginNow)
			if moved {
				got = append(got, to)
			} else if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("%s to %s does not move, but changes:\n%s", from, to, diff)
			}
		}
		if diff := cmp.Diff(may[from], got); diff != "" {
			t.Errorf("from %s (-want +got):\n%s", from, diff)
		}
	}
}

func TestTheAttemptLogKeepsTheNewestAttempts(t *testing.T) {
	log := ""
	add := func(to schedule.Status, code string) {
		s := schedule.Settlement{To: to, Attempt: &schedule.LaunchAttempt{At: settleNow, Result: schedule.LaunchNotSent, ErrorCode: code}}
		if code == "" {
			s.Attempt = nil
		}
		log = ledger.LogAttempt(log, &s)
	}
	codes := func() (got string) {
		attempts, err := schedule.ReadAttempts(log)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range attempts {
			got += a.ErrorCode
		}
		return got
	}
	for _, c := range []struct {
		name, code string
		to         schedule.Status
		want       string
	}{
		{"the first attempt", "a", schedule.StatusLaunching, "a"},
		{"a settlement without an attempt", "", schedule.StatusLaunching, "a"},
		{"the end of the run", "x", schedule.StatusFailed, "a"},
		{"the second attempt", "b", schedule.StatusLaunching, "ab"},
	} {
		if add(c.to, c.code); codes() != c.want {
			t.Errorf("after %s: got %q, want %q", c.name, codes(), c.want)
		}
	}
	for _, code := range "cdefghijklm" {
		add(schedule.StatusLaunching, string(code))
	}
	if got, want := codes(), "defghijklm"; got != want {
		t.Errorf("the newest ten: got %q, want %q", got, want)
	}
	if log = "not JSON"; true {
		add(schedule.StatusLaunching, "n")
	}
	if got := codes(); got != "n" {
		t.Errorf("after a log that cannot be read: got %q, want n", got)
	}
}

func TestACancelIsRequestedOnceAndOnlyOfWhatIsInFlight(t *testing.T) {
	for _, c := range []struct {
		name string
		run  schedule.Run
		want bool
	}{
		{"planned", schedule.Run{Status: schedule.StatusPlanned}, false},
		{"launching", schedule.Run{Status: schedule.StatusLaunching}, true},
		{"accepted", schedule.Run{Status: schedule.StatusEnqueued}, true},
		{"started", schedule.Run{Status: schedule.StatusStarted}, true},
		{"requested before", schedule.Run{Status: schedule.StatusStarted, CancelRequestedAt: noon.Add(-time.Minute), CancelReason: schedule.ReasonReplaced}, false},
		{"ended", schedule.Run{Status: schedule.StatusSuccess}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := c.run
			if c.want {
				want.CancelRequestedAt, want.CancelReason, want.UpdatedAt = noon, schedule.ReasonCancelled, noon
			}
			if got, asked := ledger.AskCancel(c.run, schedule.ReasonCancelled, noon.Add(time.Nanosecond)); asked != c.want || !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, %v, want %+v", got, asked, want)
			}
		})
	}
}

func TestAnAnswerToAKeyWithoutAnOpenRunIsThatOfItsEndOrStaysOutside(t *testing.T) {
	t.Parallel()
	key := func(n byte) schedule.Key { return schedule.Key{n} }
	ended := []schedule.Run{
		{Key: key(1), Status: schedule.StatusSuccess, RunID: "one"},
		{Key: key(2), Status: schedule.StatusFailed, Reason: schedule.ReasonLost},
	}
	done := []schedule.FinishRequest{
		{Key: key(9), Outcome: schedule.Outcome{Status: schedule.StatusSuccess}},
		{Key: key(1), Outcome: schedule.Outcome{Status: schedule.StatusSuccess}},
		{Key: key(3), Outcome: schedule.Outcome{Status: schedule.StatusSuccess}},
		{Key: key(2), Outcome: schedule.Outcome{Status: schedule.StatusSuccess}},
	}
	finished := make([]schedule.Finished, len(done))
	events, outside := ledger.AnswerEnded(done, []int{1, 2, 3}, ended, finished, settleNow)
	if len(outside) != 1 || outside[0] != 2 {
		t.Errorf("outside are %v, want the third", outside)
	}
	if len(events) != 1 || events[0].Reason != schedule.ReasonLost {
		t.Errorf("events are %v, want one: the run that is FAILED(lost) was answered SUCCESS", events)
	}
	if finished[0] != (schedule.Finished{}) || finished[1].Outcome.RunID != "one" || finished[3].Outcome.Status != schedule.StatusFailed {
		t.Errorf("finished are %+v, want the ends of the second and the fourth", finished)
	}
}

func TestOnlyAnAcceptanceGivesTheKeyBack(t *testing.T) {
	t.Parallel()
	held := schedule.KeyLease{Holder: 7, Until: settleNow}
	for status, want := range map[schedule.Status]schedule.KeyLease{
		schedule.StatusLaunching: held,
		schedule.StatusEnqueued:  {},
		schedule.StatusStarted:   held, // a report can be faster than the answer to the call
	} {
		if got := ledger.LeaseAfter(&schedule.Run{Status: status}, held); got != want {
			t.Errorf("%s: the lease is %v, want %v", status, got, want)
		}
	}
}
