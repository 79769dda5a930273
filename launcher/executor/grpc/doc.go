// Package grpcexecutor is step 5 of a slot's life for executors that implement
// carillon.v1.Executor.
//
// INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED, UNAUTHENTICATED,
// FAILED_PRECONDITION, OUT_OF_RANGE and UNIMPLEMENTED refuse a run for good, as
// the 4xx do over HTTP. Every other code leaves the outcome unknown, and the same
// key is sent again. This includes ALREADY_EXISTS and ABORTED, which an executor
// may answer while it works on the key.
//
// An error wraps launcher.ErrNotSent only if the first frame of the request was
// never handed to a connection (see sent.go); UNAVAILABLE alone does not prove
// that. After the call's SendBy nothing is handed to a connection, even if it was
// established late or had too many open calls.
package grpcexecutor
