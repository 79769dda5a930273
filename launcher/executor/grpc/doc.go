// Package grpcexecutor is step 5 of a slot's life for executors that implement
// carillon.v1.Executor.
//
// INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED, UNAUTHENTICATED,
// FAILED_PRECONDITION, OUT_OF_RANGE and UNIMPLEMENTED refuse a run for good, as
// the 4xx do over HTTP. Every other code leaves the outcome unknown, and the
// same key is sent again: ALREADY_EXISTS and ABORTED among them, which an
// executor may answer while it works on the key.
//
// An error wraps launcher.ErrNotSent only if the request's first frame was
// never handed to a connection (see sent.go); UNAVAILABLE alone does not say
// that. Nothing is handed to one after the call's SendBy: not when it is
// connected too late, nor when it has too many calls open.
package grpcexecutor
