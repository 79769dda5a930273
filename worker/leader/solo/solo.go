// Package solo is the leader lock of a store on one machine: a lock file
// next to the database. The kernel frees it when its process ends. It decides
// which process tries to lead. See package leader.
package solo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Lock is a lock file.
type Lock struct {
	path string
	log  *slog.Logger
	mu   sync.Mutex
	file *os.File // nil: not held
}

// poll is how often a waiting process tries again. flock itself could wait,
// but not be cancelled.
const poll = 50 * time.Millisecond

// New returns the Lock of a file, which is created by the first Acquire and never removed.
// log may be nil.
func New(path string, log *slog.Logger) *Lock {
	if log == nil {
		log = slog.Default()
	}
	return &Lock{path: path, log: log.With("component", "leader")}
}

// Acquire waits until no other process holds the file.
func (l *Lock) Acquire(ctx context.Context) error {
	for said := false; ; {
		file, err := l.try()
		if err != nil {
			return err
		}
		if file != nil {
			l.mu.Lock()
			l.file = file
			l.mu.Unlock()
			return nil
		}
		if !said {
			said = true
			l.log.Info("another process leads on this file; this one takes over when it ends", "lock", l.path, "process", l.holder())
		}
		timer := time.NewTimer(poll)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// try returns the locked file, or nil when another process has it.
func (l *Lock) try() (*os.File, error) {
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		err = l.inPlace(file)
	}
	switch {
	case err == nil:
		// For people and for waiting processes; a full disk is no reason not to lead.
		if file.Truncate(0) == nil {
			_, _ = fmt.Fprintln(file, os.Getpid())
		}
		return file, nil
	case errors.Is(err, syscall.EWOULDBLOCK), errors.Is(err, syscall.EINTR), errors.Is(err, errReplaced):
		return nil, file.Close()
	}
	return nil, errors.Join(fmt.Errorf("lock %s: %w", l.path, err), file.Close())
}

// errReplaced means that the lock is on a file that other processes no longer find.
var errReplaced = errors.New("the lock file was removed or replaced")

// inPlace checks that the locked file is still the one at the path.
func (l *Lock) inPlace(file *os.File) error {
	held, err := file.Stat()
	if err != nil {
		return fmt.Errorf("look at lock file: %w", err)
	}
	there, err := os.Stat(l.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(held, there) {
		return fmt.Errorf("%s: %w", l.path, errReplaced)
	}
	return err
}

// holder returns the process whose number is in the file.
func (l *Lock) holder() string {
	text, err := os.ReadFile(l.path)
	if err != nil || len(text) == 0 {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}

// Keep checks that the lock is held, and on the file that other processes find.
func (l *Lock) Keep(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return errors.New("the lock file is not held")
	}
	return l.inPlace(l.file)
}

// Release frees the file if it is held.
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
