package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Recover reads the files of an earlier process (see the package comment). Lost runs
// become FAILED, unreported ends are left to Serve, and accepted runs are queued
// again. Serve calls it; an earlier call does no harm.
func (e *Executor) Recover(ctx context.Context) error {
	keys, err := e.files.openKeys()
	if err != nil {
		return fmt.Errorf("recover runs: %w", err)
	}
	for _, key := range keys {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("recover runs: %w", err)
		}
		r, first, err := e.enter(key)
		if err != nil {
			return fmt.Errorf("recover runs: %w", err)
		}
		if first {
			e.readopt(r)
		}
	}
	return nil
}

// readopt takes over one open run. One that cannot be read is logged and skipped, so
// that others do not wait for it.
func (e *Executor) readopt(r *activeRun) {
	defer close(r.accepted)
	call, err := e.files.loadAccepted(r.key)
	if err == nil {
		r.call = call
		r.dag, err = Parse(call.DAG)
	}
	var known *Result
	if err == nil {
		known, err = e.earlier(r.key)
	}
	switch {
	case err != nil:
		if !errors.Is(err, fs.ErrNotExist) { // else: it was closed just now
			e.cfg.Log.Error("cannot recover the run", "key", r.key.String(), "err", err)
		}
		r.err = err
		e.forget(r)
	case known != nil:
		e.cfg.Log.Warn("run recovered", "key", r.key.String(), "schedule_id", r.call.ScheduleID, "status", known.Status, "error_code", known.ErrorCode)
		r.finish(known)
		e.mu.Lock()
		e.unreported = append(e.unreported, r)
		e.mu.Unlock()
	default:
		e.cfg.Log.Info("run queued again", "key", r.key.String(), "schedule_id", r.call.ScheduleID)
		e.enqueue(r)
	}
}

// Serve runs accepted runs until ctx ends. Running ones have ShutdownGrace to end by
// themselves. Then it ends them (SIGTERM, SIGKILL after StopGrace) as FAILED with error
// code "interrupted"; waiting ones are left to the next start. It owns every goroutine and
// returns when the last has ended.
func (e *Executor) Serve(ctx context.Context) error {
	if err := e.Recover(ctx); err != nil {
		return err
	}
	var group sync.WaitGroup
	defer group.Wait()
	places := make(chan struct{}, e.cfg.Concurrency)
	defer func() { e.stop(len(places)) }()
	group.Go(func() { e.reportRecovered(ctx) })
	for {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		r := e.next(ctx)
		if r == nil {
			return nil
		}
		group.Go(func() { e.carry(ctx, r, func() { <-places }) })
	}
}

// next waits for a run to begin; nil: ctx has ended.
func (e *Executor) next(ctx context.Context) *activeRun {
	for ctx.Err() == nil {
		e.mu.Lock()
		if len(e.queue) > 0 {
			r := e.queue[0]
			e.queue = e.queue[1:]
			e.mu.Unlock()
			return r
		}
		e.mu.Unlock()
		select {
		case <-e.wake:
		case <-ctx.Done():
		}
	}
	return nil
}

// stop refuses new runs from now on.
func (e *Executor) stop(running int) {
	e.mu.Lock()
	e.stopping = true
	e.mu.Unlock()
	if running > 0 && e.cfg.ShutdownGrace > 0 {
		e.cfg.Log.Info("waiting for running commands", "runs", running, "at_most", e.cfg.ShutdownGrace)
	}
}

// runContext is the context of a run: it ends ShutdownGrace after ctx has ended.
func (e *Executor) runContext(ctx context.Context) (runCtx context.Context, cancel context.CancelCauseFunc, release func() bool) {
	runCtx, cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	release = context.AfterFunc(ctx, func() {
		if e.cfg.ShutdownGrace <= 0 {
			cancel(errInterrupted)
			return
		}
		time.AfterFunc(e.cfg.ShutdownGrace, func() { cancel(errInterrupted) }) // no effect on a run that has ended
	})
	return runCtx, cancel, release
}

// carry takes one run from its marker to its reported end. leave lets the next run
// begin: it must not wait for the report.
func (e *Executor) carry(ctx context.Context, r *activeRun, leave func()) {
	runCtx, cancel, release := e.runContext(ctx)
	defer cancel(nil)
	defer release()
	e.mu.Lock()
	r.cancel = cancel
	if r.cancelled { // between the queue and here
		cancel(errCancelled)
	}
	if ctx.Err() != nil && !r.cancelled {
		e.queue = append(e.queue, r) // nothing of it has run: the next start takes it
		e.mu.Unlock()
		leave()
		return
	}
	e.mu.Unlock()

	var reports sync.WaitGroup
	result, begun := e.begin(runCtx, r)
	if begun {
		r.log = newRunLog(r.key, e.cfg.Logs, e.cfg.Now)
		executed := make(chan struct{})
		reports.Go(func() { e.report(ctx, r) })
		reports.Go(func() { r.log.follow(context.WithoutCancel(ctx), executed, func(err error) { e.logNotStored(r, err) }) })
		result = e.execute(runCtx, r)
		close(executed)
	}
	if err := e.files.finish(r.key, result); err != nil {
		// It has ended and is reported. If this process ends before that, the next one
		// finds only a marker and reports it as lost.
		e.cfg.Log.Error("cannot store the run's result", "key", r.key.String(), "err", err)
	}
	e.cfg.Log.Info("run ended", "key", r.key.String(), "schedule_id", r.call.ScheduleID, "workflow_id", r.call.WorkflowID,
		"status", result.Status, "error_code", result.ErrorCode)
	r.finish(result)
	leave()
	if !begun {
		e.reportEnd(ctx, r)
	}
	reports.Wait()
	e.forget(r)
}

// begin marks the run as begun; it is never run again. false: it may not begin, and
// ends with the result.
func (e *Executor) begin(ctx context.Context, r *activeRun) (*Result, bool) {
	now := e.cfg.Now()
	switch {
	case errors.Is(context.Cause(ctx), errCancelled):
		return e.stopped(ctx, r), false
	case now.Sub(r.call.AcceptedAt) >= r.call.RunTimeout:
		// It counts as FAILED(timeout) already, and the next run may have begun.
		return e.ended(r.key, r.call, schedule.StatusFailed, "not_begun_in_time",
			fmt.Sprintf("it waited longer than its run timeout of %s for a free place; all %d were taken", r.call.RunTimeout, e.cfg.Concurrency)), false
	}
	err := e.files.begin(r.key, now)
	switch {
	case errors.Is(err, fs.ErrExist):
		return e.ended(r.key, r.call, schedule.StatusFailed, string(schedule.CodeLost), "it was started before, and its outcome is unknown"), false
	case err != nil:
		return e.ended(r.key, r.call, schedule.StatusFailed, "not_begun", err.Error()), false
	}
	return nil, true
}

// stopped is the result of a run that was stopped from outside.
func (e *Executor) stopped(ctx context.Context, r *activeRun) *Result {
	if errors.Is(context.Cause(ctx), errCancelled) {
		return e.ended(r.key, r.call, schedule.StatusFailed, string(schedule.CodeCancelled), errCancelled.Error())
	}
	return e.ended(r.key, r.call, schedule.StatusFailed, string(schedule.CodeInterrupted), errInterrupted.Error()+" while it ran")
}

// Cancel ends a run: a waiting one never begins, the processes of a running one get
// SIGTERM, and SIGKILL after the grace. It returns when they have ended. The end of a
// cancelled run is not reported: this answer is the report.
func (e *Executor) Cancel(ctx context.Context, ref schedule.CancelRequest) error {
	r, first, err := e.enter(ref.Key)
	if err != nil {
		return err
	}
	if first {
		return e.cancelUnknown(r)
	}
	select {
	case <-r.accepted:
	case <-ctx.Done():
		return fmt.Errorf("cancel: %w", ctx.Err())
	}
	if r.err != nil {
		return fmt.Errorf("cancel: %w: it was not accepted", schedule.ErrNotFound)
	}
	if e.unqueue(r) {
		return e.endUnbegun(r)
	}
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("cancel: it has not ended yet: %w", ctx.Err())
	}
}

// unqueue removes a waiting run from the queue (true), or tells a running one to end.
func (e *Executor) unqueue(r *activeRun) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.cancelled {
		return false // taken by another call, which ends it
	}
	r.cancelled = true
	for i, waiting := range e.queue {
		if waiting == r {
			e.queue = append(e.queue[:i], e.queue[i+1:]...)
			return true
		}
	}
	if r.cancel != nil {
		r.cancel(errCancelled)
	}
	return false
}

// endUnbegun ends a run before its first command.
func (e *Executor) endUnbegun(r *activeRun) error {
	result := e.ended(r.key, r.call, schedule.StatusFailed, string(schedule.CodeCancelled), "the run was cancelled before it began")
	err := e.files.finish(r.key, result)
	if err == nil {
		err = e.files.close(r.key)
	}
	r.finish(result)
	e.forget(r)
	if err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	return nil
}

// cancelUnknown answers for a key that only the files may know. It enters the key so
// that a concurrent Run of it waits.
func (e *Executor) cancelUnknown(r *activeRun) error {
	defer close(r.accepted)
	known, err := e.earlier(r.key)
	if err != nil {
		r.err = errOnlyAsked
		e.forget(r)
		return fmt.Errorf("cancel: %w", err)
	}
	if known != nil {
		r.finish(known)
		e.forget(r)
		return nil
	}
	r.call, err = e.files.loadAccepted(r.key)
	if err == nil {
		return e.endUnbegun(r)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: key %s", schedule.ErrNotFound, r.key)
	}
	r.err = errOnlyAsked
	e.forget(r)
	return fmt.Errorf("cancel: %w", err)
}
