// Package sim holds all six steps of a slot's life to what docs/reliability.md
// promises, in small made-up worlds: the real worker, elector, launcher and
// registrar, on a virtual clock, over a ledger in memory (package memory,
// which passes the suite of the real stores), with an executor that honours
// keys and everything else going wrong.
//
// # A seed
//
// A world is made from one number. The number says how many workers there are,
// which schedules, what users do to them, how each call of a store, a lock, the
// launcher and the executor goes, and when processes die, freeze or are cut off.
// The same number makes the same world again, call by call: that is what makes
// a failure found among a million worlds one that can be read.
//
// Goroutines are real, so this takes care. Nothing is drawn from a generator
// whose state depends on who asked first: each draw is a hash of the seed, the
// caller, the call and the virtual instant. And each call first waits for an
// instant of its own, to the nanosecond, so that of two calls it is always the
// same one that comes first. A test makes worlds twice and compares.
//
// # What goes wrong
//
// Around any call: the process dies before or after the effect, an error before
// the effect, an effect whose reply is lost, a delay of up to seconds. And from
// outside: a process is killed, frozen for longer than its term and goes on
// believing, or told to end; a lock is lost without notice; the store or the
// lock service is away for a while; a clock is set. Each world has some of
// these, at rates of its own. After about twenty seconds all faults end.
//
// # What is held
//
// The checker knows what users asked for and has seen every write of the ledger and every
// call of the executor. It enumerates slots and jitter by code of its own. The checked
// rules are in ledger.go (each write), executor.go (each call) and checker.go (the world
// as a whole).
package sim
