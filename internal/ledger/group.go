package ledger

import (
	"github.com/carillon/carillon/internal/schedule"
)

// scheduleRuns are the known runs of one schedule, and its state where that
// stops them.
type scheduleRuns struct {
	id      string
	first   *run
	stopped bool // deleted or paused: see pause
	deleted bool
	pause   schedule.Pause
}

// group is an overlap group: the runs of one overlap key.
type group struct {
	key   string
	owner *owner
	runs  int // known
	*members
}

// members are the runs of a group that overlap is judged on. Most groups have
// none most of the time.
type members struct {
	inFlight  list
	exclusive int  // of inFlight
	waiting   list // in order of fire_at
	near      lane // exclusive, and due or early; in no order
}

// isNear reports whether a planned run may be claimed by now or early.
func isNear(r *run) bool { return r.place == placeDue || r.place == placeEarly }

// forMembers makes room for members.
func (g *group) forMembers() *members {
	if g.members == nil {
		g.members = new(members)
	}
	return g.members
}

// freed reports whether a waiting run of the group can be claimed.
func (g *group) freed() bool { return g.members != nil && len(g.waiting) > 0 && len(g.inFlight) == 0 }

// tidy forgets members that are none any more, and keeps the owner's list of
// groups that are freed.
func (g *group) tidy() {
	if g.freed() {
		g.owner.freed[g] = struct{}{}
		return
	}
	delete(g.owner.freed, g)
	if g.members != nil && len(g.inFlight)+len(g.waiting)+len(g.near.runs) == 0 {
		g.members = nil
	}
}

// owner is an owner with what it has due.
type owner struct {
	id         string
	groups     int // known
	due, early lane
	entering   lane                // due, and known to go into a dispatch queue; not in due
	freed      map[*group]struct{} // their first waiting run can be claimed
}

func isDue(r *run) bool      { return r.place == placeDue }
func isEarly(r *run) bool    { return r.place == placeEarly }
func isEntering(r *run) bool { return isDue(r) && r.queue == queueSome }

// isDueToLaunch: it may still turn out to go into a queue.
func isDueToLaunch(r *run) bool { return isDue(r) && r.queue != queueSome }

// idle reports whether the owner has nothing that a pass would look at.
func (o *owner) idle() bool {
	return len(o.due.runs)+len(o.early.runs)+len(o.entering.runs)+len(o.freed) == 0
}
