package local

import (
	"context"
	"errors"
	"time"

	"github.com/carillon/carillon/internal/backoff"
	"github.com/carillon/carillon/internal/schedule"
)

const (
	reportTimeout = 10 * time.Second
	lastReport    = 3 * time.Second // one more try after ctx has ended
)

// report reports STARTED at once and as a heartbeat each third of the run timeout,
// and then the end. The run never waits for a report.
func (e *Executor) report(ctx context.Context, r *activeRun) {
	delays := backoff.Delays{First: 100 * time.Millisecond, Last: 30 * time.Second}
	heartbeat := time.NewTimer(0)
	defer heartbeat.Stop()
	for {
		select {
		case <-r.done:
			e.reportEnd(ctx, r)
			return
		case <-heartbeat.C:
			if err := e.send(context.WithoutCancel(ctx), r, schedule.StatusStarted, reportTimeout); err != nil && !final(err) {
				if ctx.Err() == nil {
					e.cfg.Log.Warn("cannot report the run's heartbeat", "key", r.key.String(), "err", err)
				}
				heartbeat.Reset(delays.Next())
				continue
			}
			delays.Reset()
			heartbeat.Reset(max(r.call.RunTimeout/3, 100*time.Millisecond))
		}
	}
}

// reportEnd repeats the report of the result until it succeeds, and closes the run.
// When ctx ends it tries once more; after that the next start reports.
func (e *Executor) reportEnd(ctx context.Context, r *activeRun) {
	if r.result.ErrorCode == string(schedule.CodeCancelled) {
		e.flushLog(ctx, r)
		e.closeRun(r) // Cancel's answer says it
		return
	}
	delays := backoff.Delays{First: 100 * time.Millisecond, Last: 30 * time.Second}
	for {
		last := ctx.Err() != nil
		sendCtx, timeout := ctx, reportTimeout
		if last {
			sendCtx, timeout = context.WithoutCancel(ctx), lastReport
		}
		e.flushLog(ctx, r) // retry earlier failed writes before the end is reported
		err := e.send(sendCtx, r, r.result.Status, timeout)
		if err == nil || final(err) {
			if err != nil {
				e.cfg.Log.Warn("report of the run's end refused", "key", r.key.String(), "status", r.result.Status, "err", err)
			}
			e.closeRun(r)
			return
		}
		e.cfg.Log.Warn("cannot report the run's end", "key", r.key.String(), "status", r.result.Status, "err", err)
		if last {
			return
		}
		pause(ctx, delays.Next())
	}
}

// reportRecovered reports runs that ended under an earlier process.
func (e *Executor) reportRecovered(ctx context.Context) {
	e.mu.Lock()
	ended := e.unreported
	e.unreported = nil
	e.mu.Unlock()
	for _, r := range ended {
		e.reportEnd(ctx, r)
		e.forget(r)
		if ctx.Err() != nil {
			return // the others are still open, for the next start
		}
	}
}

func (e *Executor) send(ctx context.Context, r *activeRun, status schedule.Status, timeout time.Duration) error {
	if e.cfg.Reporter == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	report := schedule.ExecutorReport{Key: r.key, Status: status, RunID: runID(r.key)}
	if status.Terminal() {
		o := r.result.outcome(r.key)
		report.ErrorCode, report.ErrorMessage, report.FailureClass = o.ErrorCode, o.ErrorMessage, o.FailureClass
		report.ExitCode, report.Commit = r.result.ExitCode, o.Commit
	}
	return e.cfg.Reporter.ReportOutcome(ctx, report)
}

// flushLog writes the rest of the run's log.
func (e *Executor) flushLog(ctx context.Context, r *activeRun) {
	if r.log == nil {
		return
	}
	if err := r.log.flush(context.WithoutCancel(ctx), true); err != nil {
		e.logNotStored(r, err)
	}
}

func (e *Executor) logNotStored(r *activeRun, err error) {
	e.cfg.Log.Warn("cannot store the output of a run; it is tried again", "key", r.key.String(), "err", err)
}

func (e *Executor) closeRun(r *activeRun) {
	if err := e.files.close(r.key); err != nil {
		e.cfg.Log.Warn("cannot close the run", "key", r.key.String(), "err", err)
	}
}

// final reports whether a repeat cannot help: the ledger does not know the key, or
// has another outcome.
func final(err error) bool {
	_, invalid := errors.AsType[*schedule.InvalidError](err)
	return invalid || errors.Is(err, schedule.ErrNotFound) ||
		errors.Is(err, schedule.ErrRunIDMismatch) || errors.Is(err, schedule.ErrPrecondition)
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
