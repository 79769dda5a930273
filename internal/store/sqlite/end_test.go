package sqlite_test

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// A statement of several rows skips those that history has, and writes the others.
func TestOfManyEndsOnlyTheOneThatHistoryHasIsNotWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "carillon.db")
	store := open(t, path, sqlite.Options{})
	row := everySecond("many", noon)
	slots := make([]schedule.Run, 40) // two statements of 16, and eight of one
	settlements := make([]schedule.Settlement, len(slots))
	for i := range slots {
		slots[i] = slotOf(&row, noon.Add(time.Duration(i)*time.Second))
		settlements[i] = schedule.Settlement{Key: slots[i].Key, To: schedule.StatusSkipped, Reason: schedule.ReasonPaused}
	}
	create(t, store, row, slots...)
	db := beside(t, path)
	exec := func(statement string, args ...any) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), statement, args...)
		must(t, err)
	}
	const ended, taken = 3, 20
	exec(`CREATE TABLE kept AS SELECT * FROM open_runs`)
	for _, i := range []int{ended, taken} {
		_, err := store.SettleLaunched(t.Context(), noon, []schedule.Settlement{{Key: slots[i].Key, To: schedule.StatusSkipped, Reason: schedule.ReasonMissed}})
		must(t, err)
		exec(`INSERT INTO open_runs SELECT * FROM kept WHERE idempotency_key = ?`, slots[i].Key[:])
	}
	other := schedule.Key{1}
	exec(`DROP TRIGGER ended_runs_final`)
	exec(`UPDATE ended_runs SET idempotency_key = ? WHERE idempotency_key = ?`, other[:], slots[taken].Key[:])

	_, err := store.SettleLaunched(t.Context(), noon, settlements)
	must(t, err)

	for i := range slots {
		want := schedule.ReasonPaused
		if i == ended {
			want = schedule.ReasonMissed
		}
		if run, err := store.GetRun(t.Context(), slots[i].Key); err != nil || run.Status != schedule.StatusSkipped || run.Reason != want {
			t.Errorf("run %d: got %+v, %v; want SKIPPED(%s)", i, run, err, want)
		}
	}
	var rows, numbers int
	must(t, db.QueryRowContext(t.Context(), `SELECT count(*), count(*) FILTER (WHERE nth <> 0) FROM ended_runs`).Scan(&rows, &numbers))
	if rows != len(slots)+1 || numbers != 1 || store.EndedTwice() != 1 {
		t.Errorf("history has %d rows, %d with a number of their own, and %d ended twice; want %d, 1 and 1", rows, numbers, store.EndedTwice(), len(slots)+1)
	}
}
