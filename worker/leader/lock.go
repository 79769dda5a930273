package leader

import "context"

// Lock makes handing over fast. It decides who tries, never who may write.
//
// Its methods are called by one goroutine at a time, but for Break.
type Lock interface {
	// Acquire blocks until the lock is held or ctx ends.
	Acquire(ctx context.Context) error
	// Keep says that the lock is still held, and extends it where it must be. Any
	// error means that it is not.
	Keep(ctx context.Context) error
	// Release frees it, if it is held.
	Release(ctx context.Context) error
}

// Breaker is a Lock that can be taken out of the hands of a process that keeps
// it but does not lead any more.
type Breaker interface {
	// Break ends the hold of whoever has the lock, unless it is this Lock's own.
	// It may be called while Acquire waits.
	Break(ctx context.Context) error
}
