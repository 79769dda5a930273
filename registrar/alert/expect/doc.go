// Package expect evaluates expectations: whether the slots of a schedule started
// and finished within its limits, and whether a run has succeeded recently. It is
// pure. The expected slots follow from the rule and its revisions; the ledger only
// tells their outcome. So a slot that was not planned, because no leader lives, is
// as late as a slot whose run hangs.
//
// # The verdict on one slot
//
// A slot at run_at with the limit D gets one of these verdicts, which is final:
//
//   - met: a run of it (its own, a retry's, a backfill's) was accepted by an
//     executor (start), or ended SUCCESS (finish), not later than run_at + D;
//   - excused: a user stopped it. The schedule was paused before it had started, or
//     its run was cancelled, or ended by a pause or deletion;
//   - late: run_at + D has passed and neither holds. A skipped slot (overlap,
//     queue_full, coalesced, missed, a grant) is late too: the work was not done.
//
// Slots are evaluated in the order of run_at; "in a row" means that order. An
// excused slot neither extends a row nor ends it. An edit applies to later slots: a
// slot has the limit of its own revision.
package expect
