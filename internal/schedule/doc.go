// Package schedule defines the domain: schedule, slot, run, status, policy, reason, key. It
// imports only the standard library; every other package uses it.
//
// The life of a slot, in reading order:
//
//  1. upsert   registrar        a Definition becomes a Schedule and a Revision
//  2. plan     internal/plan    due slots become PLANNED Runs, the cursor moves
//  3. commit   internal/store   rows and cursor in one transaction, fenced by the epoch
//  4. fire     worker           due rows are claimed; overlap is judged here
//  5. launch   launcher         the call is recorded, then the executor is called
//  6. report   registrar        the executor says how it ended; status only moves forward
//
// Times are UTC. A zero time.Time means "none" (NULL in a store). Nominal
// instants (run_at) are whole seconds; fire_at may carry milliseconds.
package schedule
