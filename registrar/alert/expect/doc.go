// Package expect judges, beside a slot's life, what did not happen: whether the
// slots of a schedule started and finished within what it promises, and whether
// any run of it has succeeded of late. It is pure. Which slots there should have
// been follows from the rule and its revisions alone, and only what became of
// them is read off the ledger: a slot that nobody planned, since no leader lives,
// is as late as one whose run hangs.
//
// # The verdict on one slot
//
// A slot at run_at with the limit D ends as one of these, for good:
//
//   - met: a run of it (its own, a retry's, a backfill's) was accepted by an
//     executor (start), or ended SUCCESS (finish), not later than run_at + D;
//   - excused: a person stopped it. The schedule was paused while it had not
//     started, or its run was cancelled, or ended by a pause or deletion;
//   - late: run_at + D is over, and it is neither. A slot that was skipped
//     (overlap, queue_full, coalesced, missed, a grant) is late like any other:
//     nobody is helped by knowing that a policy wanted it so.
//
// Slots are judged in their order, so "in a row" is in the order of run_at.
// Excused ones neither lengthen a row nor break it. What an edit changes holds
// for slots behind it; a slot has the limit that its own revision promised.
package expect
