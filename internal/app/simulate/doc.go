// Package simulate simulates steps 2 to 6 of a slot, from the plan to the report, on a virtual clock: a
// scenario of schedules, run durations, outages and pauses.
//
// It makes no decisions. The passes of the worker (worker.Steps) plan, claim, launch, cancel and sweep;
// the launcher records keys; the registrar pauses and accepts reports; the in-memory ledger passes the
// test suite of the real stores. This package only schedules their calls: at the next instant at which
// the worker's loops would have work.
//
// At the same instant the order is: users, start or death of the worker, tick, claim, calls of the
// executor, ends of runs. A run that ends exactly at the next slot is therefore still in flight for it,
// as with a real worker, because launches take time.
//
// A test compares the outcome of every slot with the real worker on SQLite.
package simulate
