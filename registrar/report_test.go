package registrar_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

func TestAReportThatRepeatsHowTheRunEndedWritesNothing(t *testing.T) {
	failedWith := func(code string, reason schedule.Reason) func(*schedule.Run) {
		return func(run *schedule.Run) { run.ErrorCode, run.Reason = code, reason }
	}
	for _, tc := range []struct {
		name  string
		is    schedule.Status
		more  func(*schedule.Run)
		says  schedule.Status
		code  string
		event bool
	}{
		{"success again", schedule.StatusSuccess, func(*schedule.Run) {}, schedule.StatusSuccess, "", false},
		{"the same failure again", schedule.StatusFailed, failedWith("E1", schedule.ReasonWorkflowFailed), schedule.StatusFailed, "E1", false},
		{"another failure", schedule.StatusFailed, failedWith("E1", schedule.ReasonWorkflowFailed), schedule.StatusFailed, "E2", true},
		{"a failure after a timeout", schedule.StatusFailed, failedWith("", schedule.ReasonTimeout), schedule.StatusFailed, "", true},
		{"a failure after a cancel", schedule.StatusCancelled, failedWith("", schedule.ReasonCancelled), schedule.StatusFailed, "", true},
		{"a success after a failure", schedule.StatusFailed, failedWith("", schedule.ReasonWorkflowFailed), schedule.StatusSuccess, "", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, registrar.Config{})
			r.run(tc.is, tc.more)
			run, moved, err := r.Report(r.Context(), registrar.ReportInput{Key: key, Status: tc.says, ErrorCode: tc.code})
			if err != nil || moved || run.Status != tc.is {
				r.Errorf("answered %s, %v, %v; want the run as it is", run.Status, moved, err)
			}
			if change := r.page.runChange; change.Settle != nil || (len(change.Events) > 0) != tc.event || (change.LateReport != "") != tc.event {
				r.Errorf("%+v is written, want an event: %v", change, tc.event)
			}
			if (r.late == 1) != tc.event {
				r.Errorf("%d late ends are counted, want one if the end differs: %v", r.late, tc.event)
			}
		})
	}
}

func TestAReportTokenExpiresSomeTimeAfterTheEndOfItsRun(t *testing.T) {
	secret := []byte("0123456789abcdef")
	token := schedule.ReportToken(secret, key)
	launcher := auth.NewContext(context.Background(), auth.Identity{Subject: "l", Roles: []auth.Role{auth.Launcher}})
	for _, tc := range []struct {
		name  string
		ctx   context.Context
		token string
		is    schedule.Status
		after time.Duration
		want  error
	}{
		{"at the bound", context.Background(), token, schedule.StatusSuccess, time.Hour, nil},
		{"behind it", context.Background(), token, schedule.StatusSuccess, time.Hour + time.Microsecond, schedule.ErrUnauthenticated},
		{"behind it, with the role launcher", launcher, "", schedule.StatusSuccess, 24 * time.Hour, nil},
		{"behind it, with the role launcher and the token", launcher, token, schedule.StatusSuccess, 24 * time.Hour, schedule.ErrUnauthenticated},
		{"of a run that is still in flight", context.Background(), token, schedule.StatusStarted, 24 * time.Hour, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, registrar.Config{ReportSecret: secret, ReportLate: time.Hour})
			r.run(tc.is, func(run *schedule.Run) {
				if tc.is.Terminal() {
					run.CompletedAt = noon
				}
			})
			r.after(tc.after)
			if _, _, err := r.Report(tc.ctx, registrar.ReportInput{Key: key, Status: schedule.StatusSuccess, Token: tc.token}); !errors.Is(err, tc.want) {
				r.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func TestOnlyGoodTokensUseUpTheReportsOfARun(t *testing.T) {
	secret := []byte("0123456789abcdef")
	tooMany, asked := errors.New("too many"), 0
	r := newRig(t, registrar.Config{ReportSecret: secret}, func(o *registrar.Options) {
		o.LimitReports = func(run schedule.Key) error {
			asked++
			if run != key || asked > 1 {
				return tooMany
			}
			return nil
		}
	})
	r.run(schedule.StatusStarted)
	report := func(token string) error {
		_, _, err := r.Report(r.Context(), registrar.ReportInput{Key: key, Status: schedule.StatusStarted, Token: token})
		return err
	}
	if err := report(schedule.ReportToken(secret, schedule.Key{9})); !errors.Is(err, schedule.ErrUnauthenticated) || asked != 0 {
		t.Errorf("a wrong token is answered %v, and counted: %d", err, asked)
	}
	good := schedule.ReportToken(secret, key)
	if err := report(good); err != nil {
		t.Error(err)
	}
	if err := report(good); !errors.Is(err, tooMany) {
		t.Errorf("one report too many is answered %v", err)
	}
	if err := r.ReportOutcome(r.Context(), schedule.ExecutorReport{Key: key, Status: schedule.StatusSuccess}); err != nil {
		t.Errorf("an executor inside the process is limited: %v", err)
	}
}

func TestASnoozeIsRefusedUnlessTheRunIsInFlight(t *testing.T) {
	const day = 24 * 3600 * 1000
	for _, tc := range []struct {
		name  string
		is    schedule.Status
		more  func(*schedule.Run)
		delay int64
		want  error // nil: it is taken
		wrong bool  // the delay is refused
		moves bool
	}{
		{name: "a run in flight, now", is: schedule.StatusStarted, moves: true},
		{name: "a run in flight, for 30 days", is: schedule.StatusEnqueued, delay: 30 * day, moves: true},
		{name: "a run whose call is open", is: schedule.StatusLaunching, delay: 1, moves: true},
		{name: "a negative delay", is: schedule.StatusStarted, delay: -1, wrong: true},
		{name: "more than 30 days", is: schedule.StatusStarted, delay: 30*day + 1, wrong: true},
		{name: "a planned run", is: schedule.StatusPlanned, want: schedule.ErrPrecondition},
		{name: "a waiting run of a queue", is: schedule.StatusEnqueued, more: func(r *schedule.Run) { r.Queue = schedule.QueuePlace{No: 1, State: schedule.QueueWaiting} }, want: schedule.ErrPrecondition},
		{name: "a run that succeeded", is: schedule.StatusSuccess, want: schedule.ErrPrecondition},
		{name: "a run that was skipped", is: schedule.StatusSkipped, more: func(r *schedule.Run) { r.Reason = schedule.ReasonPaused }, want: schedule.ErrPrecondition},
		{name: "a snoozed run again", is: schedule.StatusSkipped, more: func(r *schedule.Run) { r.Reason = schedule.ReasonSnoozed }},
		{name: "the snooze that was one too many again", is: schedule.StatusFailed, more: func(r *schedule.Run) { r.Reason = schedule.ReasonSnoozeLimit }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, registrar.Config{})
			if tc.more == nil {
				tc.more = func(*schedule.Run) {}
			}
			r.run(tc.is, tc.more)
			_, _, err := r.Report(r.Context(), registrar.ReportInput{Key: key, Status: schedule.StatusSnooze, DelayMS: tc.delay})
			if _, wrong := errors.AsType[*schedule.InvalidError](err); wrong != tc.wrong || !wrong && !errors.Is(err, tc.want) {
				r.Fatalf("answered %v, want %v, or a wrong delay: %t", err, tc.want, tc.wrong)
			}
			if err != nil {
				return
			}
			change := r.page.runChange
			if (change.Settle != nil) != tc.moves || len(change.Events) > 0 {
				r.Errorf("%+v is written, want a settlement: %t", change, tc.moves)
			}
			if s := change.Settle; tc.moves && (s.To != schedule.StatusSkipped || s.Reason != schedule.ReasonSnoozed || s.SnoozeUntil.Sub(s.CompletedAt).Milliseconds() != tc.delay) {
				r.Errorf("it is settled as %+v", s)
			}
		})
	}
}
