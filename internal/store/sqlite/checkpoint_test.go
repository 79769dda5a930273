package sqlite_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
)

// What is written stands in the log first. The file itself says when it was
// copied back.
func TestTheLogIsCopiedBackWhileNobodyWrites(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "carillon.db")
	s := open(t, path, sqlite.Options{})
	ids := make([]string, 2500)
	changes := make([]schedule.Change, len(ids))
	for i := range ids {
		ids[i] = fmt.Sprintf("copied-back-%04d", i)
		row := everySecond(ids[i], noon)
		changes[i] = schedule.Change{ScheduleID: ids[i], Row: &row, NewRevision: true, Now: noon}
	}
	err := s.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: ids}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
		return changes, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	timeout := time.After(20 * time.Second)
	for {
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(file, []byte("copied-back-0000")) && bytes.Contains(file, []byte("copied-back-2499")) {
			return
		}
		select {
		case <-ticker.C:
		case <-timeout:
			t.Fatal("after 20 s the schedules were in the log alone")
		}
	}
}
