package worker

import (
	"context"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// cancelAgain is how long a cancel that was not confirmed rests before it is
// sent again.
const cancelAgain = 5 * time.Second

// cancelBatch bounds the cancels of one pass.
const cancelBatch = 100

// cancelLog remembers when a cancel was last sent, so that a wake-up does not
// send it twice.
type cancelLog struct {
	mu   sync.Mutex
	sent map[schedule.Key]time.Time
}

func newCancelLog() *cancelLog { return &cancelLog{sent: make(map[schedule.Key]time.Time)} }

// claim reports whether the cancel of key is to be sent now. Entries that rest
// no longer are dropped: the ledger says what is still to be cancelled.
func (c *cancelLog) claim(key schedule.Key, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, at := range c.sent {
		if now.Sub(at) >= cancelAgain {
			delete(c.sent, k)
		}
	}
	if _, resting := c.sent[key]; resting {
		return false
	}
	c.sent[key] = now
	return true
}

// sendCancels carries cancels that were asked for to the launcher. What is not
// confirmed within CancelWait is ended by the sweep.
func (t *term) sendCancels(ctx context.Context) {
	storeCtx, cancel := t.storeContext()
	runs, err := t.Fires.CancelsDue(storeCtx, cancelBatch)
	cancel()
	if err != nil {
		t.failed(ctx, "cancel", err)
		return
	}
	for i := range runs {
		if !t.cancels.claim(runs[i].Key, t.now()) || t.reserve(1) == 0 {
			continue
		}
		go func() {
			defer t.release(1)
			t.sendCancel(&runs[i])
		}()
	}
}

func (t *term) sendCancel(run *schedule.Run) {
	confirmed, err := t.Launcher.Cancel(t.trusted, schedule.CancelRequest{
		Key: run.Key, ScheduleID: run.ScheduleID, WorkflowID: run.WorkflowID, RunID: run.RunID, Reason: run.CancelReason,
	})
	if err != nil {
		t.log.Warn("cancel not delivered", "schedule_id", run.ScheduleID, "key", run.Key.String(), "err", err)
		return
	}
	if !confirmed {
		return
	}
	t.settle(&schedule.Launch{Run: *run}, schedule.Settlement{
		Key: run.Key, To: schedule.StatusCancelled, Reason: run.CancelReason, CompletedAt: t.now(),
	})
}
