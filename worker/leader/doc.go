// Package leader decides which worker plans and fires a shard.
//
// Two things are at work. The leaders row (LeaseStore) decides: holder, epoch,
// expiry by the store's clock. A Lock makes handing over fast: a process that
// dies frees it in a millisecond, long before its row expires. Neither alone
// is enough. A stopped process keeps its lock for ever, so a follower also
// takes over once the row has expired, lock or no lock. A terminated session
// loses its lock without knowing, so a leader believes only in renewals of the
// row. And because a paused leader may believe wrongly for a moment, what it
// writes is fenced: every transaction names the epoch, and the store refuses
// all but the newest.
//
// The states, and what ends them:
//
//	follower ── lock won, or row expired ──▶ leader (epoch + 1)
//	leader ──── renewal fails, for whatever reason ──▶ follower
//	leader ──── told to end: drains, resigns, frees the lock ──▶ gone
//
// A leader trusts its term until the start of its last successful renewal plus
// the TTL minus a margin: the start, because the store may have extended the
// row at any moment after it; the margin, because clocks drift.
package leader
