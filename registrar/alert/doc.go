// Package alert checks the expectations of schedules (package expect) and sends alerts.
//
// It runs in the registrar's role and needs no leader: a missing leader is one of the things that
// it reports. Every registrar checks; an expectation is locked in the database during a check, so
// that each change of state is found once. That transaction also writes the notification: for a
// webhook a message in the outbox, for targets that people read a notice. Watch.Group turns the
// notices of one incident into one message in the outbox. Any registrar sends from the outbox: at
// least once, always with the same id.
//
// Three crash windows, and what closes each:
//
//   - between the verdict and its notice or message: they are one transaction; so are
//     a notice and its message;
//   - between the claim of a message and its sending, or its answer: the claim is
//     a lease, and the next process sends again under the same id when it ran out;
//   - between the answer and its record: as before; the receiver sees a repeat.
package alert
