// Package explain answers for any instant of a schedule whether there was a slot,
// by which rule, and what its outcome was or will be. It is a pure function: facts
// in (what the registrar read from the ledger), answer out, as a structure and as
// sentences. No context, no I/O, no clock.
//
// # How it derives the answer
//
// The ledger comes first: if the slot has a row, the row and its revision tell what
// happened. Without a row, in this order:
//
//   - the schedule did not exist then: not created yet, or deleted;
//   - the rule in force then has no slot there: why, and the slots around it;
//   - the slot lies in a recorded range: missed, coalesced, or dropped by a
//     pause or deletion;
//   - the schedule was paused then: by whom, with which note;
//   - it is due and not planned yet: a backlog, or a planner that is behind;
//   - it is older than the retention, and its row may be deleted;
//   - it is in the future, and fires unless a pause or its grant forbids it.
//
// Anything else is a slot without a row and without a range, which violates
// docs/semantics.md. The answer says so (VerdictUnrecorded).
//
// A slot at the instant of a change belongs to the state before it: an edit, pause
// or deletion removes only later slots, and a creation or resume begins with the
// first later slot. The slot at the end of a pause with an end time fires.
package explain
