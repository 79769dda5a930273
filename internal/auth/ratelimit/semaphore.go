package ratelimit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// SemaphoreLimits bound the calls that cost much processor time.
type SemaphoreLimits struct {
	Running  int           // calls of all owners
	Waiting  int           // calls of all owners
	PerOwner int           // waiting calls of one owner
	MaxWait  time.Duration // of one call
}

// ErrTooManyWaiting refuses a call that exceeds the limits of waiting calls.
var ErrTooManyWaiting = errors.New("too many expensive calls are waiting")

// Semaphore is a fair semaphore for expensive calls. Each owner runs at most one call, and waiting owners
// are served round robin, one call each.
//
// Semaphore is safe for use by many goroutines.
type Semaphore struct {
	limits SemaphoreLimits

	mu      sync.Mutex
	running int
	waiting int
	owners  map[string]*ownerQueue // with open calls
	ready   []*ownerQueue          // with waiting calls and none that runs, next first
}

// ownerQueue holds the calls of one owner.
type ownerQueue struct {
	running bool
	calls   []chan struct{} // waiting; closed when the call gets its permit
}

// NewSemaphore makes a Semaphore.
func NewSemaphore(limits SemaphoreLimits) *Semaphore {
	return &Semaphore{limits: limits, owners: make(map[string]*ownerQueue)}
}

// Take waits for the owner's permit; release returns it. The error is ErrTooManyWaiting or that of ctx.
func (p *Semaphore) Take(ctx context.Context, owner string) (release func(), err error) {
	given, err := p.enter(owner)
	if err != nil {
		return nil, err
	}
	release = func() { p.leave(owner) }
	timeout := time.NewTimer(p.limits.MaxWait)
	defer timeout.Stop()
	select {
	case <-given:
		return release, nil
	case <-timeout.C:
		err = ErrTooManyWaiting
	case <-ctx.Done():
		err = ctx.Err()
	}
	if !p.withdraw(owner, given) {
		release() // the call got its permit at the same moment
	}
	return nil, err
}

// enter joins the owner's queue; given is closed when the call gets its permit.
func (p *Semaphore) enter(owner string) (given chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.owners[owner]
	if q == nil {
		q = &ownerQueue{}
	}
	free := p.running < p.limits.Running && !q.running && len(p.ready) == 0
	if !free && (p.waiting >= p.limits.Waiting || len(q.calls) >= p.limits.PerOwner) {
		return nil, ErrTooManyWaiting
	}
	given = make(chan struct{})
	p.owners[owner] = q
	q.calls = append(q.calls, given)
	p.waiting++
	if !q.running && len(q.calls) == 1 {
		p.ready = append(p.ready, q)
	}
	p.serve()
	return given, nil
}

// leave returns a permit. The owner's next call waits behind other owners.
func (p *Semaphore) leave(owner string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.owners[owner]
	q.running = false
	p.running--
	if len(q.calls) > 0 {
		p.ready = append(p.ready, q)
	}
	p.forget(owner, q)
	p.serve()
}

// withdraw removes a waiting call from the queue; false: it already has its permit.
func (p *Semaphore) withdraw(owner string, given chan struct{}) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.owners[owner]
	i := slices.Index(q.calls, given)
	if i < 0 {
		return false
	}
	q.calls = slices.Delete(q.calls, i, i+1)
	p.waiting--
	if len(q.calls) == 0 {
		p.ready = slices.DeleteFunc(p.ready, func(other *ownerQueue) bool { return other == q })
	}
	p.forget(owner, q)
	return true
}

// serve gives free permits to the next owners.
func (p *Semaphore) serve() {
	for p.running < p.limits.Running && len(p.ready) > 0 {
		q := p.ready[0]
		p.ready = p.ready[1:]
		close(q.calls[0])
		q.calls = q.calls[1:]
		q.running = true
		p.running++
		p.waiting--
	}
}

func (p *Semaphore) forget(owner string, q *ownerQueue) {
	if !q.running && len(q.calls) == 0 {
		delete(p.owners, owner)
	}
}

// Open counts the running and waiting calls.
func (p *Semaphore) Open() (running, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running, p.waiting
}
