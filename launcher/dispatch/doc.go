// Package dispatch admits the runs of dispatch queues and sends them to the launcher.
//
// Queues have no leader. Each process with the role launcher has a Dispatcher; whichever has a
// free call takes the lock of a queue for one transaction, in which the rules of package ledger
// say which runs start. That transaction is also the durable record of their calls (Begun), so
// that the launcher calls the executor with no other write. An end is a transaction of the
// launcher, as for every other run.
//
// A run that the executor certainly did not take waits again at its place (PutBack), and the
// queue stalls for a while. A call without an answer keeps its place among the runs in flight:
// the same key is sent again. One process at a time sweeps: it makes delayed runs wait, sends
// what a dead process has left, ends what is past a bound, and carries cancels.
package dispatch
