// Package ledger holds the rules of what may happen to a run, as pure functions
// and data: which due runs are claimed, in which order, and what the overlap
// policies decide (order.go, share.go, overlap.go, coalesce.go, judge.go); whether the executor
// may be called for a key (begin.go); what answers, reports and cancels make of a
// run (end.go); which runs are sent again, and which cancels (resend.go); which runs a
// sweep ends (bound.go). It has no I/O, no clock and no goroutines.
//
// [ShardState] is what the leader of a shard keeps in memory. One pass over it works
// like this:
//
//  1. The store opens the claim transaction, fenced by the epoch of the leader.
//  2. [Claim.Decide] reads the changes that others have committed, applies
//     them, chooses runs within the free capacity and judges grants and overlap.
//     It looks up runs that block a verdict.
//  3. The store writes the verdicts and commits.
//  4. The leader calls [ShardState.Commit], which enters the verdicts. If the result of the commit is
//     unknown, [ShardState.Discard] instead: the caller then rebuilds the state.
package ledger
