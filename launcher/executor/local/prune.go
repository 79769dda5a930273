package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Prune removes the folders of runs that ended before the given instant, and counts
// them. Runs without a result or with an unreported end are kept. A key without a
// folder would be run again if it was sent again, so retention must be at least that
// of execution_requests.
func (e *Executor) Prune(ctx context.Context, before time.Time) (int, error) {
	paths, err := filepath.Glob(filepath.Join(e.files.runs, "[0-9a-f][0-9a-f]", "*", "result.json"))
	if err != nil {
		return 0, fmt.Errorf("prune runs: %w", err)
	}
	removed := 0
	for _, path := range paths {
		if err := ctx.Err(); err != nil {
			return removed, fmt.Errorf("prune runs: %w", err)
		}
		dir := filepath.Dir(path)
		key, err := schedule.ParseKey(filepath.Base(dir))
		if err != nil || e.known(key) {
			continue
		}
		result, err := os.Stat(path)
		if err != nil || !result.ModTime().Before(before) {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			return removed, fmt.Errorf("prune runs: %w", err)
		}
		removed++
	}
	return removed, nil
}

// known reports whether the run is in memory, or open in the files.
func (e *Executor) known(key schedule.Key) bool {
	e.mu.Lock()
	_, active := e.runs[key]
	e.mu.Unlock()
	if active {
		return true
	}
	_, err := os.Stat(e.files.open(key))
	return err == nil
}

// sweep removes files that a crash left incomplete.
func (f folders) sweep() {
	leftovers, _ := filepath.Glob(filepath.Join(f.openDir(), ".new-*"))
	for _, path := range leftovers {
		_ = os.Remove(path)
	}
}
