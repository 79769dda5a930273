package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
)

// A claim takes what is due at one instant: those rows are to share their pages,
// though each schedule was planned for several instants.
func TestAPlanPutsDownInstantByInstant(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "carillon.db")
	store := open(t, path, sqlite.Options{})
	term, ok, err := store.Takeover(t.Context(), schedule.TakeoverRequest{Holder: "test", TTL: time.Hour, LockHeld: true, Now: noon})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	ids := []string{"a", "b", "c", "d"}
	err = store.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: ids}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
		changes := make([]schedule.Change, len(ids))
		for i, id := range ids {
			s := everySecond(id, noon)
			s.PlanAt = noon
			changes[i] = schedule.Change{ScheduleID: id, Row: &s, NewRevision: true, Now: noon}
		}
		return changes, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	const slots = 5
	req := schedule.PlanRequest{Term: term, Now: noon, Horizon: noon, Grace: time.Minute, Limit: 100}
	result, err := store.Plan(t.Context(), req, func(candidates []schedule.PlanCandidate) []schedule.PlanDecision {
		decisions := make([]schedule.PlanDecision, len(candidates))
		for i := range candidates {
			s := &candidates[i].Schedule
			at := s.NextRunAt
			for range slots {
				decisions[i].Rows = append(decisions[i].Rows, slotOf(s, at))
				at = at.Add(time.Second)
			}
			decisions[i].ScheduleID, decisions[i].NextRunAt, decisions[i].PlanAt = s.ScheduleID, at, at
		}
		return decisions
	})
	if err != nil || result.Inserted != slots*len(ids) {
		t.Fatal(result.Inserted, err)
	}
	if got := firesByRow(t, path); len(got) != slots*len(ids) || !slices.IsSorted(got) {
		t.Errorf("rows stand as %v, want them instant by instant", got)
	}
}

// firesByRow are the instants of all runs in the order in which they stand.
func firesByRow(t *testing.T, path string) (at []int64) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), `SELECT fire_at FROM open_runs ORDER BY rowid`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var fire int64
		if err := rows.Scan(&fire); err != nil {
			t.Fatal(err)
		}
		at = append(at, fire)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return at
}
