package worker

import (
	"time"

	"github.com/carillon/carillon/internal/plan"
)

// Config is the operator's configuration of the worker. Zero fields take the documented
// defaults.
type Config struct {
	Tick         time.Duration // TICK_MS
	Lookahead    time.Duration // LOOKAHEAD_MS
	Grace        time.Duration // MISFIRE_GRACE_MS
	MaxCatchup   int           // MAX_CATCHUP_PER_TICK
	ClaimLease   time.Duration // CLAIM_LEASE_MS
	RetryFor     time.Duration // LAUNCH_RETRY_FOR_MS
	CancelWait   time.Duration // CANCEL_WAIT_MS
	Retention    time.Duration // RETENTION_DAYS
	MaxLaunches  int           // MAX_LAUNCHES: runs from claim to answer, of all terms; see ledger.Share for one owner's part
	RequireGrant bool          // REQUIRE_GRANT: a run without an execution grant is SKIPPED(grant_denied)
	// JobAttempts is DEFAULT_MAX_ATTEMPTS: of runs in queues where their schedule has no retry policy.
	JobAttempts int
	BoundQueues bool // QUEUES_MAX_IN_FLIGHT is set: runs in queues use the limit of all queues
	// MaxWindow is how many planned runs a term holds in memory before it stops to load
	// more (default 500,000).
	MaxWindow int
	// PlanAim is about how many slots one plan transaction inserts (default 4,000): other
	// writers wait meanwhile. PlanStride is how much further than the lookahead dense
	// schedules are planned at most (default: half of the lookahead). A store with one
	// writer needs less of both.
	PlanAim      int
	PlanStride   time.Duration
	DrainTimeout time.Duration // how long a stopping process waits for open calls
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	set(&c.Tick, time.Second)
	set(&c.Lookahead, time.Minute)
	set(&c.Grace, time.Minute)
	set(&c.ClaimLease, 30*time.Second)
	set(&c.RetryFor, 10*time.Minute)
	set(&c.CancelWait, 30*time.Second)
	set(&c.Retention, 90*24*time.Hour)
	set(&c.DrainTimeout, 10*time.Second)
	set(&c.PlanStride, c.Lookahead/2)
	c.PlanStride = min(c.PlanStride, c.Lookahead/2)
	if c.JobAttempts == 0 {
		c.JobAttempts = 3
	}
	if c.MaxWindow == 0 {
		c.MaxWindow = 500_000
	}
	if c.PlanAim == 0 {
		c.PlanAim = 4000
	}
	if c.MaxCatchup == 0 {
		c.MaxCatchup = 100
	}
	if c.MaxLaunches == 0 {
		c.MaxLaunches = 20_000
	}
	return c
}

// plan is the planner's configuration in a transaction of so many schedules: they share
// planRows.
func (c Config) plan(schedules int) plan.Config {
	share := max(1, planRows/max(1, schedules))
	return plan.Config{
		Lookahead: c.Lookahead, Stride: c.PlanStride, MaxRows: share, Grace: c.Grace, Tick: c.Tick,
		MaxCatchup: min(c.MaxCatchup, share),
	}
}
