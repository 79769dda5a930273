package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
)

// A stamp costs half as much as a claim, and what the next claim takes needs none.
func TestWhatTheNextClaimTakesIsNotStamped(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "carillon.db")
	store := open(t, path, sqlite.Options{})
	term := lead(t, store, noon)
	s := everySecond("many", noon)
	s.OverlapPolicy = schedule.OverlapAllow
	create(t, store, s, slotOf(&s, noon.Add(-3*time.Second)), slotOf(&s, noon.Add(-2*time.Second)), slotOf(&s, noon.Add(-time.Second)))
	req := claimAll(term, noon)
	req.Limit, req.Spare, req.Room = 1, true, func(string) int { return 1 }
	for pass := range 2 { // the second knows from the first that more is due than it may take
		result, err := store.Claim(t.Context(), req, claimFirst)
		if err != nil || len(result.Launches) != 1 || !result.More {
			t.Fatalf("pass %d: %d launches and More %v, want one and more; %v", pass, len(result.Launches), result.More, err)
		}
		var stamped int
		if err := beside(t, path).QueryRowContext(t.Context(), `SELECT count(judged_at) FROM schedule_runs`).Scan(&stamped); err != nil || stamped > 0 {
			t.Errorf("pass %d: %d rows are stamped, want none; %v", pass, stamped, err)
		}
	}
}
