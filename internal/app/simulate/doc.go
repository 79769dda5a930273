// Package simulate plays steps 2 to 6 of a slot's life, from the plan to the
// report, ahead of time: a scenario of schedules, run times, outages and pauses,
// on a virtual clock.
//
// It decides nothing. The worker's own passes (worker.Steps) plan, claim, launch,
// cancel and sweep; the launcher records keys; the registrar pauses and takes
// reports; the ledger is the one in memory, which passes the suite of the real
// stores. What stands here is only when each of them has its turn: at the next
// instant at which the worker's loops would find something to do.
//
// At one instant, users come first, then the start or the death of the worker,
// the tick, the claim, the calls of the executor, and last the ends of runs: a
// run that ends at the very instant of the next slot is still in flight for it,
// as it would be for a real worker, whose launches take a moment.
//
// A test holds what comes out to the real worker over real SQLite, slot by slot.
package simulate
