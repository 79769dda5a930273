package launcher

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// burst makes the calls of one instant on a few goroutines of its own. It does
// not use the goroutines of the starts: waking ten thousand goroutines, whose
// stacks have left the processor's caches, takes longer than their calls.
//
// About GOMAXPROCS goroutines pull calls. A goroutine that begins a call starts
// a replacement first, because the call may block. So calls that return at once
// share a few goroutines, and each blocking call has its own.
type burst struct {
	calls     []*armed
	unstarted *atomic.Int64 // of all bursts: calls that have not begun
	next      atomic.Int64  // index into calls
	pulling   atomic.Int64  // goroutines that are not in a call
	notifyNow atomic.Bool   // a start is notified as soon as its call is over
}

// armed is a call that waits for its instant.
type armed struct {
	call     func()        // skipped if its start has given up
	done     chan struct{} // closed to notify the start that its call is over
	panicked any
	state    atomic.Int32
}

// The states of an armed call, in order.
const (
	waiting int32 = iota
	taken         // by the burst, or by a start that gives up
	finished
	notified
)

func (a *armed) take() bool { return a.state.CompareAndSwap(waiting, taken) }

func (a *armed) run() {
	if !a.take() {
		return
	}
	defer func() {
		if p := recover(); p != nil { // callAt panics with it again, in the goroutine of the start
			a.panicked = fmt.Sprintf("%v\n%s", p, debug.Stack())
		}
		a.state.Store(finished)
	}()
	a.call()
}

func (a *armed) notify() {
	if a.state.CompareAndSwap(finished, notified) {
		close(a.done)
	}
}

// run makes the calls. It returns when each has begun; some may still be open in
// other goroutines.
func (b *burst) run() {
	b.unstarted.Add(int64(len(b.calls)))
	if len(b.calls) > 1 {
		time.AfterFunc(maxHold, b.notifyAll)
	}
	pullers := min(runtime.GOMAXPROCS(0), len(b.calls))
	b.pulling.Store(int64(pullers))
	for range pullers - 1 {
		go b.pull()
	}
	b.pull()
}

// pull makes calls until none is left or enough other goroutines pull.
func (b *burst) pull() {
	enough := int64(runtime.GOMAXPROCS(0))
	for pulling := enough; pulling <= 2*enough; pulling = b.pulling.Add(1) {
		i := int(b.next.Add(1)) - 1
		if i >= len(b.calls) {
			b.notifyAll()
			return
		}
		b.unstarted.Add(-1)
		if b.pulling.Add(-1) < enough && i+1 < len(b.calls) {
			b.pulling.Add(1)
			go b.pull()
		}
		b.calls[i].run()
		if b.notifyNow.Load() {
			b.calls[i].notify()
		}
	}
	b.pulling.Add(-1)
}

// Recording an outcome costs a hundred times the CPU of an executor call. If the
// first outcomes of an instant were recorded at once, its last calls would be
// late. So outcomes wait for the calls, but not for long.
const (
	// maxHold is how long an outcome waits at most.
	maxHold = 100 * time.Millisecond
	// holdPoll is the interval at which it checks whether the calls have begun.
	holdPoll = 2 * time.Millisecond
	// holdAbove is the number of unstarted calls from which on outcomes of any
	// instant wait.
	holdAbove = 32
)

// notifyAll notifies the starts of finished calls, now and from now on.
func (b *burst) notifyAll() {
	if !b.notifyNow.CompareAndSwap(false, true) {
		return
	}
	for _, a := range b.calls {
		a.notify()
	}
}
