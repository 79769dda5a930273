// Package launchqueue carries claimed runs from step 4 to step 5 of a slot's
// life where one launcher is not enough (LAUNCH_QUEUE=redis): the leader's
// Publisher puts them into a Redis Stream, and in any number of processes a
// Consumer takes them out, hands them to the launcher beside it, and settles
// what comes of it. Neither knows more of the other than the entry.
//
// Redis holds nothing that the ledger does not. A run that is handed over stays
// LAUNCHING, with its claim's lease; whoever takes it settles it. So:
//
//   - An entry that is lost (a Redis that was restarted without its file, a
//     FLUSHALL, a stream that was trimmed) is put in again when the claim's lease
//     is over.
//   - An entry that is delivered twice, or put in twice, is the same key again:
//     the launcher answers it from the record, or finds its call open.
//   - A consumer that dies leaves entries that it had taken and not acknowledged.
//     Live consumers keep theirs young; what has been left alone for takeoverIdle
//     is taken over by another one.
//   - An entry that nobody can read is dropped, with a word in the log.
//   - While Redis is away, a run cannot be handed over: its key is sent again
//     after a backoff, as one is that a launcher did not answer.
//
// What is sent, and when, is the launcher's business as ever: it checks pause,
// deletion and cancel, records the key, and calls no executor before fire_at.
//
// What is made up for (catch-up, backfill) has a stream of its own, and may hold a
// quarter of the places: on-time slots do not wait behind it. So do cancels: launches
// that hang, and take every place there is, may be just what they are for.
package launchqueue
