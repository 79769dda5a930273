package ratelimit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// PlaceLimits bound the calls that cost much processor time.
type PlaceLimits struct {
	Running  int           // at once, all callers together
	Waiting  int           // for a place, all callers together
	PerOwner int           // of them, of one owner
	Patience time.Duration // a call is refused that has waited so long
}

// ErrNoPlace refuses a call that would have to wait for a place beyond the
// limits.
var ErrNoPlace = errors.New("no place for an expensive call")

// Places let expensive calls take turns. One owner has one place at most, however
// many calls it has open, and owners that wait are served round robin: a second
// call of one owner never comes before the first of another.
//
// Places is safe for use by many goroutines.
type Places struct {
	limits PlaceLimits

	mu      sync.Mutex
	running int
	waiting int
	owners  map[string]*placeQueue // those with a call that runs or waits
	turns   []*placeQueue          // those with a call that waits and none that runs, the next first
}

// placeQueue is what one owner has open.
type placeQueue struct {
	running bool
	calls   []chan struct{} // that wait; closed when the place is theirs
}

// NewPlaces makes Places.
func NewPlaces(limits PlaceLimits) *Places {
	return &Places{limits: limits, owners: make(map[string]*placeQueue)}
}

// Take waits for the owner's place. release gives it back. The error is
// ErrNoPlace or that of ctx.
func (p *Places) Take(ctx context.Context, owner string) (release func(), err error) {
	given, err := p.enter(owner)
	if err != nil {
		return nil, err
	}
	release = func() { p.leave(owner) }
	patience := time.NewTimer(p.limits.Patience)
	defer patience.Stop()
	select {
	case <-given:
		return release, nil
	case <-patience.C:
		err = ErrNoPlace
	case <-ctx.Done():
		err = ctx.Err()
	}
	if !p.withdraw(owner, given) {
		release() // the place came at the same moment
	}
	return nil, err
}

// enter joins the owner's queue; given is closed when the place is the call's.
func (p *Places) enter(owner string) (given chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.owners[owner]
	if q == nil {
		q = &placeQueue{}
	}
	free := p.running < p.limits.Running && !q.running && len(p.turns) == 0
	if !free && (p.waiting >= p.limits.Waiting || len(q.calls) >= p.limits.PerOwner) {
		return nil, ErrNoPlace
	}
	given = make(chan struct{})
	p.owners[owner] = q
	q.calls = append(q.calls, given)
	p.waiting++
	if !q.running && len(q.calls) == 1 {
		p.turns = append(p.turns, q)
	}
	p.serve()
	return given, nil
}

// leave gives a place back. The owner's next call queues behind other owners.
func (p *Places) leave(owner string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.owners[owner]
	q.running = false
	p.running--
	if len(q.calls) > 0 {
		p.turns = append(p.turns, q)
	}
	p.forget(owner, q)
	p.serve()
}

// withdraw takes a call that waits out of the queue; false: it has its place.
func (p *Places) withdraw(owner string, given chan struct{}) bool {
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
		p.turns = slices.DeleteFunc(p.turns, func(other *placeQueue) bool { return other == q })
	}
	p.forget(owner, q)
	return true
}

// serve gives free places to the owners whose turn it is.
func (p *Places) serve() {
	for p.running < p.limits.Running && len(p.turns) > 0 {
		q := p.turns[0]
		p.turns = p.turns[1:]
		close(q.calls[0])
		q.calls = q.calls[1:]
		q.running = true
		p.running++
		p.waiting--
	}
}

func (p *Places) forget(owner string, q *placeQueue) {
	if !q.running && len(q.calls) == 0 {
		delete(p.owners, owner)
	}
}

// Open is how many calls run and how many wait.
func (p *Places) Open() (running, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running, p.waiting
}
