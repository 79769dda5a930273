package app_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/test/services/migrated"
)

// Nobody leads, so no memory of a leader knows that the run is due.
func TestAProcessShowsWhatIsDueWithoutALeader(t *testing.T) {
	t.Parallel()
	url := migrated.Postgres(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for _, statement := range []string{
		`INSERT INTO schedules (schedule_id, workflow_id, version, user_id, timezone, dst, jitter_ms, overlap_policy, overlap_key, max_queued, catchup_policy, catchup_window_ms,
			run_timeout_ms, priority, revision, shard, revised_at, created_at, updated_at)
		VALUES ('left', 'w', 1, 'u', 'UTC', 'vixie', 0, 'skip', 'left', 1, 'none', 1, 1, 0, 1, 0, now(), now(), now())`,
		`INSERT INTO open_runs (idempotency_key, sid, nth, revision, bucket, state, status, trigger, policy, overlap_key,
			run_at, fire_at, due_at, priority, max_queued, attempt, deliveries, failed_attempts, epoch, created_at, updated_at)
		SELECT sha256(state::text::bytea), sid, state, 1, 0, state, status, 1, 1, 'u/left', at, at, at, 0, 0, 1, 0, 0, 0, at, at
		FROM schedules, (SELECT now() - interval '1 hour' AS at) a, (VALUES (1, 1), (3, 4)) v(state, status)`, // PLANNED, STARTED
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	a := begin(t, map[string]any{"data_dir": t.TempDir(), "database_url": url, "roles": "registrar"})
	eventually(t, "the metrics show a run that has been due for an hour, and one that was started and never swept", func() bool {
		metrics := metricsOf(t, a)
		return strings.Contains(metrics, "\ncarillon_oldest_due_seconds 36") && strings.Contains(metrics, "\ncarillon_runs_unswept 1\n")
	})
}

func TestAWorkerOnPostgresShowsItsLeadAndThePartitionsOfHistory(t *testing.T) {
	t.Parallel()
	a := begin(t, map[string]any{"data_dir": t.TempDir(), "database_url": migrated.Postgres(t), "roles": "worker,launcher"})
	eventually(t, "the lead and the partitions are in the metrics", func() bool {
		metrics := metricsOf(t, a)
		return strings.Contains(metrics, "\ncarillon_history_partitions ") && strings.Contains(metrics, "\ncarillon_history_rows_ahead 0\n") &&
			strings.Contains(metrics, "\ncarillon_history_partition_failures_total 0\n") && strings.Contains(metrics, "\ncarillon_plan_lead_seconds 60\n") &&
			strings.Contains(metrics, "\ncarillon_history_partitioned_until_timestamp_seconds ") && !strings.Contains(metrics, "\ncarillon_history_partitions 0\n")
	})
}
