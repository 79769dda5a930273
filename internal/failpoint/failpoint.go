// Package failpoint names the places of the product at which the chaos rig
// (docs/reliability.md) kills or stops its own process: between two writes that
// a crash must not tear apart.
//
// It takes no step in a slot's life. Without the build tag failpoints, Hit is
// empty and costs nothing; no released binary has the tag.
package failpoint

// The places, each named for what has just happened.
const (
	PlanBegun         = "plan.begun"         // the planner holds its schedules
	PlanCommitting    = "plan.committing"    // rows and cursors are written, not committed
	PlanCommitted     = "plan.committed"     // and committed
	ClaimCommitting   = "claim.committing"   // runs are LAUNCHING, not committed
	ClaimCommitted    = "claim.committed"    // and committed, nothing is handed over yet
	HandOver          = "handover"           // a claimed run is about to go to the launcher
	HandedOver        = "handed.over"        // the launcher has answered, the worker has not written it
	SettleCommitting  = "settle.committing"  // outcomes are written, not committed
	SettleCommitted   = "settle.committed"   // and committed
	SweepCommitted    = "sweep.committed"    // what was past its bound has ended
	RenewSending      = "renew.sending"      // before the leader's row is extended
	RenewCommitted    = "renew.committed"    // after it
	TakeoverBegun     = "takeover.begun"     // the lock is won, the epoch not yet raised
	TakeoverCommitted = "takeover.committed" // the epoch is raised, nothing done in it
	Resigned          = "resigned"           // the row has expired on purpose, the lock is held
	PruneCommitted    = "prune.committed"    // a portion of old rows is gone
	KeyRecorded       = "key.recorded"       // the launcher has the key in progress, nothing is sent
	Sending           = "sending"            // the executor is about to be called
	Sent              = "sent"               // it has answered, nothing is recorded
	OutcomeRecorded   = "outcome.recorded"   // its answer is durable, the worker does not know it
	UpsertCommitting  = "upsert.committing"  // a definition is written, not committed
	UpsertCommitted   = "upsert.committed"   // and committed, not answered
	PauseCommitted    = "pause.committed"    // a pause is in force, not answered
	ReportCommitted   = "report.committed"   // a report is taken, not answered
)
