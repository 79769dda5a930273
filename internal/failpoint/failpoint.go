// Package failpoint names the points at which the chaos rig (docs/reliability.md) kills
// or stops a process: between two steps that a crash must not separate.
//
// Without the build tag failpoints, Hit is empty and costs nothing; no released binary
// has the tag.
package failpoint

// The points, each named for what happens there or was just done.
const (
	Committing = "committing" // a transaction of any kind has written, and not committed
	Committed  = "committed"  // and has committed, or failed to

	Planning = "planning" // the planner holds its schedules, and has written nothing
	Planned  = "planned"  // rows and cursors are committed
	Judging  = "judging"  // a claim holds an overlap key, and has written nothing
	Claimed  = "claimed"  // runs are LAUNCHING, and nothing was handed over
	Settled  = "settled"  // outcomes are committed
	Swept    = "swept"    // what was past its bound has ended
	Pruned   = "pruned"   // a portion of old rows is gone

	HandingOver     = "handing over"     // a claimed run is about to go to the launcher
	HandedOver      = "handed over"      // the launcher has answered, and the worker has not written it
	KeyRecorded     = "key recorded"     // the launcher has the key in progress, and nothing is sent
	Sending         = "sending"          // the executor is about to be called
	Sent            = "sent"             // it has answered, and nothing is recorded
	OutcomeRecorded = "outcome recorded" // its answer is durable, and the worker does not know it

	TakingOver = "taking over" // the lock is held or the row has expired, and the epoch is the old one
	TookOver   = "took over"   // the epoch is new, and nothing was done in it
	Renewing   = "renewing"    // the lock is kept, and the row not yet extended
	Renewed    = "renewed"     // the row is extended
	Resigned   = "resigned"    // the row has expired on purpose, and the lock is still held

	Upserted        = "upserted"          // a definition is committed, and not answered
	PausedOrResumed = "paused or resumed" // a pause or its end is committed, and not answered
	Reported        = "reported"          // a report is committed, and not answered
	Enqueued        = "enqueued"          // runs are in their queue, and nothing is answered

	Admitted = "admitted" // runs of a queue are admitted, and none is sent
	PutBack  = "put back" // runs that the executor did not take wait again
	Ended    = "ended"    // outcomes of runs of a queue are committed, and the next ones not admitted
)
