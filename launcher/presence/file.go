package presence

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Files takes presence locks on files.
type Files struct {
	Path       func(no int32) string
	Generation string // constant: the kernel frees a lock only when its process is gone
}

const (
	filePoll  = 5 * time.Millisecond
	fileCheck = time.Second
)

// Take locks the file, and creates it. It repeats while another process tries the lock.
func (f Files) Take(ctx context.Context, no int32) (Session, error) {
	file, err := os.OpenFile(f.Path(no), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open presence file: %w", err)
	}
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return fileLock{file, f.Generation}, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", file.Name(), err), file.Close())
		}
		if wait(ctx, filePoll); ctx.Err() != nil {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", file.Name(), ctx.Err()), file.Close())
		}
	}
}

type fileLock struct {
	file       *os.File
	generation string
}

func (l fileLock) Generation() string { return l.generation }

// Wait returns when the file was deleted or replaced: others would find no lock.
func (l fileLock) Wait(ctx context.Context) error {
	for {
		if wait(ctx, fileCheck); ctx.Err() != nil {
			return ctx.Err()
		}
		held, err := l.file.Stat()
		if err != nil {
			return fmt.Errorf("look at presence file: %w", err)
		}
		if there, err := os.Stat(l.file.Name()); err != nil || !os.SameFile(held, there) {
			return fmt.Errorf("the presence file %s was deleted or replaced", l.file.Name())
		}
	}
}

func (l fileLock) Close() { _ = l.file.Close() }
