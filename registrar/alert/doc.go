// Package alert stands beside a slot's life: it has what did not happen judged
// (package expect), and tells of it.
//
// It runs in the registrar's role and needs no leader: that there is none is one
// of the things that it tells. Every registrar judges; an expectation is locked
// in the database while one of them does, so that each edge is found once. What
// is to be told is written in the transaction that found it, as messages in an
// outbox, one for each target, and sent from there by whichever registrar comes
// first: at least once, and always under the same webhook-id, by which a receiver
// knows a repeat.
//
// Three crash windows, and what closes each:
//
//   - between the verdict and its message: they are one transaction;
//   - between the claim of a message and its sending, or its answer: the claim is
//     a lease, and whoever finds it run out sends again under the same id;
//   - between the answer and its record: as before. The receiver sees a repeat.
package alert
