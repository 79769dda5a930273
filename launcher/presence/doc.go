// Package presence holds the presence lock of this process: step 5 of a slot's
// life records each key under the number of that lock. While others find the lock
// taken, the process lives. When it is free, the process is gone, and they take its
// keys over before the leases end.
//
// On Postgres it is an advisory lock of a session of its own, which the server frees
// within milliseconds of kill -9. On SQLite it is a lock on a file next to the
// database. ledger.Holder says what a free lock proves.
package presence
