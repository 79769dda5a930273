package worker

import (
	"sync"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// smallestPart: a reservation may always take 1/smallestPart of all launches if so many
// are free, even if that is more than half of the free ones.
const smallestPart = 50

// pool counts the launches that this process may have open at once. Its terms share it.
type pool struct {
	mu   sync.Mutex
	size int
	free int            // neither open nor reserved
	open map[string]int // by owner
	// Due runs wait for a launch: of these owners, which had too many open, or because no
	// launch was free. The next launch that is given back wakes the loops.
	limited map[string]struct{}
	starved bool
}

func newPool(size int) *pool {
	return &pool{size: size, free: size, open: make(map[string]int), limited: make(map[string]struct{})}
}

// reservation is the launches that one pass holds while it claims.
type reservation struct {
	pool       *pool
	n          int
	avail      int // launches that were free when it was made, these included
	capacities map[string]int
}

// reserve takes up to limit launches, at most half of the free ones: concurrent passes
// cannot take all of the last ones.
func (p *pool) reserve(limit int) *reservation {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(limit, max((p.free+1)/2, min(p.free, p.size/smallestPart)))
	r := &reservation{pool: p, n: n, avail: p.free, capacities: make(map[string]int)}
	p.free -= n
	return r
}

// capacity returns how many more launches an owner may have. The answer stays the same for a
// reservation, because the store may repeat its transaction.
func (r *reservation) capacity(owner string) int {
	if n, known := r.capacities[owner]; known {
		return n
	}
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	r.capacities[owner] = r.pool.capacity(owner, r.avail)
	return r.capacities[owner]
}

// capacity returns how many more launches of avail an owner may have.
func (p *pool) capacity(owner string, avail int) int { return ledger.Share(p.open[owner], avail) }

// open turns reserved launches into open ones and gives the others back.
func (r *reservation) open(launches []schedule.Launch) {
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	for i := range launches {
		r.pool.open[owner(&launches[i])]++
	}
	r.pool.free += r.n - len(launches)
}

// wanting records that due runs wait for launches, and reports whether the pass should
// claim again at once because launches are free now.
func (r *reservation) wanting() (again bool) {
	p := r.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.n == 0 && p.free > 0 {
		return true
	}
	for owner, n := range r.capacities {
		if n >= r.n {
			continue
		}
		if n == 0 && p.capacity(owner, p.free) > 0 {
			return true
		}
		p.limited[owner] = struct{}{}
	}
	p.starved = p.starved || r.n == 0
	return false
}

// freePart returns the free share of all launches, 0 to 1.
func (p *pool) freePart() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return float64(p.free) / float64(p.size)
}

// taken returns how many launches are open or reserved.
func (p *pool) taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size - p.free
}

// giveBack ends one open launch and reports whether a due run waits for it.
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
