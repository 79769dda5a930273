package simulate

import (
	"context"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/memory"
	"github.com/carillon/carillon/internal/work"
)

// The steps of work that a simulation spends, measured on scenarios of 10,000 slots.
const (
	eventSteps = 5 * work.PerMicrosecond
	rowSteps   = 25 * work.PerMicrosecond // per row, from its plan to its end
	copySteps  = work.PerMicrosecond      // per row that is copied for a verdict
	loadSteps  = work.PerMicrosecond / 2  // per row that is loaded to rebuild a state in memory
	slotSteps  = work.PerMicrosecond      // per slot of the answer
	perStep    = 2                        // runs that the overlap verdict compares, per step
	scanSteps  = work.PerMicrosecond / 20 // per row or range that is scanned
)

// counted is a ledger that spends work by the rows of each call. A spent budget ends the simulation
// before its next event.
type counted struct {
	*memory.Store
	world *world
}

// Claim spends by the runs compared for overlap and by the rows written.
func (c counted) Claim(ctx context.Context, req ledger.ClaimRequest, claim *ledger.Claim) (ledger.Claimed, error) {
	claimed, err := c.Store.Claim(ctx, req, claim)
	v := &claimed.Verdicts
	c.world.spend(v.Weighed/perStep + (len(v.Claims)+len(v.Ends)+len(v.Waits)+len(v.Cancels))*copySteps)
	return claimed, err
}

// LoadOpen spends by the rows read.
func (c counted) LoadOpen(ctx context.Context, term schedule.Term, from, until time.Time) (ledger.Open, error) {
	open, err := c.Store.LoadOpen(ctx, term, from, until)
	c.world.spend(len(open.Runs) * loadSteps)
	return open, err
}

// Plan spends by the rows scanned for each open backlog.
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
