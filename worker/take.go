package worker

import (
	"context"
	"time"

	"github.com/carillon/carillon/internal/ledger"
)

// longestTake is after how long the takes of a pass end, so that many of them do not delay slots.
const longestTake = 100 * time.Millisecond

// takeBatch is how many consumers one transaction looks at.
const takeBatch = 200

// takeEvents looks at the consumers that are due, and reports whether there is something to claim: runs
// that have taken events, or groups in which no consumer goes first any more.
func (t *term) takeEvents(ctx context.Context) (any bool) {
	state := t.memory.state
	if state == nil {
		return false
	}
	// One instant for all takes: a row that publishers have locked is not looked at again in this pass.
	for start, now := time.Now(), t.now(); ctx.Err() == nil; {
		due := state.Due(now, takeBatch)
		if len(due) == 0 {
			break
		}
		if time.Since(start) >= longestTake {
			t.wakeUp()
			break
		}
		began := time.Now()
		storeCtx, cancel := t.storeContext()
		taken, err := t.Fires.Take(storeCtx, ledger.TakeRequest{Term: t.Term, Now: now, ScheduleIDs: due})
		cancel()
		t.Metrics.step("take", began, err)
		if err != nil {
			state.Discard() // whether it was committed is not known
			t.failed(ctx, "take", err)
			break
		}
		state.Took(&taken, t.now())
		t.Metrics.took(&taken)
		any = any || len(taken.Locked) < len(due)
	}
	return any
}
