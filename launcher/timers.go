package launcher

import (
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
	calls   []*armed // to be made at the instant
	waiting int      // of them, those that were not taken back
	timer   *time.Timer
}

// armed is a call that waits for its instant.
type armed struct {
	call  func()
	at    time.Time
	on    *timer
	taken atomic.Bool // by the burst of its instant, or by takeBack
}

// arm makes a call at an instant, in another goroutine. The call may block. nil: the
// instant has passed.
func (t *timers) arm(at time.Time, call func()) *armed {
	left := t.until(at)
	if left <= 0 {
		return nil
	}
	a := &armed{call: call, at: at}
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.at[at.UnixNano()]
	if one == nil {
		one = &timer{}
		one.timer = time.AfterFunc(min(left, maxTimer), func() { t.check(at, one) })
		t.at[at.UnixNano()] = one
	}
	a.on = one
	one.waiting++
	one.calls = append(one.calls, a)
	return a
}

// takeBack prevents an armed call. false: it has begun.
func (t *timers) takeBack(a *armed) bool {
	if !a.taken.CompareAndSwap(false, true) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.on.waiting--; a.on.waiting == 0 && t.at[a.at.UnixNano()] == a.on {
		a.on.timer.Stop()
		delete(t.at, a.at.UnixNano())
	}
	return true
}

func (t *timers) until(at time.Time) time.Duration { return at.Sub(t.now()) }

// maxTimer bounds one timer: a running timer does not notice that the clock was
// set.
const maxTimer = time.Second

// check makes the calls of an instant if its time has come.
func (t *timers) check(at time.Time, one *timer) {
	if !t.due(at, one) {
		return
	}
	t.unstarted.Add(int64(len(one.calls)))
	callEach(len(one.calls), func(i int) {
		t.unstarted.Add(-1)
		if a := one.calls[i]; a.taken.CompareAndSwap(false, true) {
			a.call()
		}
	})
}

func (t *timers) due(at time.Time, one *timer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := t.until(at)
	switch {
	case one.waiting == 0: // all were taken back
		return false
	case left > 0:
		one.timer.Reset(min(left, maxTimer))
		return false
	}
	delete(t.at, at.UnixNano())
	return true
}

// waitForCalls returns when nearly all due calls have begun, after maxHold at the
// latest.
func (t *timers) waitForCalls() {
	for began := time.Now(); t.unstarted.Load() >= holdAbove && time.Since(began) < maxHold; {
		time.Sleep(holdPoll)
	}
}
