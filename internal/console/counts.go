package console

import (
	"fmt"
	"maps"
	"sync"
	"time"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// countsKept is how long the counts of an overview are cached for callers with the same identity:
// each open overview asks every 3 seconds, and counting 50,000 schedules takes a tenth of a second
// of a core.
const countsKept = 3 * time.Second

// keptCounts are the counts of overviews by caller.
type keptCounts struct {
	mu   sync.Mutex
	kept map[string]keptCount
}

type keptCount struct {
	counts *carillonv1.GetOverviewResponse
	at     time.Time
}

// of returns the counts of this caller, from ask if the cached ones are older than countsKept.
func (k *keptCounts) of(v *visit, ask func() (*carillonv1.GetOverviewResponse, error)) (*carillonv1.GetOverviewResponse, error) {
	who := fmt.Sprintf("%q %q %q %q", v.id.Subject, v.id.Owner, v.id.Via, v.id.Roles)
	k.mu.Lock()
	found, ok := k.kept[who]
	k.mu.Unlock()
	if ok && v.now.Sub(found.at).Abs() < countsKept {
		return found.counts, nil
	}
	counts, err := ask()
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.kept, func(_ string, old keptCount) bool { return v.now.Sub(old.at).Abs() >= countsKept })
	if k.kept == nil {
		k.kept = make(map[string]keptCount)
	}
	k.kept[who] = keptCount{counts, v.now}
	return counts, nil
}

// forget drops the counts of a caller after a change, which must be visible at once.
func (k *keptCounts) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.kept)
}
