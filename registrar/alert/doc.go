// Package alert stands beside a slot's life: it has what did not happen judged
// (package expect), and tells of it.
//
// It runs in the registrar's role and needs no leader: that there is none is one
// of the things that it tells. Every registrar judges; an expectation is locked
// in the database while one of them does, so that each edge is found once. The
// transaction that finds an edge also writes what is to be told of it: for a
// webhook a message in the outbox, for targets that people read a notice. Watch.Group
// turns the notices of one incident into one message in the outbox. Any registrar
// sends from the outbox: at least once, and always under the same id.
//
// Three crash windows, and what closes each:
//
//   - between the verdict and its notice or message: they are one transaction; so are
//     a notice and the message that it becomes a part of;
//   - between the claim of a message and its sending, or its answer: the claim is
//     a lease, and whoever finds it run out sends again under the same id;
//   - between the answer and its record: as before. The receiver sees a repeat.
package alert
