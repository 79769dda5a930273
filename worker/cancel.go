package worker

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// cancelBatch caps the cancels of one pass, and the cancels that are open.
const cancelBatch = 1000

// cancelLog remembers, for runs with a requested cancel, when the cancel was last sent and
// its reason. The reason decides what a later answer of the launcher means.
type cancelLog struct {
	mu    sync.Mutex
	known map[schedule.Key]cancelEntry
}

type cancelEntry struct {
	reason schedule.Reason
	sent   time.Time
	cannot bool // logged that the executor has no cancel
}

func newCancelLog() *cancelLog { return &cancelLog{known: make(map[schedule.Key]cancelEntry)} }

// note remembers that the run's cancel is requested.
func (c *cancelLog) note(run *schedule.Run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.known[run.Key]
	e.reason = run.CancelReason
	c.known[run.Key] = e
}

// sentAt returns when the cancel of a run was last sent; zero: never.
func (c *cancelLog) sentAt(key schedule.Key) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[key].sent
}

func (c *cancelLog) sending(key schedule.Key, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.known[key]
	e.sent = now
	c.known[key] = e
}

// cannot notes that the executor has no cancel, and reports whether that is new.
func (c *cancelLog) cannot(key schedule.Key) (isNew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.known[key]
	isNew = !e.cannot
	e.cannot = true
	c.known[key] = e
	return isNew
}

// reason returns the reason of a run's requested cancel; empty: none is requested.
func (c *cancelLog) reason(key schedule.Key) schedule.Reason {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[key].reason
}

// forget drops the runs that are not in flight any more.
func (c *cancelLog) forget(cancelling func(schedule.Key) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.known, func(key schedule.Key, _ cancelEntry) bool { return !cancelling(key) })
}

// sendCancels sends the cancels that are due to the launcher. The sweep ends a run if its
// cancel is not confirmed within CancelWait.
func (t *term) sendCancels(ctx context.Context) {
	state, now := t.memory.state, t.now()
	if state == nil {
		return
	}
	t.cancels.forget(state.Cancelling)
	keys := state.CancelsDue(now, cancelBatch, t.cancels.sentAt)
	if len(keys) == 0 {
		return
	}
	storeCtx, cancel := t.storeContext()
	runs, err := t.Fires.CancelRequests(storeCtx, keys)
	cancel()
	if err != nil {
		t.failed(ctx, "cancel", err)
		return
	}
	for i := range runs {
		t.cancels.note(&runs[i])
		select {
		case <-t.freeCancels:
		default:
			continue // in the next pass, at the latest at the next tick
		}
		t.cancels.sending(runs[i].Key, now)
		t.calling(now, func() {
			defer func() { t.freeCancels <- struct{}{} }()
			t.sendCancel(&runs[i])
		})
	}
}

func (t *term) sendCancel(run *schedule.Run) {
	confirmed, err := t.Launcher.Cancel(t.calls, schedule.CancelOf(run))
	if errors.Is(err, schedule.ErrUnsupported) {
		if t.cancels.cannot(run.Key) {
			t.log.Debug("the executor cannot cancel: the run continues", "schedule_id", run.ScheduleID, "key", run.Key.String())
		}
		return
	}
	if err != nil {
		t.log.Warn("cannot send the cancel", "schedule_id", run.ScheduleID, "key", run.Key.String(), "err", err)
		return
	}
	if !confirmed {
		return
	}
	t.settle(&schedule.Launch{Run: *run}, schedule.Settlement{
		Key: run.Key, To: schedule.StatusCancelled, Reason: run.CancelReason, CompletedAt: t.now(),
	})
}

// cancelOverdue asks the executor once to stop runs that have ended at their deadline.
func (t *term) cancelOverdue(ended []schedule.Ended) {
	for i := range ended {
		run := &ended[i].Run
		if run.Reason != schedule.ReasonDeadline {
			continue
		}
		t.calling(t.now(), func() {
			select {
			case <-t.calls.Done():
				return
			case <-t.freeCancels:
			}
			defer func() { t.freeCancels <- struct{}{} }()
			_, err := t.Launcher.Cancel(t.calls, schedule.CancelOf(run))
			if err != nil && !errors.Is(err, schedule.ErrUnsupported) {
				t.log.Warn("cannot send the cancel of a run past its deadline: it may go on", "schedule_id", run.ScheduleID, "key", run.Key.String(), "err", err)
			}
		})
	}
}
