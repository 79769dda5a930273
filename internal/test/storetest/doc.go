// Package storetest is the contract of a store: the rules here, the tests in files by
// topic. All stores run the same suite ([Run]).
//
// # What a store is
//
// A store keeps schedules and their revisions, the ledger of runs, the launcher's record
// of keys, workflow versions, leaders and events. Each method is one transaction: it
// happens entirely or not at all, and may be repeated after an error. These rules hold,
// whatever the callers do:
//
//   - Fence. Plan, Prune, Claim, Reclaim, Settle and Sweep name a Term. They write only
//     while the leaders row of the term's shard has its holder and epoch, else they return
//     schedule.ErrFenced. After a takeover has returned, no older epoch writes, not even in
//     a transaction that was open. A zero Term is refused too. (fence.go)
//   - Shards. A term plans, claims, sends again and ends only in its own buckets
//     (Term.Buckets); each bucket belongs to one shard. A run has the bucket of its own
//     overlap key, even if its schedule's overlap key has changed since. Settle takes any
//     run, and Prune all. (shards.go)
//   - Forward only. A run's status moves along Status.Predecessors and never back; an
//     ended run does not change. (settle.go)
//   - One in flight. Two Exclusive runs with the same overlap key are never LAUNCHING,
//     ENQUEUED or STARTED together. (overlap.go, race.go)
//   - One row for each key. A plan, a trigger or a retry never overwrites the row of a key.
//     (plan.go, changes.go, runs.go)
//   - One caller for each key. At most one Begin is Granted, with any number of concurrent
//     callers. (requests.go)
//   - An unreadable row affects only itself: others are planned and listed, and a change
//     can replace it. (plan.go)
//
// # Each transaction
//
// Plan gives decide at most Limit schedules, in order of plan_at: those that are not
// deleted, not paused at now, and due (plan_at up to Horizon), and those with late rows:
// slots with fire_at after seen_until that are later than Grace. It attaches the late rows,
// oldest first, and the definition of an older backlog. It writes the decisions and no
// column of the user's, such as updated_at. A decision that counts a failure comes from a
// planner that may not know the cursor: only plan_at, the count and the events are written,
// and the schedule rests until that plan_at.
//
// Prune deletes old ended rows. A tombstone stays while it has runs, because a run is read
// with its revision. The record of a key without a run stays while its lease runs. An
// unfinished call does not keep it longer.
//
// LoadOpen reads what a leader needs at a takeover: all runs in flight, all waiting runs,
// and the planned runs of its window, with a read position. Later calls read the planned
// runs of the next part of the window. (load.go)
//
// Each write of a run or schedule adds it to changes, in the same transaction. The
// exceptions are a claim's own writes, and planned runs that fire in more than half a
// minute: the leader knows the former and loads the latter. A leader that loads and then
// reads changes knows the same as one that loads later. (changelog.go)
//
// Claim reads the changes after a position, lets package ledger decide, and writes the
// verdicts: ends, waits, cancels, claims, then seen_until. It writes a verdict only if the
// run and the others of its overlap group are in the state that the leader believes;
// Missing has the others. It does not write a claim while another exclusive run is in
// flight; Refused has it. With a lost position it writes nothing. (verdicts.go)
//
// seen_until is the instant up to which the leaders of a shard have seen every run in time.
// It never goes back, never passes a missed slot without a decision of the planner,
// survives a takeover, and is the least of all shards after their number has changed. A
// slot with a later fire_at that is later than the grace is missed: the planner decides.
//
// The suite claims as a worker does (passes.go), so its tests of order, capacity, owners,
// policies, grants and early claims cover package ledger together with a store: on-time
// rows come before catch-up and backfill, then order is by priority, fire_at, run_at and
// key; owners alternate when more is due than Limit, and get no more than their Capacity; the
// rest stays PLANNED and is More. Rows of a deleted schedule end CANCELLED(deleted), slots
// of a paused one SKIPPED(paused), and a row that its grant does not permit ends SKIPPED
// with that reason, before overlap is judged. A row with a missing revision ends FAILED.
// (claim.go, claim_order.go, arm.go, overlap.go, grants_claim.go)
//
// Reclaim prepares the LAUNCHING runs that a leader names to be sent again, if they are
// still due: those of older epochs at once, those of its own epoch after claimed_until. It
// leaves out a run with a requested cancel. It reads the runs that it left out.
// (reclaim.go)
//
// Settle and ChangeRun move runs forward and report whether a run moved. A STARTED run may
// be settled to STARTED again: a heartbeat, which does not change started_at. A settlement
// to LAUNCHING only renews claimed_until. A run that is cancelled without a reason gets the
// requested one. SettleLaunched is Settle without a term: only the statuses decide.
//
// Sweep ends runs that are past their bound and returns their earlier status. A launch with
// an open call has until its last bound.
//
// ChangeSchedules locks, decides, writes: many schedules, all or none. Of two callers that
// create the same schedule, only one sees none. DropPlannedAfter removes future planned
// rows without a trace; due ones end with a reason.
//
// Begin, Finish, Extend, Release, CloseKey and MoveKeys write the key of a run into its row,
// and the key of no run into execution_requests; most checks of keys are made with both. A
// request for another run than the key's is a conflict. Begin checks pause, deletion, cancel
// and the grant in its own transaction. It ends a refused run there, but only if no call has
// begun, and, except for a cancel, only from fire_at on (grants_begin.go). Finish settles
// the run; its first end stays, and another end that comes later leaves an event. An open call counts as sent, because its process
// may be dead; after a release as never sent it counts as not begun. Only the call with the
// lease can release it: after another sender has the lease, its release changes nothing.
// The same holds for Extend, which may also revive an expired lease if no other call was
// granted the key.
//
// Takeover issues epochs that only grow, over all shards, whether a leader resigned, expired
// or was replaced by the holder of its lock. The holder of the lock replaces a leader that
// had it, because that one is gone; it does not replace a leader without the lock, or
// itself. A leader learns at its next renewal that it was asked to resign.
//
// The number of shards is recorded once for all workers: a worker with another number is
// refused. SetShards ends all terms: after it has returned, no older term writes. So does
// the first record of more than one shard.
//
// A grant changes only by its revocation, which is final, and is never deleted. After
// RevokeGrant has returned, no Claim and no Begin permits a run on it. ChangeSchedules
// stores grants together with its schedules. (grants.go)
//
// # Values
//
// Times have microseconds (the rest is cut off) and come back in UTC. A zero time, an empty
// string and a zero key mean none, and come back as such. JSON is kept byte for byte. Text
// is valid UTF-8 without NUL. Lists are ordered by bytes, not by a locale.
//
// # Functions that a store calls
//
// decide is pure, and ledger.Claim.Decide changes only its state. They are called within
// the transaction, perhaps more than once, and must not call the store.
//
// # Recorded histories
//
// Random histories of all methods are recorded with their answers in testdata and replayed
// on the stores (history.go). A difference there is a change of behaviour: read it.
//
// # How the suite is written
//
// Every instant is an argument, on Postgres too; only the expiry of a term is judged by the
// database's clock. Nothing sleeps. A test that needs a whole ledger opens a store of its
// own; the others share one and use different ids.
package storetest
