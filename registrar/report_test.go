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
