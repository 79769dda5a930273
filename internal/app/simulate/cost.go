package simulate

import (
	"context"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/memory"
	"github.com/carillon/carillon/internal/work"
)

// What a simulation spends, measured on scenarios of 10,000 slots.
const (
	turnSteps = 5 * work.PerMicrosecond
	rowSteps  = 25 * work.PerMicrosecond // for each row, from its plan to its end
	copySteps = work.PerMicrosecond      // for each row that is copied for a verdict
	slotSteps = work.PerMicrosecond      // for each slot of the answer
	scanSteps = work.PerMicrosecond / 20 // for each row or range that is passed over
	perStep   = 2                        // rows that wait, for which a verdict costs one step
)

// counted is the ledger, whose passes spend by the rows that they look at. What
// is spent too much ends the simulation at its next turn.
type counted struct {
	*memory.Store
	world *world
}

// Claim spends by what overlap is judged on.
func (c counted) Claim(ctx context.Context, req schedule.ClaimRequest, judge func(schedule.OverlapGroup) []schedule.Verdict) (schedule.ClaimResult, error) {
	return c.Store.Claim(ctx, req, func(g schedule.OverlapGroup) []schedule.Verdict {
		c.world.spend(len(g.Waiting)/perStep + (len(g.Due)+len(g.InFlight))*copySteps)
		return judge(g)
	})
}

// Plan spends by the rows that the ledger goes through for each open backlog.
func (c counted) Plan(ctx context.Context, req schedule.PlanRequest, decide func([]schedule.PlanCandidate) []schedule.PlanDecision) (schedule.PlanResult, error) {
	return c.Store.Plan(ctx, req, func(candidates []schedule.PlanCandidate) []schedule.PlanDecision {
		for i := range candidates {
			if candidates[i].Schedule.Backlog.Open() {
				c.world.spend(c.world.inserted * scanSteps)
			}
		}
		return decide(candidates)
	})
}
