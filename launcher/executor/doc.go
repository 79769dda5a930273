// Package executor holds what all executors share (step 5 of a slot's life): the
// limits of an executor's texts, and the trace ids of runs. The packages below it
// run workflows over HTTP, over gRPC and on this machine.
package executor
