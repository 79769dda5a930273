package launcher

import (
	"container/list"
	"sync"

	"github.com/carillon/carillon/internal/ledger"
)

// limiter bounds the open executor calls of one Launcher. Starts of one owner
// wait in a queue and owners take turns, so that an owner whose executor hangs
// does not block the others.
type limiter struct {
	metrics *Metrics

	mu      sync.Mutex
	free    int
	open    map[string]int        // by owner
	waiting map[string]*list.List // by owner, of *waiter
	owners  *list.List            // owners with waiters, each once, next one first
}

// waiter is a start that waits for a call.
type waiter struct {
	owner    string
	admitted func()        // called in a goroutine of its own
	element  *list.Element // nil: it was admitted
}

func newLimiter(size int, m *Metrics) *limiter {
	return &limiter{metrics: m, free: size, open: make(map[string]int), waiting: make(map[string]*list.List), owners: list.New()}
}

// acquire takes a call for an owner if one is free and the owner has no waiters: nil.
// Otherwise admitted is called when the owner has one.
func (l *limiter) acquire(owner string, admitted func()) *waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting[owner] == nil {
		if l.mayAdmit(owner) {
			l.admit(owner)
			return nil
		}
		l.waiting[owner] = list.New()
		l.owners.PushBack(owner)
	}
	w := &waiter{owner: owner, admitted: admitted}
	w.element = l.waiting[owner].PushBack(w)
	l.metrics.callsWaiting.Inc()
	return w
}

// withdraw removes a waiter. false: it was admitted.
func (l *limiter) withdraw(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leave(w) // admitWaiting removes an owner without waiters from owners
}

// leave removes a waiter from the queue of its owner.
func (l *limiter) leave(w *waiter) bool {
	if w.element == nil {
		return false
	}
	l.waiting[w.owner].Remove(w.element)
	w.element = nil
	l.metrics.callsWaiting.Dec()
	return true
}

// mayAdmit reports whether an owner may have one more call.
func (l *limiter) mayAdmit(owner string) bool { return ledger.Share(l.open[owner], l.free) > 0 }

func (l *limiter) admit(owner string) {
	l.free--
	l.open[owner]++
	l.metrics.callsOpen.Inc()
}

// release returns a call.
func (l *limiter) release(owner string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free++
	l.metrics.callsOpen.Dec()
	if l.open[owner]--; l.open[owner] <= 0 {
		delete(l.open, owner)
	}
	l.admitWaiting()
}

// admitWaiting admits waiters, one owner after the other, until no owner may
// have more.
func (l *limiter) admitWaiting() {
	for refused := 0; l.free > 0 && refused < l.owners.Len(); {
		first := l.owners.Front()
		owner := first.Value.(string)
		queue := l.waiting[owner]
		switch {
		case queue.Len() == 0:
			delete(l.waiting, owner)
			l.owners.Remove(first)
			continue
		case !l.mayAdmit(owner):
			refused++
		default:
			refused = 0
			l.admit(owner)
			w := queue.Front().Value.(*waiter)
			l.leave(w)
			go w.admitted()
		}
		l.owners.MoveToBack(first)
	}
}
