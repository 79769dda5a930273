package app_test

import (
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/test/services/migrated"
)

func TestAWorkerOnPostgresShowsThePartitionsOfHistory(t *testing.T) {
	a := begin(t, map[string]any{"data_dir": t.TempDir(), "database_url": migrated.Postgres(t), "roles": "worker,launcher"})
	eventually(t, "the partitions are in the metrics", func() bool {
		metrics := metricsOf(t, a)
		return strings.Contains(metrics, "\ncarillon_history_partitions ") && strings.Contains(metrics, "\ncarillon_history_rows_ahead 0\n") &&
			strings.Contains(metrics, "\ncarillon_history_partition_failures_total 0\n") &&
			strings.Contains(metrics, "\ncarillon_history_partitioned_until_timestamp_seconds ") && !strings.Contains(metrics, "\ncarillon_history_partitions 0\n")
	})
}
