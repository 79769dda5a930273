package launcher

import (
	"context"
	"time"
)

// RequestHash is the hash by which two requests of one key are compared.
var RequestHash = requestHash

// Limiter bounds the executor calls.
type Limiter = limiter

func NewLimiter(size int) *Limiter { return newLimiter(size, NewMetrics(nil, "test")) }

// Acquire waits for a call.
func (l *limiter) Acquire(ctx context.Context, owner string) error {
	admitted := make(chan struct{})
	w := l.acquire(owner, func() { close(admitted) })
	if w == nil {
		return nil
	}
	select {
	case <-admitted:
	case <-ctx.Done():
		if l.withdraw(w) {
			return ctx.Err()
		}
	}
	return nil
}

func (l *limiter) Release(owner string) { l.release(owner) }

const (
	HoldAbove = holdAbove
	MaxHold   = maxHold
)

// Timers hold early starts.
type Timers = timers

func NewTimers(now func() time.Time) *Timers {
	return &timers{now: now, at: make(map[int64]*timer)}
}

// CallAt makes a call at an instant and returns when it is over. It does nothing if ctx
// ends before the instant, or if the instant has passed.
func (t *timers) CallAt(ctx context.Context, at time.Time, call func()) error {
	done := make(chan struct{})
	a := t.arm(at, func() { defer close(done); call() })
	if a == nil {
		return ctx.Err()
	}
	select {
	case <-done:
	case <-ctx.Done():
		if t.takeBack(a) {
			return ctx.Err()
		}
		<-done
	}
	return nil
}

// Wait returns at an instant, or when ctx ends before it.
func (t *timers) Wait(ctx context.Context, at time.Time) error {
	return t.CallAt(ctx, at, func() {})
}

// Expect adds calls that are due and have not begun.
func (t *timers) Expect(calls int64) { t.unstarted.Add(calls) }
func (t *timers) WaitForCalls()      { t.waitForCalls() }

func (t *timers) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.at)
}

// Deadlines are the contexts of calls.
type Deadlines = deadlines

func NewDeadlines(after time.Duration) *Deadlines       { return &deadlines{after: after} }
func (d *deadlines) From(now time.Time) context.Context { return d.from(now) }
