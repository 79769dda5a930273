// Package executor is step 5 of a slot's life seen from the other side: the
// packages beneath it each speak one way of running a workflow (HTTP, gRPC, on
// this machine). Here stands what they share: how long an executor's words may
// be, and how a run's trace is named.
package executor
