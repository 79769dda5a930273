// Package launchqueue carries claimed runs from step 4 to step 5 of a slot's life
// over Redis Streams (LAUNCH_QUEUE=redis), for more than one launcher. The
// leader's Publisher adds runs to a stream. A Consumer in each launcher process
// takes them, starts them with the launcher of the process, and settles the
// results. The two share only the format of an entry.
//
// Redis holds nothing that the ledger does not. A queued run stays LAUNCHING with
// the lease of its claim. So:
//
//   - A lost entry (Redis restarted without its file, FLUSHALL, a trimmed stream)
//     is added again when the lease of the claim ends.
//   - An entry that is delivered or added twice is the same key twice. The launcher
//     answers it from the record or finds its call open.
//   - A dead consumer leaves entries without acknowledgement. Live consumers
//     refresh theirs; an entry that is idle for takeoverIdle is taken over.
//   - An unreadable entry is dropped and logged.
//   - While Redis is unavailable, a run cannot be queued. Its key is sent again
//     after a backoff, as if a launcher had not answered.
//
// The launcher works as without a queue: it checks pause, deletion and cancel,
// records the key, and calls no executor before fire_at.
//
// Catch-up and backfill runs have a stream of their own and at most a quarter of
// the places, so that on-time runs do not wait behind them. Cancels have a stream
// too: launches that hang and hold all places may be the ones to cancel.
package launchqueue
