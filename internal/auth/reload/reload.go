// Package reload rereads files that change while the process runs: keys, tokens and certificates.
package reload

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

// checkInterval bounds how long a change goes unnoticed. Get checks the files, no timer does.
const checkInterval = time.Second

// File is a value read from one or more files.
type File[T any] struct {
	paths []string
	read  func() (T, error)
	log   *slog.Logger
	now   func() time.Time

	mu      sync.Mutex
	value   T
	state   string // of the files when they were read
	checked time.Time
}

// Open reads the files. read is called again whenever one of them has changed.
func Open[T any](log *slog.Logger, now func() time.Time, read func() (T, error), paths ...string) (*File[T], error) {
	f := &File[T]{paths: paths, read: read, log: log, now: now}
	if f.now == nil {
		f.now = time.Now
	}
	if f.log == nil {
		f.log = slog.Default()
	}
	f.state, f.checked = f.stat(), f.now()
	var err error
	f.value, err = read()
	return f, err
}

// Get returns the value, at most checkInterval older than the files. If they cannot be read, the last
// valid value stays in use and an error is logged.
func (f *File[T]) Get() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if since := now.Sub(f.checked); since >= 0 && since < checkInterval {
		return f.value
	}
	f.checked = now
	state := f.stat()
	if state == f.state {
		return f.value
	}
	f.state = state // before the read: a file that changes meanwhile is read again
	value, err := f.read()
	if err != nil {
		f.log.Error("cannot load the changed file; the previous version stays in use", "files", strings.Join(f.paths, " "), "err", err)
		return f.value
	}
	f.value = value
	f.log.Info("changed file loaded", "files", strings.Join(f.paths, " "))
	return f.value
}

// stat identifies the state of the files. It follows links, because mounted secrets change by moving
// a link.
func (f *File[T]) stat() string {
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
