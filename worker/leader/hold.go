package leader

import (
	"context"
	"errors"
	"time"
)

// hold is one campaign's claim to the lock. It waits for the lock as a follower and during a
// term, until it has it or the campaign is over.
type hold struct {
	*Elector
	held  chan struct{} // closed once the lock is held
	wonBy bool          // the term was won with the lock, and the row says so
}

// releaseLimit bounds the release of a lock; the next process may wait for it.
const releaseLimit = 2 * time.Second

// wait returns with the lock held, or when ctx has ended. It never gives up: without a lock
// the row decides.
func (h *hold) wait(ctx context.Context) {
	for failures := 1; ; failures++ {
		err := h.Lock.Acquire(ctx)
		if err == nil {
			close(h.held)
			return
		}
		if ctx.Err() != nil {
			return
		}
		h.quiet.Warn("cannot acquire the lock", err)
		pause(ctx, h.Jitter(backoff(failures)))
	}
}

func (h *hold) isHeld() bool {
	select {
	case <-h.held:
		return true
	default:
		return false
	}
}

// giveBack frees the lock if it is held. wait must have returned.
func (h *hold) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
	defer cancel()
	if err := h.Lock.Release(ctx); err != nil {
		h.quiet.Warn("cannot release the lock", err)
	}
}

// A leader without the lock breaks it breakFirst after its term began, and every breakAgain
// after that: its predecessor may only be slow to end. breakLimit bounds one break.
const (
	breakFirst = time.Second
	breakAgain = 5 * time.Second
	breakLimit = 5 * time.Second
)

// breakOff takes the lock from a process that holds it without leading, until it is held
// here. It stops with the term's trust, ctx: then the holder may be the next leader.
func (h *hold) breakOff(ctx context.Context) {
	breaker, ok := h.Lock.(Breaker)
	for after := breakFirst; ok; after = breakAgain {
		timer := time.NewTimer(after)
		select {
		case <-ctx.Done():
		case <-h.held:
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil || h.isHeld() {
			return
		}
		breakCtx, cancel := context.WithTimeout(ctx, breakLimit)
		if err := breaker.Break(breakCtx); err != nil && !errors.Is(err, context.Canceled) {
			h.quiet.Warn("cannot end the session that holds the lock", err)
		}
		cancel()
	}
}
