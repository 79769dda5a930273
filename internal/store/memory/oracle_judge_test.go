package memory

import (
	"fmt"
	"slices"

	"github.com/carillon/carillon/internal/schedule"
)

// judge carries out the verdicts on one overlap key, except the claims: those
// go through launch in the order of claims.
func (c *oracle) judge(g *schedule.OverlapGroup, judge func(schedule.OverlapGroup) []schedule.Verdict) error {
	if len(g.Waiting) == 0 && len(g.Due) == 0 {
		return nil // they all ended with their schedule
	}
	verdicts := judge(*g)
	if err := c.check(g, verdicts); err != nil {
		return err
	}
	for _, v := range verdicts {
		r := c.runs[v.Key]
		if v.Action == schedule.VerdictCancel {
			if c.askCancel(r, v.Reason, c.req.Now) {
				c.out.Cancels = append(c.out.Cancels, *r)
			}
			continue
		}
		switch v.Action {
		case schedule.VerdictClaim:
			c.take = append(c.take, r)
		case schedule.VerdictWait:
			if r.WaitingSince.IsZero() && r.Status == schedule.StatusPlanned {
				since := v.Since
				if since.IsZero() {
					since = c.req.Now
				}
				c.change(r, func(r *schedule.Run) { r.WaitingSince, r.UpdatedAt = since, c.req.Now })
				c.out.Waiting++
			}
		case schedule.VerdictSkip:
			c.end(r, schedule.Settlement{Key: v.Key, To: schedule.StatusSkipped, Reason: v.Reason})
		}
	}
	return nil
}

// check refuses verdicts on rows that are not the group's. It comes before any
// verdict is carried out: g.Waiting is the ledger's own queue, which that changes.
func (c *oracle) check(g *schedule.OverlapGroup, verdicts []schedule.Verdict) error {
	for _, v := range verdicts {
		r := c.runs[v.Key]
		switch {
		case v.Action == schedule.VerdictCancel && (r == nil || !among(g.InFlight, r)):
			return fmt.Errorf("a cancel of run %s, which is not in flight under overlap key %s", v.Key, g.OverlapKey)
		case v.Action == schedule.VerdictCancel:
		case r == nil || !among(g.Waiting, r) && !slices.ContainsFunc(g.Due, func(d schedule.Run) bool { return d.Key == v.Key }):
			return fmt.Errorf("a verdict on run %s, which is not one of overlap key %s", v.Key, g.OverlapKey)
		}
	}
	return nil
}

// among reports whether a row is one of rows, which are in order of fire_at.
func among(rows []schedule.Run, r *schedule.Run) bool {
	i, _ := slices.BinarySearchFunc(rows, r, func(a schedule.Run, r *schedule.Run) int { return schedule.ByFireAt(&a, r) })
	return i < len(rows) && rows[i].Key == r.Key
}
