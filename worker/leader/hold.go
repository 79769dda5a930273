package leader

import (
	"context"
	"errors"
	"time"
)

// hold is what one campaign has of the lock: it waits for it, as follower and
// on through a term, until it has it or the campaign is over.
type hold struct {
	*Elector
	held  chan struct{} // closed once the lock is held
	wonBy bool          // the term was won by it, so the row knows
}

// releaseLimit bounds how long a lock is given back; whoever follows may wait
// for it.
const releaseLimit = 2 * time.Second

// wait returns with the lock held, or when ctx has ended. It does not give up:
// where there is no lock to be had the row decides, until there is one.
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

// giveBack frees the lock, if it is held. wait has returned.
func (h *hold) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
	defer cancel()
	if err := h.Lock.Release(ctx); err != nil {
		h.quiet.Warn("cannot release the lock", err)
	}
}

// breakFirst and breakAgain are how long a leader waits for the lock that its
// predecessor still has, before and after it breaks it. A predecessor that only
// ends slowly is given the time.
const (
	breakFirst = time.Second
	breakAgain = 5 * time.Second
	breakLimit = 5 * time.Second
)

// breakOff frees the lock from a process that holds it without leading, until
// it is held here. ctx is the term: whoever is not trusted breaks nothing, for
// the holder may be the next leader.
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
