package memstore

import (
	"fmt"
	"slices"

	"github.com/carillon/carillon/internal/schedule"
)

// judge carries out the verdicts on one overlap key, but for the claims: those
// go through launch in the order of claims.
func (c *claiming) judge(g *schedule.OverlapGroup, judge func(schedule.OverlapGroup) []schedule.Verdict) error {
	if len(g.Waiting) == 0 && len(g.Due) == 0 {
		return nil // they all ended with their schedule
	}
	named := func(key schedule.Key) func(schedule.Run) bool {
		return func(r schedule.Run) bool { return r.Key == key }
	}
	for _, v := range judge(*g) {
		r := c.runs[v.Key]
		if v.Action == schedule.VerdictCancel {
			if !slices.ContainsFunc(g.InFlight, named(v.Key)) {
				return fmt.Errorf("a cancel of run %s, which is not in flight under overlap key %s", v.Key, g.OverlapKey)
			}
			if c.askCancel(r, v.Reason, c.req.Now) {
				c.out.Cancels = append(c.out.Cancels, *r)
			}
			continue
		}
		if !slices.ContainsFunc(g.Waiting, named(v.Key)) && !slices.ContainsFunc(g.Due, named(v.Key)) {
			return fmt.Errorf("a verdict on run %s, which is not one of overlap key %s", v.Key, g.OverlapKey)
		}
		switch v.Action {
		case schedule.VerdictClaim:
			c.take = append(c.take, r)
		case schedule.VerdictWait:
			if r.WaitingSince.IsZero() && r.Status == schedule.StatusPlanned {
				c.change(r, func(r *schedule.Run) { r.WaitingSince, r.UpdatedAt = c.req.Now, c.req.Now })
				c.out.Waiting++
			}
		case schedule.VerdictSkip:
			c.end(r, schedule.Settlement{Key: v.Key, To: schedule.StatusSkipped, Reason: v.Reason})
		}
	}
	return nil
}
