package launcher

import (
	"container/list"
	"context"
	"sync"

	"github.com/carillon/carillon/internal/ledger"
)

// calls are the executor calls that one Launcher may have open at once. Who
// finds none free waits; each owner's starts wait in a row, and the owners take
// turns: the executor of one that hangs holds up nobody else's.
type calls struct {
	metrics *Metrics

	mu      sync.Mutex
	free    int
	open    map[string]int        // by owner
	waiting map[string]*list.List // by owner, of *caller
	turns   *list.List            // owners of whom some wait, each once
}

type caller struct {
	admitted chan struct{} // closed when it has a call
}

func newCalls(size int, m *Metrics) *calls {
	return &calls{metrics: m, free: size, open: make(map[string]int), waiting: make(map[string]*list.List), turns: list.New()}
}

// take takes a call for an owner, if there is one and nobody waits for it.
func (c *calls) take(owner string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.takeFree(owner)
}

func (c *calls) takeFree(owner string) bool {
	if c.waiting[owner] != nil || !c.admits(owner) {
		return false
	}
	c.admit(owner)
	return true
}

// enter takes a call for an owner, and waits for one until ctx ends.
func (c *calls) enter(ctx context.Context, owner string) error {
	c.mu.Lock()
	if c.takeFree(owner) {
		c.mu.Unlock()
		return nil
	}
	if c.waiting[owner] == nil {
		c.waiting[owner] = list.New()
		c.turns.PushBack(owner)
	}
	w := &caller{admitted: make(chan struct{})}
	place := c.waiting[owner].PushBack(w)
	c.mu.Unlock()
	c.metrics.callsWaiting.Inc()
	defer c.metrics.callsWaiting.Dec()

	select {
	case <-w.admitted:
		return nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-w.admitted: // just now: it goes to the next
		c.giveBack(owner)
	default:
		// An owner of whom nobody waits any more leaves the turns when it is its.
		c.waiting[owner].Remove(place)
	}
	return context.Cause(ctx)
}

// leave gives a call back.
func (c *calls) leave(owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.giveBack(owner)
}

// admits reports whether an owner may have one more.
func (c *calls) admits(owner string) bool { return ledger.Share(c.open[owner], c.free) > 0 }

func (c *calls) admit(owner string) {
	c.free--
	c.open[owner]++
	c.metrics.callsOpen.Inc()
}

func (c *calls) giveBack(owner string) {
	c.free++
	c.metrics.callsOpen.Dec()
	if c.open[owner]--; c.open[owner] <= 0 {
		delete(c.open, owner)
	}
	c.serve()
}

// serve admits who waits, an owner after the other, until none may have more.
func (c *calls) serve() {
	for refused := 0; c.free > 0 && refused < c.turns.Len(); {
		turn := c.turns.Front()
		owner := turn.Value.(string)
		row := c.waiting[owner]
		switch {
		case row.Len() == 0:
			delete(c.waiting, owner)
			c.turns.Remove(turn)
			continue
		case !c.admits(owner):
			refused++
		default:
			refused = 0
			c.admit(owner)
			close(row.Remove(row.Front()).(*caller).admitted)
		}
		c.turns.MoveToBack(turn)
	}
}
