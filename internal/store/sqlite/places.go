package sqlite

import (
	"strings"
	"sync"

	"github.com/carillon/carillon/internal/schedule"
)

// place is what a claim has found out about a run and its end asks for.
type place struct {
	row   int64 // its rowid; 0: not known
	noted bool  // last_run_at of its schedule already speaks for it
}

// maxPlaces bounds the memory; more are in flight only where executors report
// later. What is not known is looked up by the key.
const maxPlaces = 65_536

// places are those of the runs that were claimed here. Whoever goes by one
// names the key as well: the row may be gone, and its number another's.
type places struct {
	mu    sync.Mutex
	known map[schedule.Key]place
}

// keep remembers the places of what has been claimed.
func (p *places) keep(launches []schedule.Launch, of func(schedule.Key) place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || len(p.known)+len(launches) > maxPlaces {
		p.known = make(map[schedule.Key]place)
	}
	for i := range launches {
		p.known[launches[i].Run.Key] = of(launches[i].Run.Key)
	}
}

// of are the places of n runs.
func (p *places) of(n int, key func(int) schedule.Key) []place {
	out := make([]place, n)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range out {
		out[i] = p.known[key(i)]
	}
	return out
}

// forget drops what has ended.
func (p *places) forget(settlements []schedule.Settlement, moved []bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range settlements {
		if moved[i] && settlements[i].To.Terminal() {
			delete(p.known, settlements[i].Key)
		}
	}
}

// atPlace are settleStatements for a run whose row is known.
var atPlace = func() map[schedule.Status]string {
	out := make(map[schedule.Status]string, len(settleStatements))
	for to, statement := range settleStatements {
		out[to] = strings.Replace(statement, settleByKey, settleByRow, 1)
	}
	return out
}()
