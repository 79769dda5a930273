package launcher

import (
	"runtime"
	"sync/atomic"
	"time"
)

// burst makes many calls on a few goroutines: waking ten thousand goroutines, whose
// stacks have left the processor's caches, takes longer than their calls.
//
// About GOMAXPROCS goroutines pull calls. A goroutine that begins a call starts
// a replacement first, because the call may block. So calls that return at once
// share a few goroutines, and each blocking call has its own.
type burst struct {
	n       int
	call    func(i int)
	next    atomic.Int64 // index of the next call
	pulling atomic.Int64 // goroutines that are not in a call
}

// callEach calls call(0) to call(n-1). It returns when each has begun; some may still
// be open in other goroutines.
func callEach(n int, call func(i int)) {
	b := &burst{n: n, call: call}
	pullers := min(runtime.GOMAXPROCS(0), n)
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
		if i >= b.n {
			return
		}
		if b.pulling.Add(-1) < enough && i+1 < b.n {
			b.pulling.Add(1)
			go b.pull()
		}
		b.call(i)
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
