package launchertest

import (
	"maps"
	"slices"
	"sync"

	"github.com/carillon/carillon/internal/schedule"
)

// Effects counts what took effect, by key. The zero value is ready.
type Effects struct {
	mu     sync.Mutex
	counts map[schedule.Key]int
	order  []schedule.Key
}

// Add records one effect.
func (e *Effects) Add(key schedule.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.counts == nil {
		e.counts = make(map[schedule.Key]int)
	}
	e.counts[key]++
	e.order = append(e.order, key)
}

// Of is how often a key took effect.
func (e *Effects) Of(key schedule.Key) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.counts[key]
}

// Counts is how often each key took effect.
func (e *Effects) Counts() map[schedule.Key]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.counts)
}

// Order lists the effects as they came.
func (e *Effects) Order() []schedule.Key {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.order)
}

// Doubled lists the keys that took effect more than once, which must not happen.
func (e *Effects) Doubled() []schedule.Key {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []schedule.Key
	for key, n := range e.counts {
		if n > 1 {
			out = append(out, key)
		}
	}
	return out
}
