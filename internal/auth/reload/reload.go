// Package reload keeps what was read from files up to date: keys, tokens and
// certificates change while the process runs.
package reload

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

// lookEvery is how often the files are looked at: as soon as a change must
// take effect. They are looked at when what they hold is asked for.
const lookEvery = time.Second

// File is a value that was read from one file or several together.
type File[T any] struct {
	paths []string
	read  func() (T, error)
	log   *slog.Logger
	now   func() time.Time

	mu     sync.Mutex
	value  T
	seen   string // what the files looked like when they were read
	looked time.Time
}

// Open reads the files once; an error of that stops the start. read is called
// again whenever one of them has changed.
func Open[T any](log *slog.Logger, now func() time.Time, read func() (T, error), paths ...string) (*File[T], error) {
	f := &File[T]{paths: paths, read: read, log: log, now: now}
	if f.now == nil {
		f.now = time.Now
	}
	if f.log == nil {
		f.log = slog.Default()
	}
	f.seen, f.looked = f.look(), f.now()
	var err error
	f.value, err = read()
	return f, err
}

// Get is the value as the files say it now, at most lookEvery ago. Files that
// cannot be read leave the last good value in force, and the log says so.
func (f *File[T]) Get() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if since := now.Sub(f.looked); since >= 0 && since < lookEvery {
		return f.value
	}
	f.looked = now
	seen := f.look()
	if seen == f.seen {
		return f.value
	}
	// Remembered before it is read: a file that changes meanwhile is read again.
	f.seen = seen
	value, err := f.read()
	if err != nil {
		f.log.Error("cannot load the changed file; the previous version stays in use", "files", strings.Join(f.paths, " "), "err", err)
		return f.value
	}
	f.value = value
	f.log.Info("changed file loaded", "files", strings.Join(f.paths, " "))
	return f.value
}

// look tells one state of the files from another. Stat follows links, so that
// a link that is moved to a new file counts.
func (f *File[T]) look() string {
	var b strings.Builder
	for _, path := range f.paths {
		stat, err := os.Stat(path)
		if err != nil {
			fmt.Fprintf(&b, "%v;", err)
			continue
		}
		fmt.Fprintf(&b, "%d %d %v;", stat.ModTime().UnixNano(), stat.Size(), inode(stat))
	}
	return b.String()
}
