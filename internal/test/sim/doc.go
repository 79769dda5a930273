// Package sim checks the guarantees of docs/reliability.md for all six steps of a
// slot's life, and of dispatch queues, in small generated worlds: the real worker,
// elector, launcher, dispatcher and registrar, on a virtual clock, with a ledger in memory
// (package memory, which passes the suite of the real stores), an executor that honours
// keys, and faults everywhere else.
//
// # A seed
//
// A world is generated from one number: its workers, its schedules, the actions of
// users, the result of each call of a store, a lock, the launcher and the executor, and
// when processes die, freeze or are cut off. The same number generates the same world
// again, call by call, so a failure among a million worlds can be replayed.
//
// Goroutines are real, so two rules keep this deterministic. Each draw is a hash of the
// seed, the caller, the call and the virtual instant, not the next number of a shared
// generator. Each call first waits for an instant of its own, to the nanosecond, so that
// two calls always have the same order. A test runs worlds twice and compares.
//
// # Faults
//
// For any call: the process dies before or after the effect, an error before the effect,
// a lost reply, a delay of up to seconds. From outside: a process is killed, told to
// end, or frozen for longer than its term, after which it believes that it still leads;
// a lock is lost without notice; the store or the lock service is unavailable for a
// while; a clock is set. Each world has some of these, at rates of its own. After about
// twenty seconds all faults end.
//
// # Checks
//
// The checker knows what users asked for and has seen every write of the ledger and every
// call of the executor. It enumerates slots, jitter and retries by code of its own. The
// checked rules are in ledger.go (each write), retries.go (what follows a failure),
// executor.go (each call) and checker.go (the world as a whole). Those of dispatch queues,
// which a part of the worlds has, are in jobs.go (each write of a run), admissions.go (order,
// pauses and max_in_flight, at each admission and call) and entries.go (requests of users).
// Half of the worlds have topics with consumers: events.go has the answers to publishers, inboxes.go
// each write of an inbox and the events of each call, and wakes.go when a consumer is looked at.
package sim
