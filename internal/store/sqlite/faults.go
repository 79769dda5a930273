package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"modernc.org/sqlite"
	sqlitelib "modernc.org/sqlite/lib"

	"github.com/carillon/carillon/internal/schedule"
)

var (
	// errFileReplaced refuses writes to a file that has no name any more.
	errFileReplaced = errors.New("the database file was removed or replaced while it was open")
	// errFileUnknown refuses writes if the file system does not say which file it is.
	errFileUnknown = errors.New("cannot check that the database file is the one that was opened")
)

// checkFile compares the file at the path with the open one. A removed file can still be
// written, and all of it is lost when the process ends.
func (w *writer) checkFile() error {
	now, err := os.Stat(w.path)
	switch {
	case err == nil && os.SameFile(now, w.file):
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w: %w", schedule.ErrUnavailable, errFileUnknown, err)
	}
	return fmt.Errorf("%w: %w: %s: restore the file, then restart this process", schedule.ErrUnavailable, errFileReplaced, w.path)
}

// lockHeld is SQLITE_BUSY with the time of the last commit of another process.
type lockHeld struct {
	error
	since time.Time
}

func (e lockHeld) Unwrap() error { return e.error }

func (e lockHeld) explain() error {
	held := time.Since(e.since)
	if held < lockTolerated {
		return fmt.Errorf("%w: other processes write to the database without a pause: try again: %w", schedule.ErrUnavailable, e.error)
	}
	return fmt.Errorf("%w: another process has held the database's lock for %s: end it, or wait: %w", schedule.ErrUnavailable, held.Round(time.Second), e.error)
}

// kept returns an error of BEGIN. While other processes commit, the lock is busy and not
// stuck.
func (w *writer) kept(ctx context.Context, err error) error {
	if !isBusy(err) {
		return err
	}
	version := w.lockedAt // if it cannot be read
	_ = tx{w: w, ended: ctx.Err}.query(ctx, sqlDataVersion, func(scan scan) error { return scan(&version) })
	if w.lockedSince.IsZero() || version != w.lockedAt {
		w.lockedSince, w.lockedAt = time.Now(), version
	}
	return lockHeld{err, w.lockedSince}
}

// note keeps an error of the disk for Ping, which writes nothing and does not
// meet it.
func (w *writer) note(err error) error {
	if hasCode(err, sqlitelib.SQLITE_FULL) || hasCode(err, sqlitelib.SQLITE_IOERR) {
		w.failed = err
	}
	return err
}

// diskFailed adds what to do to an error of the disk. Other errors stay as they are.
func diskFailed(err error) error {
	switch {
	case hasCode(err, sqlitelib.SQLITE_FULL):
		return fmt.Errorf("%w: the disk is full, nothing was written: make room: %w", schedule.ErrUnavailable, err)
	case hasCode(err, sqlitelib.SQLITE_IOERR):
		return fmt.Errorf("%w: the disk failed, nothing was written: see the kernel's log: %w", schedule.ErrUnavailable, err)
	case hasCode(err, sqlitelib.SQLITE_READONLY):
		return fmt.Errorf("%w: the database file takes no writes: see who owns it, and whether its disk is mounted read-only: %w", schedule.ErrUnavailable, err)
	}
	return err
}

// FromDriver reports whether err comes from SQLite or its file.
func FromDriver(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) || errors.Is(err, errFileReplaced) || errors.Is(err, errFileUnknown)
}

func isBusy(err error) bool {
	return hasCode(err, sqlitelib.SQLITE_BUSY) || hasCode(err, sqlitelib.SQLITE_LOCKED)
}

// isUnique reports whether a statement was refused by a unique index. It has changed
// nothing then, and its transaction goes on.
func isUnique(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code() == sqlitelib.SQLITE_CONSTRAINT_UNIQUE
}

func hasCode(err error, code int) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == code
}
