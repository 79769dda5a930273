package postgres_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
)

// A claim takes what is due at one instant: those rows are to share their pages,
// though each schedule is planned for several instants at once.
func TestRowsStandInstantByInstant(t *testing.T) {
	t.Parallel()
	store, url := fresh(t)
	term := lead(t, store)
	create(t, store, noon, everySecond("a", noon), everySecond("b", noon), everySecond("c", noon))
	req := schedule.PlanRequest{Term: term, Now: noon, Horizon: noon.Add(time.Minute), Limit: 10, Grace: time.Minute}
	_, err := store.Plan(t.Context(), req, func(candidates []schedule.PlanCandidate) []schedule.PlanDecision {
		decisions := planOne(candidates)
		for i := range decisions {
			for range 3 {
				d, s := &decisions[i], &candidates[i].Schedule
				d.Rows = append(d.Rows, slotOf(s, d.NextRunAt))
				d.NextRunAt = d.NextRunAt.Add(time.Second)
			}
		}
		return decisions
	})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := connect(t, url).Query(t.Context(), `SELECT fire_at FROM open_runs ORDER BY ctid`)
	if err != nil {
		t.Fatal(err)
	}
	at, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	if err != nil || len(at) != 12 || !slices.IsSortedFunc(at, time.Time.Compare) {
		t.Errorf("rows stand as %v, want 12 instant by instant; %v", at, err)
	}
}
