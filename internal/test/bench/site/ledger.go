package site

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the ledger is looked at from outside

	"github.com/carillon/carillon/internal/test/bench/record"
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
	db, err := s.openSQLite()
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

// countedJobs are the jobs that have succeeded without a row.
func (s *Site) countedJobs(ctx context.Context) (n int, err error) {
	const counted = `SELECT coalesce(sum(n), 0) FROM queue_minutes WHERE ended`
	if s.db != nil {
		err = s.db.Pool.QueryRow(ctx, counted).Scan(&n)
		return n, err
	}
	db, err := s.openSQLite()
	if err != nil {
		return 0, err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, counted).Scan(&n)
	return n, err
}

const (
	endsPostgres = `SELECT status, coalesce(reason, ''), count(*) FROM schedule_runs WHERE run_at >= $1 AND run_at <= $2 GROUP BY 1, 2`
	endsSQLite   = `SELECT status, coalesce(reason, ''), count(*) FROM schedule_runs WHERE run_at >= ?1 AND run_at <= ?2 GROUP BY 1, 2`
)

// Ends counts the runs of the work by status and reason, e.g. SKIPPED(overlap).
func (s *Site) Ends(ctx context.Context, work record.Work) (map[string]int, error) {
	out := make(map[string]int)
	add := func(row interface{ Scan(...any) error }) error {
		var status, reason string
		var n int
		if err := row.Scan(&status, &reason, &n); err != nil {
			return err
		}
		if reason != "" {
			status += "(" + reason + ")"
		}
		out[status] = n
		return nil
	}
	if s.db != nil {
		rows, err := s.db.Pool.Query(ctx, endsPostgres, work.First, work.Last())
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		for rows.Next() {
			if err := add(rows); err != nil {
				return nil, err
			}
		}
		return out, rows.Err()
	}
	db, err := s.openSQLite()
	if err != nil {
		return nil, err
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, endsSQLite, work.First.UnixMicro(), work.Last().UnixMicro())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		if err := add(rows); err != nil {
			return nil, err
		}
	}
	return out, rows.Err()
}

// openSQLite looks at the ledger from outside.
func (s *Site) openSQLite() (*sql.DB, error) {
	return sql.Open("sqlite", "file:"+filepath.Join(s.folder, "carillon.db")+"?mode=ro&_pragma=busy_timeout(5000)")
}
