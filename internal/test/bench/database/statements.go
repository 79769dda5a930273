package database

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/jackc/pgx/v5"
)

// Watch has the server count this database's statements: of connections made
// from now on. It costs a little, so that such a run is for reading, not for a
// table.
func (d *Database) Watch(ctx context.Context) error {
	for _, statement := range []string{
		"CREATE EXTENSION IF NOT EXISTS pg_stat_statements",
		"ALTER DATABASE " + d.name + " SET compute_query_id = on",
		"ALTER DATABASE " + d.name + " SET pg_stat_statements.track = 'all'",
	} {
		if _, err := d.Pool.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w (the server needs shared_preload_libraries = pg_stat_statements)", statement, err)
		}
	}
	return nil
}

// Recount resets the counts.
func (d *Database) Recount(ctx context.Context) error {
	_, err := d.Pool.Exec(ctx, "SELECT pg_stat_statements_reset()")
	return err
}

// mostExpensive are the statements that took longest in sum.
const mostExpensive = `SELECT calls, rows, total_exec_time, mean_exec_time, shared_blks_hit + shared_blks_read, wal_bytes::float8, query
	FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
	ORDER BY total_exec_time DESC LIMIT 25`

// statement is one of them.
type statement struct {
	Calls, Rows int64
	Total, Mean float64
	Blocks      int64
	WAL         float64
	Query       string
}

// Statements writes the most expensive statements since Recount.
func (d *Database) Statements(ctx context.Context, out io.Writer, title string) error {
	rows, err := d.Pool.Query(ctx, mostExpensive)
	if err != nil {
		return err
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[statement])
	if err != nil {
		return err
	}
	lines := []string{title, "total ms\tcalls\tmean ms\trows\tblocks\tWAL kB\tstatement"}
	for _, s := range all {
		query := strings.Join(strings.Fields(s.Query), " ")
		lines = append(lines, fmt.Sprintf("%.1f\t%d\t%.3f\t%d\t%d\t%.0f\t%.160s", s.Total, s.Calls, s.Mean, s.Rows, s.Blocks, s.WAL/1024, query))
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if _, err := fmt.Fprintln(table, strings.Join(lines, "\n")); err != nil {
		return err
	}
	return table.Flush()
}
