package launcher

import (
	"context"
	"time"
)

// RequestHash is what makes two requests of one key the same.
var RequestHash = requestHash

// Calls is what bounds the executor's calls.
type Calls = calls

func NewCalls(size int) *Calls { return newCalls(size, NewMetrics(nil, "test")) }

func (c *calls) Enter(ctx context.Context, owner string) error { return c.enter(ctx, owner) }
func (c *calls) Leave(owner string)                            { c.leave(owner) }

const (
	Crowd   = crowd
	HoldFor = holdFor
)

// Gates hold what is handed over early.
type Gates = gates

func NewGates(now func() time.Time) *Gates {
	return &gates{now: now, at: make(map[int64]*gate)}
}

func (g *gates) Wait(ctx context.Context, at time.Time) error { return g.wait(ctx, at) }

func (g *gates) Fire(ctx context.Context, at time.Time, call func()) error {
	return g.fire(ctx, at, call)
}

// Expect says that so many calls more are due and have not begun.
func (g *gates) Expect(calls int64) { g.left.Add(calls) }
func (g *gates) Pass()              { g.pass() }

func (g *gates) Standing() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.at)
}

// Deadlines are the contexts of calls.
type Deadlines = deadlines

func NewDeadlines(after time.Duration) *Deadlines       { return &deadlines{after: after} }
func (d *deadlines) From(now time.Time) context.Context { return d.from(now) }
