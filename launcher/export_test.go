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

func (l *limiter) Acquire(ctx context.Context, owner string) error { return l.acquire(ctx, owner) }
func (l *limiter) Release(owner string)                            { l.release(owner) }

const (
	HoldAbove = holdAbove
	MaxHold   = maxHold
)

// Timers hold early starts.
type Timers = timers

func NewTimers(now func() time.Time) *Timers {
	return &timers{now: now, at: make(map[int64]*timer)}
}

func (t *timers) Wait(ctx context.Context, at time.Time) error { return t.wait(ctx, at) }

func (t *timers) CallAt(ctx context.Context, at time.Time, call func()) error {
	return t.callAt(ctx, at, call)
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
