package site

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the ledger is looked at from outside

	"github.com/carillon/carillon/internal/bench/record"
)

// The ledger is counted in SQL: pages of the API would take longer than the run.
const (
	countPostgres = `SELECT count(*), coalesce(max(updated_at), to_timestamp(0)) FROM schedule_runs
		WHERE run_at >= $1 AND run_at <= $2 AND status = $3`
	countSQLite = `SELECT count(*), coalesce(max(updated_at), 0) FROM schedule_runs
		WHERE run_at >= ?1 AND run_at <= ?2 AND status = ?3`
)

// ledger counts the runs of the work in a status, and says when the last of
// them was written.
func (s *Site) ledger(ctx context.Context, work record.Work, status string) (n int, last time.Time, err error) {
	if s.db != nil {
		err = s.db.Pool.QueryRow(ctx, countPostgres, work.First, work.Last(), status).Scan(&n, &last)
		return n, last, err
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.folder, "carillon.db")+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		return 0, last, err
	}
	defer db.Close()
	var micros int64
	err = db.QueryRowContext(ctx, countSQLite, work.First.UnixMicro(), work.Last().UnixMicro(), status).Scan(&n, &micros)
	if err != nil {
		return 0, last, fmt.Errorf("count runs: %w", err)
	}
	return n, time.UnixMicro(micros), nil
}
