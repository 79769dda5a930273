// Package explain says of any instant of a schedule whether there was a slot,
// by which rule, and what became of it or will. It looks back on all six steps
// of a slot's life: facts in (what the registrar read from the ledger), answer
// out, as a structure and as sentences made of that structure. No context, no
// I/O, no clock.
//
// # How it judges
//
// The ledger comes first: where the slot has a row, the row is what happened,
// under the revision that it names. Without a row, in this order:
//
//   - the schedule did not exist then: not created yet, or deleted;
//   - the rule in force then has no slot there: why, and the slots around it;
//   - the slot lies in a recorded range: missed, coalesced, or dropped by a
//     pause or deletion;
//   - the schedule was paused then: by whom, with which note;
//   - it is due and not planned yet: a backlog, or a planner that is behind;
//   - it is older than what retention keeps, and its row may be gone;
//   - it lies ahead, and will fire unless a pause or its grant forbids it.
//
// What is left would be a slot without a row and without a range: a promise of
// docs/semantics.md broken. The answer then says so (VerdictUnrecorded).
//
// A slot at the very instant of a change belongs to what was before: an edit,
// pause or deletion takes slots later than itself away, and a creation or resume
// begins with the first slot later than itself. A pause that ends by itself
// leaves the slot at its end.
package explain
