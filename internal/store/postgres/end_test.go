package postgres_test

import (
	"testing"

	"github.com/carillon/carillon/internal/schedule"
)

// A bug, or a hand at the tables, may put a run that has ended back into open_runs.
func TestARunThatEndsTwiceKeepsItsFirstEndAndIsCounted(t *testing.T) {
	t.Parallel()
	store, url := fresh(t)
	s := everySecond("twice", noon)
	trigger(t, store, s)
	conn := connect(t, url)
	exec := func(statement string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	key := slotOf(&s, noon).Key
	skip := func(reason schedule.Reason) {
		t.Helper()
		if _, err := store.SettleLaunched(t.Context(), noon, []schedule.Settlement{{Key: key, To: schedule.StatusSkipped, Reason: reason}}); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE TABLE kept AS SELECT * FROM open_runs`)
	skip(schedule.ReasonPaused)
	exec(`INSERT INTO open_runs SELECT * FROM kept`)
	skip(schedule.ReasonMissed)

	run, err := store.GetRun(t.Context(), key)
	if err != nil || run.Status != schedule.StatusSkipped || run.Reason != schedule.ReasonPaused {
		t.Errorf("got %+v, %v; want the first end", run, err)
	}
	events, err := store.ListEvents(t.Context(), "twice", 0, 10)
	if err != nil || len(events) != 1 || events[0].Kind != schedule.EventReportIgnored || store.EndedTwice() != 1 {
		t.Errorf("%d are counted, with the events %+v, %v; want one", store.EndedTwice(), events, err)
	}
}
