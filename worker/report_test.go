package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
)

func TestHeartbeatsKeepARunAlive(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.every("s", time.Second, byHand, runTimeout(4*time.Second))
		r.executor.will(accept)
		stop := r.start()
		defer stop()
		run := r.trigger("s", "one")
		for range 3 {
			time.Sleep(3 * time.Second)
			r.report(run.Key, schedule.StatusStarted)
		}
		started := r.run(run.Key)
		r.is(started, schedule.StatusStarted, schedule.ReasonNone)
		if first := run.FireAt.Add(3 * time.Second); started.StartedAt.Sub(first).Abs() > 10*time.Millisecond {
			r.Errorf("started_at is %s, want the first report's %s", started.StartedAt, first)
		}
		time.Sleep(6 * time.Second)
		r.is(r.run(run.Key), schedule.StatusFailed, schedule.ReasonTimeout)
	})
}

func TestReportsAreSafeLateRepeatedAndOutOfOrder(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.every("s", time.Second, byHand)
		r.executor.will(accept)
		stop := r.start()
		run := r.trigger("s", "one")
		time.Sleep(time.Second)
		stop()
		r.report(run.Key, schedule.StatusSuccess) // skips STARTED
		r.is(r.run(run.Key), schedule.StatusSuccess, schedule.ReasonNone)
		for i, late := range []schedule.Status{schedule.StatusSuccess, schedule.StatusStarted, schedule.StatusFailed} {
			for range 3 {
				r.report(run.Key, late)
				r.is(r.run(run.Key), schedule.StatusSuccess, schedule.ReasonNone)
			}
			if n := len(r.events("s", schedule.EventReportIgnored)); n != i { // the first says what is known
				r.Errorf("%d events of ignored reports, want %d", n, i)
			}
		}
		err := r.registrar.ReportOutcome(r.Context(), schedule.ExecutorReport{Key: run.Key, Status: schedule.StatusSuccess, RunID: "another"})
		if !errors.Is(err, schedule.ErrRunIDMismatch) {
			r.Errorf("a report of another run_id: %v, want ErrRunIDMismatch", err)
		}
		err = r.registrar.ReportOutcome(r.Context(), schedule.ExecutorReport{Key: schedule.Key{1}, Status: schedule.StatusSuccess})
		if !errors.Is(err, schedule.ErrNotFound) {
			r.Errorf("a report of an unknown key: %v, want ErrNotFound", err)
		}
	})
}

func TestAReportMayOvertakeTheAnswer(t *testing.T) {
	for _, status := range []schedule.Status{schedule.StatusStarted, schedule.StatusSuccess} {
		t.Run(string(status), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.every("s", time.Second, byHand)
				r.executor.will(func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
					r.report(call.Key, status)
					return accept(ctx, call)
				})
				stop := r.start()
				defer stop()
				run := r.trigger("s", "one")
				time.Sleep(2 * time.Second)
				after := r.run(run.Key)
				r.is(after, status, schedule.ReasonNone)
				if after.LaunchedAt.Before(run.FireAt) || after.LaunchedAt.After(run.FireAt.Add(time.Second)) {
					r.Errorf("launched_at is %s, want about %s", after.LaunchedAt, run.FireAt)
				}
				s, err := r.store.GetSchedule(r.Context(), "s")
				if err != nil || !s.LastRunAt.Equal(run.RunAt) {
					r.Errorf("last_run_at is %s (%v), want %s", s.LastRunAt, err, run.RunAt)
				}
			})
		})
	}
}
