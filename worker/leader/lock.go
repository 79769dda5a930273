package leader

import "context"

// Lock makes a takeover fast. It decides who tries to take over, never who may write.
//
// One goroutine at a time calls its methods, except Break.
type Lock interface {
	// Acquire blocks until the lock is held or ctx ends.
	Acquire(ctx context.Context) error
	// Keep checks that the lock is still held, and extends it if its kind needs that. After
	// any error it is not held.
	Keep(ctx context.Context) error
	// Release frees the lock if it is held.
	Release(ctx context.Context) error
}

// Breaker is a Lock that can be taken from a process that holds it but no longer leads.
type Breaker interface {
	// Break frees the lock unless this Lock holds it. It may be called while Acquire waits.
	Break(ctx context.Context) error
}
