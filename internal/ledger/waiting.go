package ledger

import "github.com/carillon/carillon/internal/schedule"

// checkEvery is how often a state checks the overlap groups with waiting runs, in
// microseconds. maxChecked caps the look-ups of one pass; the next pass continues.
const (
	checkEvery = 10_000_000
	maxChecked = 1000
)

// checkWaiting checks the overlap groups with waiting runs, every ten seconds. strays are
// waiting runs of groups that are free and that no pass would look at; there should be
// none. blockers are runs in flight to look up: a run that is over in the tables and not
// in the state would hold its group until another run of the group is due.
func (s *ShardState) checkWaiting(now int64) (strays, blockers []schedule.Key) {
	if s.stale || now >= s.checkedAt && now < s.checkedAt+checkEvery {
		return nil, nil
	}
	for g := range s.waiting {
		if g.members == nil || len(g.waiting) == 0 {
			delete(s.waiting, g)
			continue
		}
		_, listed := g.owner.freed[g]
		if _, active := s.active[g.owner]; g.freed() && !(listed && active) {
			strays = append(strays, g.waiting[0].key)
			s.tidy(g)
		}
		for _, r := range g.inFlight {
			switch {
			case r.flight.checkedAt > now-checkEvery:
			case len(blockers) == maxChecked:
				return strays, blockers
			default:
				blockers = append(blockers, r.key)
			}
		}
	}
	s.checkedAt = now
	return strays, blockers
}
