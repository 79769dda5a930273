package sqlite

import (
	"context"
	"fmt"

	"github.com/carillon/carillon/internal/schedule"
)

// Built is the SQL that is made of the table of columns when the program starts.
var Built = map[string]string{
	"openRunColumns": openRunColumns, "endedRunColumns": endedRunColumns, "openRowColumns": openRowColumns,
	"plannedColumns": plannedColumns, "beginColumns": beginColumns,
	"sqlWriteOpen": sqlWriteOpen, "sqlInsertOpen": sqlInsertOpen, "sqlInsertManyOpen": sqlInsertManyOpen,
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
