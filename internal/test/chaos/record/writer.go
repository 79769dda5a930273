package record

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// Writer appends JSON lines to a file.
type Writer struct {
	mu   sync.Mutex
	file *os.File

	// With sync, a writer waits for the sync that covers its line; one sync serves all
	// waiting writers.
	synced  uint64
	written uint64
	syncing bool
	woken   *sync.Cond
	failed  error
}

// NewWriter opens the file of that name in the folder for appending.
func NewWriter(folder, name string) (*Writer, error) {
	file, err := os.OpenFile(filepath.Join(folder, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	w := &Writer{file: file}
	w.woken = sync.NewCond(&w.mu)
	return w, nil
}

// Write appends a line. It is with the operating system when Write returns.
func (w *Writer) Write(line any) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.file.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", w.file.Name(), err)
	}
	w.written++
	return nil
}

// Sync returns when everything written so far is on the disk.
func (w *Writer) Sync() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	mine := w.written
	for w.synced < mine && w.failed == nil {
		if w.syncing {
			w.woken.Wait()
			continue
		}
		w.syncing = true
		covered := w.written
		w.mu.Unlock()
		err := w.file.Sync()
		w.mu.Lock()
		w.syncing, w.synced = false, covered
		if err != nil {
			w.failed = fmt.Errorf("sync %s: %w", w.file.Name(), err)
		}
		w.woken.Broadcast()
	}
	return w.failed
}

// Close closes the file.
func (w *Writer) Close() error { return w.file.Close() }
