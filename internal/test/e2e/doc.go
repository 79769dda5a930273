// Package e2e starts the real binary as its users do, breaks it as machines
// break it, and counts what is left: the schedules are registered over REST, an
// executor in the test's own process keeps a log of every request, and a
// checker that shares no code with the product works out which slots there
// should have been.
//
// It takes no step in a slot's life: there are only tests here. They build
// cmd/carillon once, use free ports of 127.0.0.1 and end every process that
// they started. E2E_SEED repeats the random choices of a run; the moments at
// which things happen are the machine's own. `go test -short` leaves out
// everything that takes more than a few seconds.
package e2e
