package worker

import (
	"sync"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// smallestPart is the part of all launches that one reservation may take
// though it be more than half of what is free: one in so many.
const smallestPart = 50

// pool is the launches that this process may have open at once. Its terms
// share them.
type pool struct {
	mu   sync.Mutex
	size int
	free int            // neither open nor reserved
	open map[string]int // by owner
	// What was left behind for want of launches: its owner had too many open, or
	// nobody had one. Whoever gives one back wakes the loops for it.
	limited map[string]struct{}
	starved bool
}

func newPool(size int) *pool {
	return &pool{size: size, free: size, open: make(map[string]int), limited: make(map[string]struct{})}
}

// reservation is launches that one pass has for itself while it asks the store
// what is due.
type reservation struct {
	pool  *pool
	n     int
	avail int // what was not open then, these included
	rooms map[string]int
}

// reserve takes up to limit launches, at most half of what is free: so several
// owners that come at once cannot take the last ones between two looks.
func (p *pool) reserve(limit int) *reservation {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(limit, max((p.free+1)/2, min(p.free, p.size/smallestPart)))
	r := &reservation{pool: p, n: n, avail: p.free, rooms: make(map[string]int)}
	p.free -= n
	return r
}

// room is how many launches more an owner may have. It answers the same each
// time: the store may ask again.
func (r *reservation) room(owner string) int {
	if n, known := r.rooms[owner]; known {
		return n
	}
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	r.rooms[owner] = r.pool.room(owner, r.avail)
	return r.rooms[owner]
}

// room is how many more an owner may have of avail.
func (p *pool) room(owner string, avail int) int { return ledger.Share(p.open[owner], avail) }

// open makes some of what is reserved open and gives the rest back.
func (r *reservation) open(launches []schedule.Launch) {
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	for i := range launches {
		r.pool.open[owner(&launches[i])]++
	}
	r.pool.free += r.n - len(launches)
}

// wanting notes that something due was left behind, and reports whether it is
// to be looked at again at once: there is room for it now.
func (r *reservation) wanting() (again bool) {
	p := r.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.n == 0 && p.free > 0 {
		return true
	}
	for owner, n := range r.rooms {
		if n >= r.n {
			continue
		}
		if n == 0 && p.room(owner, p.free) > 0 {
			return true
		}
		p.limited[owner] = struct{}{}
	}
	p.starved = p.starved || r.n == 0
	return false
}

// freePart is which part of all is free, 0 to 1.
func (p *pool) freePart() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return float64(p.free) / float64(p.size)
}

// taken is how many are open or reserved.
func (p *pool) taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size - p.free
}

// giveBack ends one open launch, and reports whether something waits for it.
func (p *pool) giveBack(owner string) (wanted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free++
	if p.open[owner]--; p.open[owner] <= 0 {
		delete(p.open, owner)
	}
	_, limited := p.limited[owner]
	if !limited && !p.starved {
		return false
	}
	clear(p.limited)
	p.starved = false
	return true
}

func owner(l *schedule.Launch) string { return l.Definition.UserID }
