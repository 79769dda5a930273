package postgres_test

import (
	"testing"

	"github.com/carillon/carillon/internal/schedule"
)

// During a rolling upgrade, processes without run_results write the exit code and the URL of a run
// right after its end.
func TestOlderReleasesMayNoteTheExitCodeOfARunInTheTransactionOfItsEnd(t *testing.T) {
	t.Parallel()
	_, url := fresh(t)
	conn := connect(t, url)
	insert := func(key string) string {
		k := schedule.ManualKey("s", key)
		return `INSERT INTO ended_runs (idempotency_key, sid, nth, revision, bucket, status, trigger, policy, overlap_key, run_at, fire_at, priority, max_queued,
	attempt, deliveries, failed_attempts, epoch, created_at, completed_at, recorded_at)
VALUES (decode('` + k.String() + `', 'hex'), 1, 0, 1, 0, 5, 1, 1, 'u/k', now() + '` + key + ` s', now(), 0, 1, 1, 1, 0, 1, now(), now(), now())`
	}
	note := `UPDATE ended_runs SET exit_code = coalesce($1::integer, exit_code), log_url = coalesce($2::text, log_url)`
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range []string{"1", "2"} { // of any partition
		if _, err := tx.Exec(t.Context(), insert(run)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tx.Exec(t.Context(), note, 3, "https://logs.example"); err != nil {
		t.Errorf("within its transaction: %v", err)
	}
	if _, err := tx.Exec(t.Context(), `UPDATE ended_runs SET priority = 1`); err == nil {
		t.Errorf("another column is changed")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), insert("3")); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), note, 3, "https://logs.example"); err == nil {
		t.Errorf("the exit code of a run that had ended before is changed")
	}
}
