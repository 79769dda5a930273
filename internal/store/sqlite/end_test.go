package sqlite_test

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
)

// A bug, or a hand at the file, may put a run that has ended back into open_runs.
func TestARunThatEndsTwiceKeepsItsFirstEndAndIsLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	path := filepath.Join(t.TempDir(), "carillon.db")
	store := open(t, path, sqlite.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	row := everySecond("twice", noon)
	slot := slotOf(&row, noon)
	create(t, store, row, slot)
	db := beside(t, path)
	exec := func(statement string) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), statement)
		must(t, err)
	}
	exec(`CREATE TABLE kept AS SELECT * FROM open_runs`)
	skip := func(reason schedule.Reason) {
		t.Helper()
		_, err := store.SettleLaunched(t.Context(), noon, []schedule.Settlement{{Key: slot.Key, To: schedule.StatusSkipped, Reason: reason}})
		must(t, err)
	}
	skip(schedule.ReasonPaused)
	exec(`INSERT INTO open_runs SELECT * FROM kept`)
	skip(schedule.ReasonMissed)

	run, err := store.GetRun(t.Context(), slot.Key)
	if err != nil || run.Status != schedule.StatusSkipped || run.Reason != schedule.ReasonPaused {
		t.Errorf("got %+v, %v; want the first end", run, err)
	}
	if !strings.Contains(log.String(), "a run has ended twice") || !strings.Contains(log.String(), "schedule_id=twice") {
		t.Errorf("the log does not tell of the second end:\n%s", log.String())
	}
	events, err := store.ListEvents(t.Context(), "twice", 0, 10)
	if err != nil || len(events) != 1 || events[0].Kind != schedule.EventReportIgnored || store.EndedTwice() != 1 {
		t.Errorf("%d are counted, with the events %+v, %v; want one", store.EndedTwice(), events, err)
	}
}
