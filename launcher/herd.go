package launcher

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// herd makes the calls that wait for one instant, on a few goroutines of its own
// and not on those of the starts that wait: to wake ten thousand goroutines, whose
// stacks have long left the processor's caches, takes longer than what each of
// them does then.
//
// As many goroutines look for the next call as there are processors. Who begins
// one sees to it that so many are left, since it may take its time: an executor
// that answers at once is called by a few goroutines, one call after the other,
// and of one that does not each call has its own.
type herd struct {
	calls   []*armed
	left    *atomic.Int64 // of all herds: calls that have not begun
	next    atomic.Int64  // of calls
	looking atomic.Int64  // goroutines that are in no call
	let     atomic.Bool   // go: whose call is over is told so at once
}

// armed is a call that waits for its instant.
type armed struct {
	call     func()        // made there, unless its start has given up
	over     chan struct{} // closed when it was made, and its start is told so
	panicked any
	state    atomic.Int32
}

// The states of what is armed, in this order.
const (
	waiting int32 = iota
	taken         // by the herd; or by its start, which has given up
	made
	told
)

func (a *armed) take() bool { return a.state.CompareAndSwap(waiting, taken) }

func (a *armed) make() {
	if !a.take() {
		return
	}
	defer func() {
		if p := recover(); p != nil { // it is its start's, and not the whole herd's
			a.panicked = fmt.Sprintf("%v\n%s", p, debug.Stack())
		}
		a.state.Store(made)
	}()
	a.call()
}

func (a *armed) tell() {
	if a.state.CompareAndSwap(made, told) {
		close(a.over)
	}
}

// run makes the calls. What it leaves to others, they have begun.
func (h *herd) run() {
	h.left.Add(int64(len(h.calls)))
	if len(h.calls) > 1 {
		time.AfterFunc(holdFor, h.letGo)
	}
	lookers := min(runtime.GOMAXPROCS(0), len(h.calls))
	h.looking.Store(int64(lookers))
	for range lookers - 1 {
		go h.look()
	}
	h.look()
}

// look makes calls until none is left, or enough others look for them.
func (h *herd) look() {
	enough := int64(runtime.GOMAXPROCS(0))
	for looking := enough; looking <= 2*enough; looking = h.looking.Add(1) {
		i := int(h.next.Add(1)) - 1
		if i >= len(h.calls) {
			h.letGo()
			return
		}
		h.left.Add(-1)
		if h.looking.Add(-1) < enough && i+1 < len(h.calls) {
			h.looking.Add(1)
			go h.look()
		}
		h.calls[i].make()
		if h.let.Load() {
			h.calls[i].tell()
		}
	}
	h.looking.Add(-1)
}

// Recording an outcome costs a hundred times what calling the executor does, and
// both want the same cores: where many calls are due at one instant, the first
// outcomes would make the last calls late. So outcomes wait for the calls of
// their instant, for a moment.
const (
	// holdFor is the longest that an outcome waits.
	holdFor = 100 * time.Millisecond
	// holdLook is how often it is looked whether the calls have begun.
	holdLook = 2 * time.Millisecond
	// crowd is how many calls make outcomes wait that are not of their instant.
	crowd = 32
)

// letGo tells the starts whose calls are over.
func (h *herd) letGo() {
	if !h.let.CompareAndSwap(false, true) {
		return
	}
	for _, a := range h.calls {
		a.tell()
	}
}

// pass returns once the calls that are due have begun, or after holdFor.
func (g *gates) pass() {
	for began := time.Now(); g.left.Load() >= crowd && time.Since(began) < holdFor; {
		time.Sleep(holdLook)
	}
}
