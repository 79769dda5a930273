package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
)

func TestEveryColumnOfTheTablesIsInTheTableOfColumns(t *testing.T) {
	t.Parallel()
	db := migratedDB(t)
	_, open, ended := sqlite.RunColumns()
	open = append(open, "exclusive_flight") // only the claim writes it, and only indexes read it
	for table, known := range map[string][]string{"open_runs": open, "ended_runs": ended} {
		if d := cmp.Diff(columnsOf(t, db, table), sorted(known)); d != "" {
			t.Errorf("%s and columns.go differ (- schema, + columns.go):\n%s", table, d)
		}
	}
}

// inView are columns that the view shows under another name.
var inView = map[string]string{"policy": "overlap_policy", "send_after": "claimed_until"}

// TestEveryFieldOfARunIsKeptInItsTable fails for a field of a run without a column, and for
// a column that a reader or the view confuses with another one.
func TestEveryFieldOfARunIsKeptInItsTable(t *testing.T) {
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
	n := int64(0)
	fill(t, reflect.ValueOf(&row).Elem(), &n)
	row.ScheduleID, row.SID, row.Revision = "s", 1, s.Revision
	row.UserID, row.WorkflowID, row.Version = s.UserID, s.WorkflowID, s.Version
	row.Status, row.Trigger, row.OverlapPolicy, row.Exclusive = schedule.StatusStarted, schedule.TriggerManual, schedule.OverlapQueue, true

	gotOpen, gotEnded, err := store.ThroughTheTables(t.Context(), row)
	if err != nil {
		t.Fatal(err)
	}
	wantEnded := row.Run
	wantEnded.WaitingSince, wantEnded.ClaimedUntil = time.Time{}, time.Time{} // history has no use for them
	if d := cmp.Diff(wantEnded, gotEnded); d != "" {
		t.Errorf("history (- written, + read):\n%s", d)
	}
	wantOpen := row
	wantOpen.Reason, wantOpen.CompletedAt, wantOpen.LastRunAt = "", time.Time{}, time.Time{} // only an end gives them
	if d := cmp.Diff(wantOpen, gotOpen, cmpopts.IgnoreUnexported(sqlite.OpenRow{})); d != "" {
		t.Errorf("open runs (- written, + read):\n%s", d)
	}
	viewShows(t, path)
}

// viewShows compares the rows of the view with those of its tables.
func viewShows(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	view := columnsOf(t, db, "schedule_runs")
	read, open, ended := sqlite.RunColumns()
	for _, name := range read {
		shown := name
		if other := inView[name]; other != "" {
			shown = other
		}
		if !slices.Contains(view, shown) {
			t.Errorf("the view does not show %s", name)
			continue
		}
		if slices.Contains([]string{"status", "trigger", "policy"}, name) { // words for codes
			continue
		}
		for table, of := range map[string][]string{"open_runs": open, "ended_runs": ended} {
			column := name
			if table == "ended_runs" && name == "updated_at" {
				column = "recorded_at"
			}
			if !slices.Contains(of, column) {
				continue
			}
			var same int
			err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM schedule_runs v JOIN `+table+` r USING (idempotency_key)
 WHERE (v.completed_at IS NULL) = ('`+table+`' = 'open_runs') AND v.`+shown+` IS r.`+column).Scan(&same)
			if err != nil || same != 1 {
				t.Errorf("the view does not show %s of %s: %v", name, table, err)
			}
		}
	}
}

// fill gives each exported field a value of its own.
func fill(t *testing.T, v reflect.Value, n *int64) {
	t.Helper()
	*n++
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(noon.Add(time.Duration(*n) * time.Second)))
		return
	case schedule.Key:
		v.Set(reflect.ValueOf(schedule.SlotKey("s", noon.Add(time.Duration(*n)*time.Second))))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(strings.Repeat("x", int(*n)))
	case reflect.Int32, reflect.Int64:
		v.SetInt(*n)
	case reflect.Uint32:
		v.SetUint(uint64(*n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.SetBytes([]byte(`{"n":1}`))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(t, v.Field(i), n)
			}
		}
	default:
		t.Fatalf("no value for a field of type %s", v.Type())
	}
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

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }
