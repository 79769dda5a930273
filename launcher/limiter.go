package launcher

import (
	"container/list"
	"context"
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

type waiter struct {
	admitted chan struct{} // closed when it has a call
}

func newLimiter(size int, m *Metrics) *limiter {
	return &limiter{metrics: m, free: size, open: make(map[string]int), waiting: make(map[string]*list.List), owners: list.New()}
}

// tryAcquire takes a call for an owner if one is free and the owner has no
// waiters.
func (l *limiter) tryAcquire(owner string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tryAcquireLocked(owner)
}

func (l *limiter) tryAcquireLocked(owner string) bool {
	if l.waiting[owner] != nil || !l.mayAdmit(owner) {
		return false
	}
	l.admit(owner)
	return true
}

// acquire takes a call for an owner. It waits for one until ctx ends.
func (l *limiter) acquire(ctx context.Context, owner string) error {
	l.mu.Lock()
	if l.tryAcquireLocked(owner) {
		l.mu.Unlock()
		return nil
	}
	if l.waiting[owner] == nil {
		l.waiting[owner] = list.New()
		l.owners.PushBack(owner)
	}
	w := &waiter{admitted: make(chan struct{})}
	element := l.waiting[owner].PushBack(w)
	l.mu.Unlock()
	l.metrics.callsWaiting.Inc()
	defer l.metrics.callsWaiting.Dec()

	select {
	case <-w.admitted:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-w.admitted: // admitted at the same moment: pass the call on
		l.releaseLocked(owner)
	default:
		// admitWaiting removes an owner without waiters from owners.
		l.waiting[owner].Remove(element)
	}
	return context.Cause(ctx)
}

// release returns a call.
func (l *limiter) release(owner string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.releaseLocked(owner)
}

// mayAdmit reports whether an owner may have one more call.
func (l *limiter) mayAdmit(owner string) bool { return ledger.Share(l.open[owner], l.free) > 0 }

func (l *limiter) admit(owner string) {
	l.free--
	l.open[owner]++
	l.metrics.callsOpen.Inc()
}

func (l *limiter) releaseLocked(owner string) {
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
			close(queue.Remove(queue.Front()).(*waiter).admitted)
		}
		l.owners.MoveToBack(first)
	}
}
