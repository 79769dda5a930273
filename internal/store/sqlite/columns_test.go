package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/internal/test/storetest"
)

// TestEveryColumnOfARunIsRead fails for a field of a run without a column, for a column of
// the schema that columns.go does not have, and for one that a reader or the view takes for
// another.
func TestEveryColumnOfARunIsRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "carillon.db")
	store := open(t, path, sqlite.Options{})
	s := everySecond("s", noon)
	err := store.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: []string{"s"}}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
		return []schedule.Change{{ScheduleID: "s", Row: &s, NewRevision: true, Now: noon}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var row sqlite.OpenRow
	storetest.Fill(t, &row)
	row.SID, row.UserID, row.WorkflowID, row.Version = 1, s.UserID, s.WorkflowID, s.Version

	open, ended, err := store.ThroughTheTables(t.Context(), row)
	if err != nil {
		t.Fatal(err)
	}
	wantEnded := row.Run
	wantEnded.WaitingSince, wantEnded.ClaimedUntil, wantEnded.StartBy, wantEnded.DeadlineAt, wantEnded.SnoozeUntil = time.Time{}, time.Time{}, time.Time{}, time.Time{}, time.Time{} // history has no use for them
	wantEnded.AttemptsBefore, wantEnded.Progress = 0, ""
	wantEnded.Queue = schedule.QueuePlace{No: row.Queue.No, FairKey: row.Queue.FairKey, EnqueuedAt: row.Queue.EnqueuedAt, Limits: row.Queue.Limits, GroupNo: row.Queue.GroupNo, GroupSeq: row.Queue.GroupSeq, Worker: row.Queue.Worker, AdmittedAs: row.Queue.AdmittedAs}
	if d := cmp.Diff(wantEnded, ended); d != "" {
		t.Errorf("history (- written, + read):\n%s", d)
	}
	wantOpen := row
	wantOpen.Reason, wantOpen.CompletedAt, wantOpen.FailureClass, wantOpen.Dead, wantOpen.SnoozeUntil = "", time.Time{}, "", nil, time.Time{} // only an end gives them
	if d := cmp.Diff(wantOpen, open, cmpopts.IgnoreUnexported(sqlite.OpenRow{})); d != "" {
		t.Errorf("open runs (- written, + read):\n%s", d)
	}

	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	storetest.CheckColumns(t, sqlite.RunColumns(), func(table string) []string { return columnsOf(t, db, table) }, func(query string) (n int, err error) {
		return n, db.QueryRowContext(t.Context(), query).Scan(&n)
	})
}

func columnsOf(t *testing.T, db *sql.DB, table string) (names []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT name FROM pragma_table_info(?) ORDER BY name`, table)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}
