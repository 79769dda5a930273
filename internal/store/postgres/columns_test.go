package postgres_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
	"github.com/carillon/carillon/internal/test/storetest"
)

// TestEveryColumnOfARunIsRead fails for a field of a run without a column, for a column of
// the schema that columns.go does not have, and for one that a reader or the view takes for
// another.
func TestEveryColumnOfARunIsRead(t *testing.T) {
	t.Parallel()
	store, url := fresh(t)
	s := everySecond("s", noon)
	err := store.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: []string{"s"}}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
		return []schedule.Change{{ScheduleID: "s", Row: &s, NewRevision: true, Now: noon}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var row postgres.OpenRow
	storetest.Fill(t, &row)
	row.SID, row.UserID, row.WorkflowID, row.Version = 1, s.UserID, s.WorkflowID, s.Version
	row.AttemptLog = "[1]" // a document

	open, ended, err := store.ThroughTheTables(t.Context(), &row)
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
	wantOpen.ScheduleID, wantOpen.UserID, wantOpen.WorkflowID, wantOpen.Version = "", "", "", 0                                               // see nameSchedules
	if d := cmp.Diff(wantOpen, open, cmpopts.IgnoreUnexported(postgres.OpenRow{})); d != "" {
		t.Errorf("open runs (- written, + read):\n%s", d)
	}

	conn := connect(t, url)
	inSchema := func(table string) []string {
		rows, err := conn.Query(t.Context(), `SELECT attname::text FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attname COLLATE "C"`, table)
		if err != nil {
			t.Fatal(err)
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(names, func(name string) bool { return name == "admission" }) // only admissions know it
	}
	storetest.CheckColumns(t, postgres.RunColumns(), inSchema, func(query string) (n int, err error) {
		return n, conn.QueryRow(t.Context(), query).Scan(&n)
	})
}
