// Package ledger holds the rules of what may happen to a run, as pure functions
// and data: which due runs are claimed, in which order, and what the overlap
// policies decide (order.go, share.go, overlap.go, judge.go); whether the executor
// may be called for a key (begin.go); what answers, reports and cancels make of a
// run (end.go); which runs a sweep ends (bound.go). It has no I/O, no clock and no
// goroutines.
//
// The stores judge in their claim transactions, with [JudgeOverlap]. [ShardState] is
// not used outside of tests yet: it is what the leader of a shard will keep in memory
// instead. One pass over it works like this:
//
//  1. The caller opens the claim transaction, fenced by the epoch of the leader.
//  2. [ShardState.Claim] reads the changes that others have committed, applies
//     them, chooses runs within the free capacity and judges grants and overlap.
//     It looks up runs that block a verdict.
//  3. The caller writes the verdicts and commits.
//  4. [ShardState.Commit] enters the verdicts. If the result of the commit is
//     unknown, [ShardState.Discard] instead: the caller then rebuilds the state.
package ledger
