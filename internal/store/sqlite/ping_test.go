package sqlite_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
)

func beside(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestAFileThatIsBusyAnswersAPing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "carillon.db")
	s := open(t, path, sqlite.Options{})
	tx, err := beside(t, path).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), `UPDATE workers SET seen_at = 0`); err != nil {
		t.Fatal(err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("busy is alive, got %v", err)
	}
}

func TestTheMigrationTakesTheBucketFromASchedule(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../schema/sqlite/00002_leaders.sql")
	if err != nil {
		t.Fatal(err)
	}
	fill := regexp.MustCompile(`(?s)UPDATE schedule_runs SET shard.*?;`).FindString(string(text))
	path := filepath.Join(t.TempDir(), "carillon.db")
	s := open(t, path, sqlite.Options{})
	now := s.Now()
	old, edited := everySecond("old", now), everySecond("edited", now)
	runs := []schedule.Run{slotOf(&old, now), slotOf(&edited, now)}
	create(t, s, old)
	create(t, s, edited)
	err = s.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: []string{"edited", "old"}}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
		edited.OverlapKey = old.OverlapKey // its run is of the key before
		return []schedule.Change{
			{ScheduleID: "old", Runs: runs[:1], Now: now}, {ScheduleID: "edited", Row: &edited, Runs: runs[1:], Now: now},
		}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	db := beside(t, path)
	for step, want := range []map[string]string{
		{"old": runs[0].OverlapKey, "edited": runs[1].OverlapKey},
		{"old": runs[0].OverlapKey, "edited": edited.QualifiedOverlapKey()}, // the nearest there is
	} {
		for id, key := range want {
			var got int
			if err := db.QueryRowContext(t.Context(), `SELECT shard FROM schedule_runs WHERE schedule_id = ?`, id).Scan(&got); err != nil {
				t.Fatal(err)
			}
			if want := schedule.Bucket(key); got != want {
				t.Errorf("step %d: the run of %s is in bucket %d, want %d", step, id, got, want)
			}
		}
		for _, statement := range []string{`UPDATE schedule_runs SET shard = -1`, fill} {
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
	}
}
