package launcher

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// timers hold starts that arrive before their fire_at. Starts of one instant
// share one timer: a timer for each run of a burst would cost microseconds at
// the moment when they count most.
type timers struct {
	now       func() time.Time
	mu        sync.Mutex
	at        map[int64]*timer // by instant, in nanoseconds since 1970
	unstarted atomic.Int64     // calls that are due and have not begun
}

type timer struct {
	fired   chan struct{} // closed at the instant
	calls   []*armed      // to be made then
	waiting int
	timer   *time.Timer
}

// wait returns at an instant, or when ctx ends before it.
func (t *timers) wait(ctx context.Context, at time.Time) error {
	for left := t.until(at); left > 0; left = t.until(at) { // again if the clock was set back
		one := t.join(at, left, nil)
		select {
		case <-one.fired:
		case <-ctx.Done():
			t.leave(at, one)
			return ctx.Err()
		}
	}
	return ctx.Err()
}

// callAt makes a call at an instant and returns when the call is over. It does
// nothing if ctx ends before the instant, or if the instant has passed.
func (t *timers) callAt(ctx context.Context, at time.Time, call func()) error {
	left := t.until(at)
	if left <= 0 {
		return ctx.Err()
	}
	a := &armed{call: call, done: make(chan struct{})}
	one := t.join(at, left, a)
	select {
	case <-a.done:
	case <-ctx.Done():
		if a.take() {
			t.leave(at, one)
			return ctx.Err()
		}
		<-a.done // a call that has begun is not interrupted
	}
	if a.panicked != nil {
		panic(a.panicked)
	}
	return nil
}

func (t *timers) until(at time.Time) time.Duration { return at.Sub(t.now()) }

func (t *timers) join(at time.Time, left time.Duration, a *armed) *timer {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.at[at.UnixNano()]
	if one == nil {
		one = &timer{fired: make(chan struct{})}
		one.timer = time.AfterFunc(min(left, maxTimer), func() { t.check(at, one) })
		t.at[at.UnixNano()] = one
	}
	one.waiting++
	if a != nil {
		one.calls = append(one.calls, a)
	}
	return one
}

// maxTimer bounds one timer: a running timer does not notice that the clock was
// set.
const maxTimer = time.Second

// check starts the burst of an instant if its time has come.
func (t *timers) check(at time.Time, one *timer) {
	if t.due(at, one) {
		close(one.fired) // without the lock: it wakes all waiters
		(&burst{calls: one.calls, unstarted: &t.unstarted}).run()
	}
}

func (t *timers) due(at time.Time, one *timer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := t.until(at)
	switch {
	case one.waiting == 0: // all have left
		return false
	case left > 0:
		one.timer.Reset(min(left, maxTimer))
		return false
	}
	delete(t.at, at.UnixNano())
	return true
}

func (t *timers) leave(at time.Time, one *timer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one.waiting--; one.waiting == 0 && t.at[at.UnixNano()] == one {
		one.timer.Stop()
		delete(t.at, at.UnixNano())
	}
}

// waitForCalls returns when nearly all due calls have begun, after maxHold at the
// latest.
func (t *timers) waitForCalls() {
	for began := time.Now(); t.unstarted.Load() >= holdAbove && time.Since(began) < maxHold; {
		time.Sleep(holdPoll)
	}
}
