// Package seen spares a claim what the one before has found out. Rows that are
// left behind for want of launches are stamped as seen in time, and in a storm
// tens of thousands of them stay due: looking through them for one without a
// stamp, at every claim, is what all other owners would wait for.
package seen

import (
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// again is how long what was found out holds. Rows may be put below the bound by
// another process; its wake-up may be lost as well, and then they are seen a
// tick later.
const again = time.Second

// Bounds remember, for each shard, until which fire_at everything is stamped.
// The zero value is ready to use.
type Bounds struct {
	mu      sync.Mutex
	changes int // how often rows were put down, however late
	of      map[int]bound
}

type bound struct {
	term   schedule.Term
	until  time.Time // every row that is due by then is stamped
	looked time.Time // at all of them
}

// Look says what one claim looks through.
type Look struct {
	All   bool      // everything, and what is stranded besides
	After time.Time // what has a later fire_at; zero with All

	term    schedule.Term
	now     time.Time
	looked  time.Time
	changes int
}

// Next is what a claim of term at now must look through.
func (b *Bounds) Next(term schedule.Term, now time.Time) Look {
	b.mu.Lock()
	defer b.mu.Unlock()
	known, ok := b.of[term.Shard]
	age := now.Sub(known.looked)
	if !ok || known.term != term || age < 0 || age >= again || now.Before(known.until) {
		return Look{All: true, term: term, now: now, looked: now, changes: b.changes}
	}
	return Look{After: known.until, term: term, now: now, looked: known.looked, changes: b.changes}
}

// Stamped notes that a claim that is committed has left no row unstamped that
// was due.
func (b *Bounds) Stamped(l Look) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.changes != b.changes {
		return // what was put down meanwhile it may not have seen
	}
	if b.of == nil {
		b.of = make(map[int]bound)
	}
	b.of[l.term.Shard] = bound{term: l.term, until: l.now, looked: l.looked}
}

// Put notes that a row was put down, and committed, that is due at fireAt; zero
// is none.
func (b *Bounds) Put(fireAt time.Time) {
	if fireAt.IsZero() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changes++
	for shard, known := range b.of {
		if !fireAt.Truncate(time.Microsecond).After(known.until) {
			delete(b.of, shard)
		}
	}
}

// Earliest is the earliest fire_at of runs and of what was found before; zero is
// none.
func Earliest(runs []schedule.Run, found ...time.Time) (first time.Time) {
	for i := range runs {
		found = append(found, runs[i].FireAt)
	}
	for _, at := range found {
		if first.IsZero() || !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	return first
}
