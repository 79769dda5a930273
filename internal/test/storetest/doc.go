// Package storetest is step 3 of a slot's life from the outside: the contract
// of a store, in prose here and in code in the topic files. Both stores run the
// same suite ([Run]), so that whatever is built on one works on the other.
//
// # What a store is
//
// A store keeps schedules and their revisions, the ledger of runs, the
// launcher's memory of keys, workflow versions, leaders and events. Every
// method is one whole transaction: it has happened entirely or not at all, and
// it may be repeated after an error. Whatever the callers believe, these hold:
//
//   - Fence. Plan, Prune, Claim, Reclaim, Settle and Sweep name a Term. They
//     write only while the leaders row of the term's shard has its holder and
//     epoch, else they answer schedule.ErrFenced. Once a takeover has returned,
//     nothing is written under an older epoch, not even by a transaction that
//     was under way. A zero Term is refused too. (fence.go)
//   - One shard each. A term plans the schedules, and claims, sends again and ends
//     the runs, whose buckets are its own (Term.Buckets); every
//     bucket is of one shard. A run is of the bucket of its own overlap key, also
//     when its schedule has another since. Settle takes any run, and Prune looks
//     at all. (shards.go)
//   - Forward only. A run's status moves along Status.Predecessors and never
//     back; what ended has ended. (settle.go)
//   - One in flight. Two runs that are Exclusive and share an overlap key are
//     never LAUNCHING, ENQUEUED or STARTED together. (overlap.go, race.go)
//   - One row per key. A key that is there is never written over by a plan, a
//     trigger or a retry. (plan.go, changes.go, runs.go)
//   - One caller per key. At most one Begin is Granted, whoever asks how often
//     and in how many places at once. (requests.go)
//   - One poisoned row harms itself only. (plan.go)
//
// # Transaction by transaction
//
// Plan hands over, ordered by plan_at and at most Limit, the schedules that are
// alive, not paused at now, and due to be looked at (plan_at not after Horizon),
// and those that have late rows: slots that fire after seen_until and whose lateness
// is more than Grace. It attaches the late rows, oldest first, and the definition of an older
// backlog. It writes the decisions and does not touch what is the user's, such
// as updated_at. A decision that counts a failure comes from a planner that may
// not know the schedule's place: only plan_at, the count and the events are
// written then, and the schedule is left alone until that plan_at.
//
// Prune deletes what has ended and is old. A tombstone stays while runs of it
// are left, because a run is read with its revision; the memory of a key stays
// while its run is not over, because it may be sent again. A call that nobody
// finished is no reason to keep it longer.
//
// LoadOpen is what a leader loads when it takes over: all runs in flight, all that
// wait, and the planned ones that fire in its window, with a read position. Later it
// loads the planned runs of the next part of its window. (load.go)
//
// Whatever changes a run or a schedule writes what it has changed into the log of
// changes, in the same transaction. The exceptions are the claim's own changes and
// planned runs that fire in more than half a minute: the leader knows the first and
// loads the second. A leader that loaded before a change, and has read changes since,
// knows what one knows that loads after it. (changelog.go)
//
// Claim reads the changes since a position, lets package ledger decide, and writes the
// verdicts: ends, waits, cancels, claims, then seen_until. A run gets its verdict only
// if it is as the leader believes, and so do the other runs of its overlap group;
// Missing names it. A claim is not written while another exclusive run is in flight; Refused
// names it. A claim from a position that is lost writes nothing.
// (verdicts.go)
//
// seen_until is the instant up to which the leaders of a shard have looked at every
// run in time. It never goes back, never passes a missed slot that the planner has not
// judged, survives a takeover, and is the least of all shards after their number has
// changed. A slot that fires later, and whose lateness is more than the grace, is
// missed: the planner judges it.
//
// The suite claims as a worker does (passes.go), so its clauses on order, capacity,
// owners, policies, grants and early claims hold package ledger and a store together
// to the contract: on-time rows before catch-up and backfill, then by priority,
// fire_at, run_at and key; owners take turns when more is due than Limit, and get no
// more than their Room; what is left behind stays PLANNED and is More. Rows of a
// deleted schedule end CANCELLED(deleted), slots of a paused one SKIPPED(paused), and a
// row that its grant does not allow SKIPPED with that reason, before overlap is judged.
// A row whose revision is gone ends FAILED. (claim.go, turns.go, arm.go, overlap.go,
// grants_claim.go)
//
// Reclaim sends the LAUNCHING runs again that a leader names, if they are still due:
// those of older epochs at once, those of its own after claimed_until. A run whose
// cancel is requested is left out, unless its key is DONE: then only the settlement is
// missing. What is left out is read again. (reclaim.go)
//
// Settle and ChangeRun move runs forward and say whether anything moved. A
// STARTED run may be settled to STARTED again: a heartbeat, which does not move
// started_at. A settlement to LAUNCHING renews claimed_until and moves nothing
// else. A run that is cancelled without a reason takes the one that was asked for.
// SettleLaunched is Settle for whoever leads nothing: the statuses alone decide.
//
// Sweep ends what is past its bound, and says what it was before. A launch whose
// key is DONE is left to be asked for again, until its bound, cancel or not.
//
// ChangeSchedules locks, asks, writes: many schedules, all or none. Two who
// create the same schedule do not both see none. What a plan put down for the
// time to come is only a plan: DropPlannedAfter takes it back without a trace.
// What is due ends with a reason.
//
// Begin, Finish, Release and CloseKey are the memory of a key. A key is DONE
// once and answers the same for ever. Begin checks pause, deletion, cancel and
// the grant in its own transaction; a refusal is recorded only where no call has
// begun, and for all but a cancel only from fire_at on. (grants_begin.go) While a call is open it counts as
// sent, because whoever made it may be dead and cannot say; once it is released
// as never sent it counts as not begun. Only the call whose lease it is can
// release it: one whose lease has passed to another sender changes nothing. The
// same goes for Extend, which may also revive a lease that has run out, as long
// as nobody else was granted the key.
//
// Takeover gives out epochs that only ever grow, over all shards together,
// whether a leader resigned, ran out, or was replaced by one that holds the lock.
// Who holds the lock replaces a leader that had it, and so is gone; but not one
// that says it leads without, and nobody replaces himself. A leader that is asked
// to resign learns of it with its next renewal.
//
// The number of shards is recorded once and for all workers: whoever has another
// is refused. SetShards ends every term; once it has returned, nothing is written
// under an older one. Recording more than one for the first time does so too.
//
// A grant never changes but for its revocation, which is for ever, and is never
// deleted. From the return of RevokeGrant on no Claim and no Begin allows a run on
// it. ChangeSchedules stores grants with its schedules, or neither. (grants.go)
//
// # Values
//
// Times are kept to the microsecond (the rest is cut off) and come back in UTC.
// A zero time, an empty string and a zero key are "none", and come back as such.
// JSON is kept byte for byte. Text is any valid UTF-8 without NUL. Lists are
// ordered by bytes, not by a locale.
//
// # Functions that a store calls
//
// decide is pure, and ledger.Claim.Decide changes only its state. They are called
// within the transaction, perhaps more than once, and must not call the store.
//
// # Where the prose says nothing
//
// Random histories over all of it are recorded with their answers in testdata
// and replayed on both stores (history.go). A change there is a change of
// behaviour: read its diff.
//
// # How the suite is written
//
// Every instant is passed in, on Postgres too; only the expiry of a term is
// judged by the database's own clock there. Nothing sleeps. A test that needs a
// ledger of its own opens a store of its own; the others share one and keep
// apart by their ids.
package storetest
