package registrar_test

import (
	"cmp"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

var key = schedule.Key{7}

// run inserts a run with a status.
func (r *rig) run(status schedule.Status, more ...func(*schedule.Run)) {
	run := schedule.Run{
		Key: key, ScheduleID: "s", Revision: 1, UserID: "u", WorkflowID: "w", Version: 1, RunAt: noon, FireAt: noon,
		Status: status, Trigger: schedule.TriggerSchedule, OverlapKey: "u/s", OverlapPolicy: schedule.OverlapSkip, Exclusive: true,
		Attempt: 1, ClaimedAt: noon, LaunchedAt: noon,
	}
	for _, change := range more {
		change(&run)
	}
	d := schedule.Definition{ScheduleID: "s", RunTimeoutMS: 60_000, OverlapPolicy: schedule.OverlapSkip}
	r.page.runs[key] = schedule.RunInput{Run: run, Definition: &d, Schedule: &schedule.Schedule{Definition: d, Revision: 1}}
}

func asked(reason schedule.Reason) func(*schedule.Run) {
	return func(run *schedule.Run) { run.CancelRequestedAt, run.CancelReason = noon, reason }
}

func TestAReportMovesARun(t *testing.T) {
	const (
		launching, enqueued, started = schedule.StatusLaunching, schedule.StatusEnqueued, schedule.StatusStarted
		succeeded, failed, cancelled = schedule.StatusSuccess, schedule.StatusFailed, schedule.StatusCancelled
	)
	none := func(*schedule.Run) {}
	for _, tc := range []struct {
		name     string
		is, says schedule.Status
		more     func(*schedule.Run)
		to       schedule.Status // "": nothing moves, an event is written
		reason   schedule.Reason
	}{
		{"it starts", enqueued, started, none, started, ""},
		{"it starts before its launch was answered", launching, started, none, started, ""},
		{"it is alive", started, started, none, started, ""},
		{"it succeeds", started, succeeded, none, succeeded, ""},
		{"it succeeds without ever having started", enqueued, succeeded, none, succeeded, ""},
		{"it succeeds before its launch was answered", launching, succeeded, none, succeeded, ""},
		{"it fails", started, failed, none, failed, schedule.ReasonWorkflowFailed},
		{"it was never launched", schedule.StatusPlanned, succeeded, none, "", ""},
		{"it has succeeded already and now fails", succeeded, failed, none, "", ""},
		{"it has succeeded and now starts", succeeded, started, none, "", ""},
		{"it has timed out and now succeeds", failed, succeeded, none, "", ""},
		{"it was skipped", schedule.StatusSkipped, started, none, "", ""},
		{"it was cancelled", cancelled, failed, none, "", ""},
		{"it is to be cancelled and succeeds", started, succeeded, asked(schedule.ReasonCancelled), succeeded, ""},
		{"it is to be cancelled and fails", started, failed, asked(schedule.ReasonCancelled), cancelled, schedule.ReasonCancelled},
		{"it is to be cancelled and is alive", started, started, asked(schedule.ReasonCancelled), started, ""},
		{"it is to be replaced and succeeds", started, succeeded, asked(schedule.ReasonReplaced), cancelled, schedule.ReasonReplaced},
		{"it is to be replaced and fails", started, failed, asked(schedule.ReasonReplaced), cancelled, schedule.ReasonReplaced},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, registrar.Config{})
			r.run(tc.is, tc.more)
			r.after(time.Minute)
			if _, _, err := r.Report(r.Context(), registrar.ReportInput{Key: key, Status: tc.says}); err != nil {
				r.Fatal(err)
			}
			change := r.page.runChange
			if tc.to == "" {
				if change.Settle != nil || change.LateReport != tc.says || len(change.Events) != 1 || change.Events[0].Kind != schedule.EventReportIgnored {
					r.Errorf("it was settled to %+v with events %+v; want only an event", change.Settle, change.Events)
				}
				return
			}
			if change.Settle == nil || change.Settle.To != tc.to || change.Settle.Reason != tc.reason {
				r.Fatalf("it was settled to %+v, want %s(%s)", change.Settle, tc.to, tc.reason)
			}
			if tc.to == started && !change.Settle.TimeoutAt.Equal(r.page.now.Add(time.Minute)) {
				r.Errorf("it times out at %s, want a run timeout from now", change.Settle.TimeoutAt)
			}
			if tc.to.Terminal() && !change.Settle.CompletedAt.Equal(r.page.now) {
				r.Errorf("it is completed at %s", change.Settle.CompletedAt)
			}
		})
	}
}

func TestAHeartbeatDoesNotMoveTheStart(t *testing.T) {
	r := newRig(t, registrar.Config{})
	r.run(schedule.StatusStarted, func(run *schedule.Run) { run.StartedAt = noon })
	r.after(time.Minute)
	if _, _, err := r.Report(r.Context(), registrar.ReportInput{Key: key, Status: schedule.StatusStarted}); err != nil {
		r.Fatal(err)
	}
	if at := r.page.runChange.Settle.StartedAt; !at.IsZero() {
		r.Errorf("started_at is written again: %s", at)
	}
}

func TestAReportThatOvertakesTheAnswerSaysWhenTheRunWasLaunchedAtTheEarliest(t *testing.T) {
	for name, claimed := range map[string]time.Time{"claimed late": noon.Add(time.Second), "armed ahead": noon.Add(-time.Second)} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, registrar.Config{})
			r.run(schedule.StatusLaunching, func(run *schedule.Run) { run.LaunchedAt, run.ClaimedAt = time.Time{}, claimed })
			if _, _, err := r.Report(r.Context(), registrar.ReportInput{Key: key, Status: schedule.StatusStarted}); err != nil {
				r.Fatal(err)
			}
			if at := r.page.runChange.Settle.LaunchedAt; at.Before(noon) || at.Before(claimed) {
				r.Errorf("launched_at is %s, before fire_at %s or the claim %s", at, noon, claimed)
			}
		})
	}
}

func TestWhichReportsAreRefused(t *testing.T) {
	secret := []byte("0123456789abcdef")
	for _, tc := range []struct {
		name string
		in   registrar.ReportInput
		want error
	}{
		{"an unknown key", registrar.ReportInput{Key: schedule.Key{9}, Status: schedule.StatusSuccess}, schedule.ErrNotFound},
		{"another run_id", registrar.ReportInput{Key: key, Status: schedule.StatusSuccess, RunID: "r2"}, schedule.ErrRunIDMismatch},
		{"another run's token", registrar.ReportInput{Key: key, Status: schedule.StatusSuccess, Token: schedule.ReportToken(secret, schedule.Key{9})}, schedule.ErrUnauthenticated},
		{"its own token", registrar.ReportInput{Key: key, Status: schedule.StatusSuccess, Token: schedule.ReportToken(secret, key)}, nil},
		{"no token", registrar.ReportInput{Key: key, Status: schedule.StatusSuccess, RunID: "r1"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, registrar.Config{ReportSecret: secret})
			r.run(schedule.StatusStarted, func(run *schedule.Run) { run.RunID = "r1" })
			if _, _, err := r.Report(r.Context(), tc.in); !errors.Is(err, tc.want) {
				r.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
	for name, in := range map[string]registrar.ReportInput{
		"a status that no executor may set": {Key: key, Status: schedule.StatusSkipped},
		"no status":                         {Key: key},
		"a run_id that is too long":         {Key: key, Status: schedule.StatusStarted, RunID: strings.Repeat("x", 129)},
		"a run_id with a control character": {Key: key, Status: schedule.StatusStarted, RunID: "a\x00"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, registrar.Config{})
			r.run(schedule.StatusEnqueued)
			var invalid *schedule.InvalidError
			if _, _, err := r.Report(r.Context(), in); !errors.As(err, &invalid) {
				r.Errorf("got %v, want it refused", err)
			}
		})
	}
}

func TestReportedTextsAreMadeSafeToStore(t *testing.T) {
	r := newRig(t, registrar.Config{})
	r.run(schedule.StatusStarted)
	in := registrar.ReportInput{
		Key: key, Status: schedule.StatusFailed, ErrorCode: strings.Repeat("ü", 100), ErrorMessage: "bad\x00 \xff byte\n" + strings.Repeat("ö", 4096),
	}
	if _, _, err := r.Report(r.Context(), in); err != nil {
		r.Fatal(err)
	}
	s := r.page.runChange.Settle
	for name, text := range map[string]string{"error_code": s.ErrorCode, "error_message": s.ErrorMessage} {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) || text == "" {
			r.Errorf("%s is %q…: not valid text", name, text[:min(len(text), 40)])
		}
	}
	if len(s.ErrorCode) > 128 || len(s.ErrorMessage) > 4096 {
		r.Errorf("%d and %d bytes are kept", len(s.ErrorCode), len(s.ErrorMessage))
	}
}

func TestACancelEndsARunOrRequestsIt(t *testing.T) {
	for _, tc := range []struct {
		is     schedule.Status
		settle schedule.Status
		ask    bool
		err    error
	}{
		{schedule.StatusPlanned, schedule.StatusCancelled, false, nil},
		{schedule.StatusLaunching, schedule.StatusCancelled, false, nil}, // it was never sent
		{schedule.StatusEnqueued, "", true, nil},
		{schedule.StatusStarted, "", true, nil},
		{schedule.StatusCancelled, "", false, nil},
		{schedule.StatusSuccess, "", false, schedule.ErrPrecondition},
		{schedule.StatusFailed, "", false, schedule.ErrPrecondition},
		{schedule.StatusSkipped, "", false, schedule.ErrPrecondition},
	} {
		t.Run(string(tc.is), func(t *testing.T) {
			r := newRig(t, registrar.Config{})
			r.run(tc.is)
			_, err := r.CancelRun(r.Context(), registrar.CancelInput{Key: key, Actor: "me"})
			if !errors.Is(err, tc.err) {
				r.Fatalf("got %v, want %v", err, tc.err)
			}
			if err != nil {
				return
			}
			var to schedule.Status
			if s := r.page.runChange.Settle; s != nil {
				to = s.To
			}
			if to != tc.settle || (r.page.runChange.AskCancel != "") != tc.ask {
				r.Errorf("it is settled to %q, the cancel asked for %q", to, r.page.runChange.AskCancel)
			}
		})
	}
}

// The cancel of a failed run is for the retry that Carillon has planned.
func TestACancelOfAFailedRunEndsItsRetryIfThatStillWaits(t *testing.T) {
	for _, tc := range []struct {
		retry  schedule.Status
		settle schedule.Status
		err    error
	}{
		{schedule.StatusPlanned, schedule.StatusCancelled, nil},
		{schedule.StatusCancelled, "", nil}, // the request is repeated
		{schedule.StatusLaunching, "", schedule.ErrPrecondition},
		{schedule.StatusStarted, "", schedule.ErrPrecondition},
		{schedule.StatusFailed, "", schedule.ErrPrecondition},
		{schedule.StatusSuccess, "", schedule.ErrPrecondition},
	} {
		t.Run(string(tc.retry), func(t *testing.T) {
			r := newRig(t, registrar.Config{})
			r.run(schedule.StatusFailed)
			failed := r.page.runs[key]
			failed.Run.Attempt, failed.Run.MaxAttempts = 1, 3
			next := failed
			next.Run.Key, next.Run.RetryOf, next.Run.Attempt, next.Run.Trigger, next.Run.Status = schedule.AttemptKey(key), key, 2, schedule.TriggerRetry, tc.retry
			r.page.runs[key], r.page.runs[next.Run.Key] = failed, next
			run, err := r.CancelRun(r.Context(), registrar.CancelInput{Key: key, Actor: "me"})
			if !errors.Is(err, tc.err) {
				r.Fatalf("got %v, want %v", err, tc.err)
			}
			if err != nil {
				return
			}
			var to schedule.Status
			if s := r.page.runChange.Settle; s != nil {
				to = s.To
			}
			if run.Key != next.Run.Key || to != tc.settle {
				r.Errorf("run %s is settled to %q, want the retry %s and %q", run.Key, to, next.Run.Key, tc.settle)
			}
		})
	}
}

func TestARetryByHandHasABudgetOnlyIfItIsRenewed(t *testing.T) {
	for _, renew := range []bool{false, true} {
		r := newRig(t, registrar.Config{})
		r.run(schedule.StatusFailed)
		failed := r.page.runs[key]
		d := *failed.Definition
		d.Retry = schedule.RetryPolicy{MaxAttempts: 3}.Resolved()
		failed.Definition, failed.Run.Attempt, failed.Run.MaxAttempts = &d, 3, 3
		r.page.runs[key] = failed
		run, err := r.RetryRun(r.Context(), registrar.RetryInput{Key: key, RequestID: "again", Renew: renew})
		want := int32(4)
		if renew {
			want = 6
		}
		if err != nil || run.Attempt != 4 || run.MaxAttempts != want || run.IsAutomaticRetry() {
			t.Errorf("renew %t: attempt %d of %d (%v), want 4 of %d", renew, run.Attempt, run.MaxAttempts, err, want)
		}
	}
}

// A request id with a slash could give a retry by hand the key of an automatic one.
func TestARequestIDOfARetryHasNoSlash(t *testing.T) {
	for _, id := range []string{"/auto", "a/b", "/"} {
		r := newRig(t, registrar.Config{})
		r.run(schedule.StatusFailed)
		_, err := r.RetryRun(r.Context(), registrar.RetryInput{Key: key, RequestID: id})
		if invalid := (*schedule.InvalidError)(nil); !errors.As(err, &invalid) {
			t.Errorf("request id %q: got %v, want a refusal", id, err)
		}
	}
}

func TestWhichRunsCanBeRetried(t *testing.T) {
	for _, tc := range []struct {
		name string
		is   schedule.Status
		more func(*schedule.RunInput)
		in   registrar.RetryInput
		err  error
	}{
		{"one that failed", schedule.StatusFailed, nil, registrar.RetryInput{}, nil},
		{"one that was skipped", schedule.StatusSkipped, nil, registrar.RetryInput{}, nil},
		{"one that was cancelled", schedule.StatusCancelled, nil, registrar.RetryInput{}, nil},
		{"one that succeeded", schedule.StatusSuccess, nil, registrar.RetryInput{}, schedule.ErrPrecondition},
		{"one that is planned", schedule.StatusPlanned, nil, registrar.RetryInput{}, schedule.ErrPrecondition},
		{"one that runs", schedule.StatusStarted, nil, registrar.RetryInput{}, schedule.ErrPrecondition},
		{"one of a deleted schedule", schedule.StatusFailed, func(in *schedule.RunInput) { in.Schedule.DeletedAt = noon }, registrar.RetryInput{}, schedule.ErrPrecondition},
		{"one of a schedule that is gone", schedule.StatusFailed, func(in *schedule.RunInput) { in.Schedule = nil }, registrar.RetryInput{}, schedule.ErrPrecondition},
		{"one of a paused schedule", schedule.StatusFailed, func(in *schedule.RunInput) { in.Schedule.Pause.Paused = true }, registrar.RetryInput{}, nil},
		{"under skip, with a run in flight", schedule.StatusFailed, func(in *schedule.RunInput) { in.InFlight = 1 }, registrar.RetryInput{}, schedule.ErrPrecondition},
		{"under allow by now, with a run in flight", schedule.StatusFailed, func(in *schedule.RunInput) {
			in.Schedule.OverlapPolicy, in.InFlight = schedule.OverlapAllow, 1
		}, registrar.RetryInput{}, nil},
		{"under queue by now, with a run in flight", schedule.StatusFailed, func(in *schedule.RunInput) {
			in.Schedule.OverlapPolicy, in.Schedule.MaxQueued, in.InFlight = schedule.OverlapQueue, 3, 1
		}, registrar.RetryInput{}, nil},
		{"under allow then and skip by now, with a run in flight", schedule.StatusFailed, func(in *schedule.RunInput) {
			in.Run.OverlapPolicy, in.InFlight = schedule.OverlapAllow, 1
		}, registrar.RetryInput{}, schedule.ErrPrecondition},
		{"of a revision with another max_queued than the schedule has now", schedule.StatusFailed, func(in *schedule.RunInput) {
			d := *in.Definition
			d.MaxQueued, in.Run.MaxQueued, in.Schedule.MaxQueued = 2, 9, 3
			in.Definition = &d
		}, registrar.RetryInput{}, nil},
		{"of a revision that cannot be read", schedule.StatusFailed, func(in *schedule.RunInput) {
			in.Definition, in.Run.MaxQueued, in.Schedule.MaxQueued = nil, 2, 3
		}, registrar.RetryInput{}, nil},
		{"with a policy of its own", schedule.StatusFailed, func(in *schedule.RunInput) { in.InFlight = 1 }, registrar.RetryInput{OverlapPolicy: schedule.OverlapAllow}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, registrar.Config{})
			r.run(tc.is)
			if tc.more != nil {
				in := r.page.runs[key]
				tc.more(&in)
				r.page.runs[key] = in
			}
			tc.in.Key, tc.in.RequestID = key, "again"
			run, err := r.RetryRun(r.Context(), tc.in)
			if !errors.Is(err, tc.err) {
				r.Fatalf("got %v, want %v", err, tc.err)
			}
			if err != nil {
				return
			}
			want := r.page.runs[key].Run
			want.Key, want.RetryOf, want.Attempt, want.MaxAttempts = schedule.RetryKey(key, "again"), key, 2, 2
			want.Status, want.Trigger, want.FireAt = schedule.StatusPlanned, schedule.TriggerRetry, noon
			want.ClaimedAt, want.LaunchedAt = time.Time{}, time.Time{}
			now := r.page.runs[key].Schedule
			want.OverlapPolicy = cmp.Or(tc.in.OverlapPolicy, now.OverlapPolicy)
			if d := r.page.runs[key].Definition; d != nil {
				want.MaxQueued = d.MaxQueued
			}
			want.Exclusive = want.OverlapPolicy.Exclusive()
			if diff := gocmp.Diff(want, run); diff != "" {
				r.Errorf("the new attempt (-want +got):\n%s", diff)
			}
		})
	}
}

func TestATriggerOfTheSameRequestIsTheSameRun(t *testing.T) {
	r := newRig(t, registrar.Config{})
	r.upsert(hourly())
	in := registrar.TriggerInput{ScheduleID: "s", RequestID: "one", Input: []byte(`{"b":2}`)}
	first, err := r.Trigger(r.Context(), in)
	if err != nil {
		r.Fatal(err)
	}
	r.events("triggered() 12:00:00-12:00:00 n=1 r1")
	r.page.inFlight = 1 // such as this run: a repeat still answers
	r.after(time.Minute)
	again, err := r.Trigger(r.Context(), in)
	if err != nil || again.Key != first.Key || first.Key != schedule.ManualKey("s", "one") || string(first.Input) != `{"b":2}` {
		r.Errorf("%s, then %s (%v)", first.Key, again.Key, err)
	}
	if _, err := r.Trigger(r.Context(), registrar.TriggerInput{ScheduleID: "s", RequestID: "two"}); !errors.Is(err, schedule.ErrPrecondition) {
		r.Errorf("under skip with a run in flight: %v, want ErrPrecondition", err)
	}
	r.wroteNothing()
	for _, p := range []schedule.OverlapPolicy{schedule.OverlapAllow, schedule.OverlapQueue} {
		run, err := r.Trigger(r.Context(), registrar.TriggerInput{ScheduleID: "s", RequestID: string(p), OverlapPolicy: p})
		if err != nil || run.OverlapPolicy != p || run.Exclusive != p.Exclusive() {
			r.Errorf("with %s of its own: %+v, %v", p, run, err)
		}
	}
}
