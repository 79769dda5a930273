package memory

import (
	"cmp"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// OracleReclaim chooses from the rows what is to be sent again, without those whose
// cancel is requested, and counts all that are due. It knows no state in memory.
func (s *Store) OracleReclaim(term schedule.Term, now time.Time, limit int, capacity func(owner string) int) (keys []schedule.Key, due int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var runs []*schedule.Run
	for _, r := range s.live.launching.rows {
		asked := !r.CancelRequestedAt.IsZero()
		if !asked && (r.Epoch != term.Epoch || !r.ClaimedUntil.After(at(now))) && s.inShard(term, r.OverlapKey) {
			runs = append(runs, r)
		}
	}
	due = len(runs)
	for _, r := range roundRobin(runs, limit, capacity) {
		keys = append(keys, r.Key)
	}
	return keys, due
}

// roundRobin chooses up to limit runs as far as their owners have capacity, the
// first of each before the second of any, and returns them in their order.
func roundRobin(runs []*schedule.Run, limit int, capacity func(owner string) int) []*schedule.Run {
	slices.SortFunc(runs, schedule.ByFireAt)
	place, of := make(map[*schedule.Run]int), make(map[string]int)
	for _, r := range runs {
		owner := schedule.Owner(r.OverlapKey)
		of[owner]++
		place[r] = of[owner]
	}
	runs = slices.DeleteFunc(runs, func(r *schedule.Run) bool { return place[r] > capacity(schedule.Owner(r.OverlapKey)) })
	slices.SortStableFunc(runs, func(a, b *schedule.Run) int { return cmp.Compare(place[a], place[b]) })
	runs = runs[:min(len(runs), limit)]
	slices.SortFunc(runs, schedule.ByFireAt)
	return runs
}
