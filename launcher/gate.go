package launcher

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// gates hold what was handed over early: never before fire_at. All that waits
// for one instant waits at one gate, so that a herd costs one timer, and not one
// for each of its runs when every microsecond counts.
type gates struct {
	now  func() time.Time
	mu   sync.Mutex
	at   map[int64]*gate // by instant, in nanoseconds since 1970
	left atomic.Int64    // calls that are due and have not begun
}

type gate struct {
	open    chan struct{} // closed at the instant
	calls   []*armed      // to be made then
	waiting int
	timer   *time.Timer
}

// wait returns at an instant, or when ctx ends before it.
func (g *gates) wait(ctx context.Context, at time.Time) error {
	for left := g.until(at); left > 0; left = g.until(at) { // again if the clock was set back
		one := g.join(at, left, nil)
		select {
		case <-one.open:
		case <-ctx.Done():
			g.leave(at, one)
			return ctx.Err()
		}
	}
	return ctx.Err()
}

// fire has a call made at an instant, unless ctx ends before it, and returns when
// it is over. Where the instant has passed it does nothing.
func (g *gates) fire(ctx context.Context, at time.Time, call func()) error {
	left := g.until(at)
	if left <= 0 {
		return ctx.Err()
	}
	a := &armed{call: call, over: make(chan struct{})}
	one := g.join(at, left, a)
	select {
	case <-a.over:
	case <-ctx.Done():
		if a.take() {
			g.leave(at, one)
			return ctx.Err()
		}
		<-a.over // it has begun, and is not cut off
	}
	if a.panicked != nil {
		panic(a.panicked)
	}
	return nil
}

func (g *gates) until(at time.Time) time.Duration { return at.Sub(g.now()) }

func (g *gates) join(at time.Time, left time.Duration, a *armed) *gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	one := g.at[at.UnixNano()]
	if one == nil {
		one = &gate{open: make(chan struct{})}
		one.timer = time.AfterFunc(min(left, longestTimer), func() { g.look(at, one) })
		g.at[at.UnixNano()] = one
	}
	one.waiting++
	if a != nil {
		one.calls = append(one.calls, a)
	}
	return one
}

// longestTimer: a timer does not see the clock being set.
const longestTimer = time.Second

// look opens a gate, if it is time.
func (g *gates) look(at time.Time, one *gate) {
	if g.due(at, one) {
		close(one.open) // wakes them all: not while others wait for the lock
		(&herd{calls: one.calls, left: &g.left}).run()
	}
}

func (g *gates) due(at time.Time, one *gate) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	left := g.until(at)
	switch {
	case one.waiting == 0: // all have left
		return false
	case left > 0:
		one.timer.Reset(min(left, longestTimer))
		return false
	}
	delete(g.at, at.UnixNano())
	return true
}

func (g *gates) leave(at time.Time, one *gate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if one.waiting--; one.waiting == 0 && g.at[at.UnixNano()] == one {
		one.timer.Stop()
		delete(g.at, at.UnixNano())
	}
}
