package memory

import (
	"cmp"
	"slices"

	"github.com/carillon/carillon/internal/schedule"
)

// turns are the first Limit rows in the order of claims, as far as their owners
// have capacity: what is due, and what waits longest for an overlap key that is free.
func (c *oracle) turns() []*schedule.Run {
	turns := c.due(func(r *schedule.Run) bool { return c.claimable(r) && !c.blockedAhead(r) && !c.held(r) })
	for key, k := range c.live.keys {
		if len(k.inFlight.rows) > 0 || !c.inShard(c.req.Term, key) {
			continue
		}
		if i := slices.IndexFunc(k.waiting.rows, func(r *schedule.Run) bool { return !c.held(r) }); i >= 0 {
			turns = append(turns, k.waiting.rows[i])
		}
	}
	slices.SortFunc(turns, c.inOrder)
	limit := max(c.req.Limit, 0)
	more := len(turns) > limit
	c.out.More = more
	switch {
	case more && limit > 0 && c.req.Capacity != nil:
		turns = c.shareOut(turns, limit)
	case c.req.Capacity != nil:
		turns = c.withRoom(turns)
	}
	return turns[:min(len(turns), limit)]
}

// shareOut lets owners take turns where more is due than the limit lets
// through: the first of each before the second of any.
func (c *oracle) shareOut(turns []*schedule.Run, limit int) []*schedule.Run {
	place, of := make(map[*schedule.Run]int), make(map[string]int)
	for _, r := range turns {
		owner := schedule.Owner(r.OverlapKey)
		of[owner]++
		place[r] = of[owner]
	}
	if len(of) < 2 { // their order is the usual one
		return c.withRoom(turns[:limit])
	}
	turns = slices.DeleteFunc(turns, func(r *schedule.Run) bool {
		return place[r] > min(max(c.req.Capacity(schedule.Owner(r.OverlapKey)), 0), limit)
	})
	slices.SortFunc(turns, func(a, b *schedule.Run) int {
		return cmp.Or(schedule.FalseFirst(a.FireAt.After(c.req.Now), b.FireAt.After(c.req.Now)), schedule.FalseFirst(a.Trigger.AfterOthers(), b.Trigger.AfterOthers()), cmp.Compare(place[a], place[b]), c.inOrder(a, b))
	})
	return turns
}

// withRoom leaves out what exceeds its owner's capacity: it stays for later.
func (c *oracle) withRoom(turns []*schedule.Run) []*schedule.Run {
	taken := make(map[string]int)
	return slices.DeleteFunc(turns, func(r *schedule.Run) bool {
		owner := schedule.Owner(r.OverlapKey)
		taken[owner]++
		over := taken[owner] > c.req.Capacity(owner)
		c.out.More = c.out.More || over
		return over
	})
}
