// Package solo is the leader lock of a store on one machine: a lock file
// beside the database. The kernel frees it when its process ends, however.
package solo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
)

// Lock is a lock file.
type Lock struct {
	path string
	mu   sync.Mutex
	file *os.File // nil: not held
}

// poll is how often a waiting process tries again. flock itself could wait,
// but not be cancelled.
const poll = 100 * time.Millisecond

// New makes the Lock of a file, which is created when first acquired and
// never removed.
func New(path string) *Lock { return &Lock{path: path} }

// Acquire waits until no other process holds the file.
func (l *Lock) Acquire(ctx context.Context) error {
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open lock file: %w", err)
	}
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			l.mu.Lock()
			l.file = file
			l.mu.Unlock()
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = file.Close()
			return fmt.Errorf("lock %s: %w", l.path, err)
		}
		timer := time.NewTimer(poll)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			_ = file.Close()
			return ctx.Err()
		}
	}
}

// Release frees the file, if it is held.
func (l *Lock) Release(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	file := l.file
	l.file = nil
	return file.Close() // which also unlocks
}
