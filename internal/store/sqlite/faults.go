package sqlite

import (
	"errors"
	"fmt"
	"os"
	"time"

	"modernc.org/sqlite"
	sqlitelib "modernc.org/sqlite/lib"

	"github.com/carillon/carillon/internal/schedule"
)

// errFileReplaced refuses writes to a file that has no name any more.
var errFileReplaced = errors.New("the database file was removed or replaced while it was open")

// checkFile compares the file at the path with the open one. A removed file can
// still be written, and everything in it is lost when the process ends.
func (w *writer) checkFile() error {
	now, err := os.Stat(w.path)
	if err == nil && os.SameFile(now, w.file) {
		return nil
	}
	return fmt.Errorf("%w: %w: %s: restore the file, then restart this process", schedule.ErrUnavailable, errFileReplaced, w.path)
}

// lockHeld is SQLITE_BUSY, with the first time that the lock was found taken.
type lockHeld struct {
	error
	since time.Time
}

func (e lockHeld) Unwrap() error { return e.error }

func (e lockHeld) explain() error {
	return fmt.Errorf("%w: another process has held the database's lock for %s: end it, or wait: %w",
		schedule.ErrUnavailable, time.Since(e.since).Round(time.Second), e.error)
}

// kept returns an error of BEGIN.
func (w *writer) kept(err error) error {
	if !isBusy(err) {
		return err
	}
	if w.lockedSince.IsZero() {
		w.lockedSince = time.Now()
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

// diskFailed says what to do about an error of the disk. Other errors stay as
// they are.
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
	return errors.As(err, &e) || errors.Is(err, errFileReplaced)
}

func isBusy(err error) bool {
	return hasCode(err, sqlitelib.SQLITE_BUSY) || hasCode(err, sqlitelib.SQLITE_LOCKED)
}

func hasCode(err error, code int) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == code
}
