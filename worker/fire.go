package worker

import (
	"context"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/logthrottle"
	"github.com/carillon/carillon/internal/schedule"
)

// maxBatch is how many runs one claim or settle transaction carries.
const maxBatch = 1000

// Slots are claimed 250 to 950 ms before fire_at, so that the launcher can record
// their keys first and call the executor at the exact instant. The time is less than
// a second, because a check of pause and deletion is valid for a second. It shrinks
// as capacity runs out: each early claim holds one launch.
const (
	armLeast = 250 * time.Millisecond
	armMost  = 950 * time.Millisecond
)

func (t *term) armAhead() time.Duration {
	return armLeast + time.Duration(t.launches.freePart()*float64(armMost-armLeast))
}

// longestSleep caps a wait for the next instant: a timer notices neither that the
// clock is set nor that the machine sleeps. It is a little longer than the default
// tick, so that the tick's wake-up comes first: one pass instead of two.
const longestSleep = 1100 * time.Millisecond

// fireLoop claims runs at the instant at which they are due: a timer runs until the
// next fire_at, and a wake-up comes when a run has ended or was requested.
func (t *term) fireLoop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
		case <-timer.C:
			t.clearWake() // the timer and a wake-up at once: one pass is enough
		case <-t.wake:
		}
		if ctx.Err() != nil {
			return
		}
		ahead := t.firePass(ctx, t.cfg.Tick)
		timer.Reset(t.untilNext(ahead))
	}
}

// firePass claims, sends again and cancels once, and returns how far ahead it claimed.
// It stops claiming after about long, so that an endless backlog does not delay resends
// and cancels.
func (t *term) firePass(ctx context.Context, long time.Duration) (ahead time.Duration) {
	ahead = t.armAhead() // one for all of the pass
	t.claim(ctx, ahead, long)
	if t.takeEvents(ctx) {
		t.claim(ctx, ahead, long)
	}
	t.reclaim(ctx)
	t.sendCancels(ctx)
	return ahead
}

// untilNext is how long the loop may sleep: until the next slot can be claimed early,
// or until one that could not be claimed early is due.
func (t *term) untilNext(ahead time.Duration) time.Duration {
	return min(longestSleep, max(0, t.untilArmed(t.now(), ahead)))
}

// reclaim sends runs again that have no answer: those of an older term at once, those of
// this term when their lease or backoff is over. It may use a stale state, because the
// store checks each run.
func (t *term) reclaim(ctx context.Context) {
	state := t.memory.state
	if state == nil {
		return
	}
	// One instant for all batches: a run that could not be sent is not chosen again.
	for now := t.now(); ctx.Err() == nil; {
		r := t.launches.reserve(maxBatch)
		keys := state.SendAgain(now, r.n, r.capacity)
		if len(keys) == 0 {
			r.open(nil)
			return
		}
		storeCtx, cancel := t.storeContext()
		sent, err := t.Fires.Reclaim(storeCtx, ledger.ReclaimRequest{Term: t.Term, Now: now, Lease: t.cfg.ClaimLease, Keys: keys})
		cancel()
		r.open(sent.Launches)
		if err != nil {
			t.failed(ctx, "reclaim", err)
			return
		}
		state.SentAgain(now, keys, sent.Read)
		t.launchAll(sent.Launches)
	}
}

// skipped logs and counts a run that ended before it was launched.
func (t *term) skipped(s *schedule.Skip) {
	t.Metrics.ended(s.To, s.Reason, false)
	t.Tracer.Skipped(s)
	t.log.Log(t.calls, logthrottle.RunLevel(s.To), "run skipped", "schedule_id", s.ScheduleID, "run_at", s.RunAt, "key", s.Key.String(),
		"status", string(s.To), "reason", string(s.Reason), "error_code", s.ErrorCode, "error_message", s.ErrorMessage)
}
