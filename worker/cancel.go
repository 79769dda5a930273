package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// cancelAgain is how long a cancel that was not confirmed rests before it is
// sent again.
const cancelAgain = 5 * time.Second

// cancelBatch bounds the cancels of one pass. It is generous: those that
// nobody confirms stand before the others until CancelWait is over.
const cancelBatch = 1000

// cancelLog remembers the cancels that were asked for: when each was last
// sent, so that a wake-up does not send it twice, and why, so that an answer
// which comes after it is read rightly.
type cancelLog struct {
	mu    sync.Mutex
	known map[schedule.Key]cancelEntry
}

type cancelEntry struct {
	reason     schedule.Reason
	seen, sent time.Time
	cannot     bool // the executor was found to have no cancel, and that was said
}

func newCancelLog() *cancelLog { return &cancelLog{known: make(map[schedule.Key]cancelEntry)} }

// note remembers that the run's cancel is asked for, and reports whether it is
// to be sent now.
func (c *cancelLog) note(run *schedule.Run, now time.Time) (due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.known[run.Key]
	e.reason, e.seen = run.CancelReason, now
	c.known[run.Key] = e
	return now.Sub(e.sent) >= cancelAgain
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

// reason is why the cancel of a run was asked for; "" = it was not.
func (c *cancelLog) reason(key schedule.Key) schedule.Reason {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[key].reason
}

// forget drops what the ledger has not shown for a while: it has ended.
func (c *cancelLog) forget(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, e := range c.known {
		if now.Sub(e.seen) >= 2*cancelAgain {
			delete(c.known, key)
		}
	}
}

// sendCancels carries cancels that were asked for to the launcher. What is not
// confirmed within CancelWait is ended by the sweep.
func (t *term) sendCancels(ctx context.Context) {
	storeCtx, cancel := t.storeContext()
	runs, err := t.Fires.CancelsDue(storeCtx, t.Term, cancelBatch)
	cancel()
	if err != nil {
		t.failed(ctx, "cancel", err)
		return
	}
	now := t.now()
	t.cancels.forget(now)
	for i := range runs {
		if !t.cancels.note(&runs[i], now) {
			continue
		}
		select {
		case <-t.freeCancels:
		default:
			continue // the next pass, at the latest the next tick
		}
		t.cancels.sending(runs[i].Key, now)
		t.calling(now, func() {
			defer func() { t.freeCancels <- struct{}{} }()
			t.sendCancel(&runs[i])
		})
	}
}

func (t *term) sendCancel(run *schedule.Run) {
	confirmed, err := t.Launcher.Cancel(t.calls, schedule.CancelRequest{
		Key: run.Key, ScheduleID: run.ScheduleID, ScheduledFor: run.RunAt, WorkflowID: run.WorkflowID, RunID: run.RunID, Reason: run.CancelReason,
	})
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
