package simulate

import (
	"context"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/memory"
	"github.com/carillon/carillon/internal/work"
)

// What a simulation spends, measured on scenarios of 10,000 slots.
const (
	turnSteps = 5 * work.PerMicrosecond
	rowSteps  = 25 * work.PerMicrosecond // for each row, from its plan to its end
	copySteps = work.PerMicrosecond      // for each row that is copied for a verdict
	loadSteps = work.PerMicrosecond / 2  // for each row that a state in memory is rebuilt from
	slotSteps = work.PerMicrosecond      // for each slot of the answer
	perStep   = 2                        // runs that overlap is judged on, for one step
	scanSteps = work.PerMicrosecond / 20 // for each row or range that is passed over
)

// counted is the ledger, whose passes spend by the rows that they look at. What
// is spent too much ends the simulation at its next turn.
type counted struct {
	*memory.Store
	world *world
}

// Claim spends by what overlap is judged on, and by what is written.
func (c counted) Claim(ctx context.Context, req ledger.ClaimRequest, claim *ledger.Claim) (ledger.Claimed, error) {
	claimed, err := c.Store.Claim(ctx, req, claim)
	v := &claimed.Verdicts
	c.world.spend(v.Weighed/perStep + (len(v.Claims)+len(v.Ends)+len(v.Waits)+len(v.Cancels))*copySteps)
	return claimed, err
}

// LoadOpen spends by the rows that it reads.
func (c counted) LoadOpen(ctx context.Context, term schedule.Term, from, until time.Time) (ledger.Open, error) {
	open, err := c.Store.LoadOpen(ctx, term, from, until)
	c.world.spend(len(open.Runs) * loadSteps)
	return open, err
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
