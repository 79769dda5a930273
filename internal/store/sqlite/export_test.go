package sqlite

import (
	"context"
	"fmt"
	"slices"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/test/storetest"
)

// Built is the SQL that is made of the table of columns when the program starts.
var Built = map[string]string{
	"openRunColumns": openRunColumns, "endedRunColumns": endedRunColumns, "openRowColumns": openRowColumns,
	"plannedColumns": plannedColumns, "beginColumns": beginColumns,
	"sqlWriteOpen": sqlWriteOpen, "sqlInsertOpen": sqlInsertOpen, "sqlInsertManyOpen": sqlInsertManyOpen,
	"sqlWaiting": sqlWaiting, "sqlQueuedDue": sqlQueuedDue, "sqlListWaiting": sqlListWaiting, "sqlListDelayed": sqlListDelayed,
	"sqlInsertEnded": sqlInsertEnded, "sqlInsertManyEnded": sqlInsertManyEnded,
}

// LimitPages keeps the file from growing beyond n pages, as a full disk would; 0
// removes the limit.
func (s *Store) LimitPages(ctx context.Context, n int) error {
	if n == 0 {
		n = 1 << 30
	}
	return s.writer.transact(ctx, func(ctx context.Context, t tx) error {
		return t.query(ctx, fmt.Sprintf(`PRAGMA max_page_count = %d`, n), func(scan scan) error { return scan(&n) })
	})
}

// HeadsRead is how many waiting runs an admission reads.
func (s *Store) HeadsRead(ctx context.Context, req *schedule.AdmitRequest) (runs int, err error) {
	err = s.write(ctx, func(ctx context.Context, t tx) error {
		f, _, err := dialect.ReadAdmission(ctx, queries{t}, req, 0)
		for _, h := range append(f.Heads, f.Oldest...) {
			runs += len(h.Runs)
		}
		return err
	})
	return runs, err
}

// ListStatements are the statements that can answer a list, with their arguments.
func ListStatements(f schedule.RunFilter) (statements []string, args [][]any) {
	for _, query := range runsQueries(&f) {
		statements, args = append(statements, query.from), append(args, query.args)
	}
	return statements, args
}

// ListInputs are what a list reads of each table for its page: the ended runs, then
// the open ones; empty: nothing.
func ListInputs(f schedule.RunFilter) (ended, open string) {
	order := orderOf(&f)
	endedSource, openSource := sourcesOf(&f)
	endedAll, openAll := runConditions(&f)
	if s := endedSource.with(endedAll); s.from != "" {
		ended = order.merged(s, runSource{}, f.Limit).from
	}
	if s := openSource.with(openAll); s.from != "" {
		open = order.merged(runSource{}, s, f.Limit).from
	}
	return ended, open
}

// OpenRow is a row of a run, for tests of its columns.
type OpenRow = openRow

// RunColumns is the table of columns, without what a join adds.
func RunColumns() (found []storetest.RunColumn) {
	for _, c := range runColumns {
		column := storetest.RunColumn{Name: c.name, Read: c.in&ofRun != 0}
		if c.open == "" && c.in&^history != 0 {
			column.Open = c.name
		}
		if c.in&history != 0 {
			column.Ended = c.name
		}
		if column.Open != "" || column.Ended != "" {
			found = append(found, column)
		}
	}
	return found
}

// ThroughTheTables writes a row to both tables and reads it back of each.
func (s *Store) ThroughTheTables(ctx context.Context, r OpenRow) (open OpenRow, ended schedule.Run, err error) {
	stored := slices.DeleteFunc(slices.Clone(runColumns), func(c runColumn) bool { return c.open != "" || c.in&^history == 0 })
	err = s.writer.transact(ctx, func(ctx context.Context, t tx) error {
		if _, err := t.exec(ctx, `INSERT INTO open_runs (`+stored.names()+`) VALUES `+stored.row(), stored.args(nil, &r)...); err != nil {
			return err
		}
		_, err := t.exec(ctx, sqlInsertEnded, columnsOfHistory.args(nil, &r)...)
		return err
	})
	if err != nil {
		return open, ended, err
	}
	rows, err := readOpenRows(ctx, s.readers, sqlOpenRows, keyList([]schedule.Key{r.Key}))
	if err != nil {
		return open, ended, err
	}
	runs, err := readRuns(ctx, s.readers, sqlEndedRuns, keyList([]schedule.Key{r.Key}))
	if err != nil || len(rows) != 1 || len(runs) != 1 {
		return open, ended, fmt.Errorf("%d open and %d ended rows: %w", len(rows), len(runs), err)
	}
	return *rows[0], runs[0], nil
}
