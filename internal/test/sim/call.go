package sim

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// The errors of calls.
var (
	errCrashed = errors.New("sim: this process is dead")
	errFailed  = errors.New("sim: injected error")
	errLost    = errors.New("sim: reply lost")
	errDown    = errors.New("sim: service down")
)

// caller is one start of a process, or the clients of the API.
type caller struct {
	*world
	name   string
	dice   dice
	mortal bool // it can die and freeze
	skew   atomic.Int64
	trusts [4]atomic.Int64 // by shard: when the last successful takeover or renewal began

	dead    atomic.Bool
	crashed chan struct{} // closed when it dies
	frozen  atomic.Int64  // until then nothing of it runs
}

// now is the process' estimate of the time: late rather than early.
func (c *caller) now() time.Time { return time.Now().Add(-time.Duration(c.skew.Load())) }

// crash ends the process at once: none of its calls has an effect from now on.
func (c *caller) crash() {
	if c.dead.CompareAndSwap(false, true) {
		close(c.crashed)
	}
}

// service reports whether the callee is away.
type service func(at time.Duration) bool

// call makes every call. It waits for an instant of its own, and may inject a fault
// before or after the effect.
func (c *caller) call(ctx context.Context, s site, id uint64, away service, effect func() error) error {
	if c.dead.Load() {
		return errCrashed
	}
	d := c.dice.of(uint64(s)).of(id).of(uint64(c.elapsed()))
	fault := c.draw(s, d)
	wait := d.of(1).span(50*time.Microsecond, 1500*time.Microsecond)
	switch fault {
	case slow:
		wait += d.of(2).span(0, time.Second)
	case stall:
		wait += d.of(2).span(time.Second, 2*c.profile.ttl)
	}
	c.wait(ctx, s, d, wait)
	if c.dead.Load() {
		return errCrashed
	}
	c.coverage.calls[s].Add(1)
	at := c.elapsed()
	c.log.note(at, c.name, s, id, fault)
	if away != nil && away(at) {
		c.coverage.faults[s][down].Add(1)
		return errDown
	}
	if err := ctx.Err(); err != nil {
		c.coverage.faults[s][cut].Add(1)
		if d.of(3).perMille(500) {
			_ = effect() // it was on its way already
		}
		return err
	}
	if fault >= 0 {
		c.coverage.faults[s][fault].Add(1)
	}
	return c.perform(fault, effect)
}

// perform is the effect, with a fault right before or after it.
func (c *caller) perform(fault kind, effect func() error) error {
	switch fault {
	case crashBefore:
		c.crash()
		return errCrashed
	case failed:
		return errFailed
	}
	err := effect()
	switch {
	case c.dead.Load():
		return errCrashed
	case fault == crashAfter:
		c.crash()
		return errCrashed
	case fault == replyLost:
		return errLost
	}
	return err
}

// draw is the fault of one call; -1: none.
func (c *caller) draw(s site, d dice) kind {
	if c.calm.Load() {
		return -1
	}
	n := d.of(9).below(100_000)
	for k := range kinds {
		if n -= c.profile.rates[k] * rare[s]; n < 0 {
			if cannot(s, k) {
				return -1
			}
			return k
		}
	}
	return -1
}

// wait sleeps, at most until the caller's timeout, and through a freeze of its process.
func (c *caller) wait(ctx context.Context, s site, d dice, wait time.Duration) {
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)+d.of(4).span(1, time.Microsecond))
	}
	c.sleep(d, wait)
	for n := uint64(10); ; n++ {
		thaw := time.Duration(c.frozen.Load()) - c.elapsed()
		if thaw <= 0 {
			return
		}
		c.coverage.faults[s][frozen].Add(1)
		c.sleep(d, thaw+d.of(n).span(0, time.Millisecond))
	}
}

// sleep ends at an instant at which no other call continues, if necessary nanoseconds
// later: in a bubble, timers of one instant end in any order. In some hundred worlds,
// two calls draw the same once. Two identical calls of one process at one instant stay
// together, because their order cannot be determined.
func (w *world) sleep(d dice, wait time.Duration) {
	w.mu.Lock()
	at := w.elapsed() + wait
	for other, taken := w.taken[at]; taken && other != d; other, taken = w.taken[at] {
		at++
	}
	w.taken[at] = d
	w.mu.Unlock()
	time.Sleep(at - w.elapsed())
}
