package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
)

// Built is the SQL that is made of the table of columns when the program starts.
var Built = map[string]string{
	"openColumns": openColumns, "endedColumns": endedColumns, "rowColumns": rowColumns, "beginColumns": beginColumns,
	"openFields": openFields, "endedFields": endedFields, "listColumns": listColumns,
	"sqlInsertRuns": sqlInsertRuns, "copyRuns": copyRuns, "copyEnded": copyEnded, "sqlWriteOpen": sqlWriteOpen, "sqlClaim": sqlClaim, "sqlClaimCancel": sqlClaimCancel,
}

// Gathered is how many changes wait for the transaction after the present one.
func Gathered(s *Store) int { return s.changes.Waiting() }

// ListStatement is the statement of a list, and of one that is scattered the first of two.
func ListStatement(f *schedule.RunFilter) (statement string, args []any) {
	order, source := orderOf(f), sourceOf(f)
	if f.Scattered() {
		return order.recent(source), append(runFilterArgs(f), schedule.RecentRuns)
	}
	return order.list(source), runFilterArgs(f)
}

// ForgetPartitions lets the next Prune look after the partitions, however soon it comes.
func (s *Store) ForgetPartitions() { s.partitions.kept.Store(nil) }

// ChangesAfter reads the changes after a position as a claim of the term does, and calls
// visit with the keys of each. It returns the next position; "" is one to begin with.
func ChangesAfter(ctx context.Context, conn *pgx.Conn, term schedule.Term, from string, visit func(keys [][]byte)) (next string, err error) {
	if from == "" {
		err := conn.QueryRow(ctx, `SELECT pg_current_snapshot()::text`).Scan(&next)
		return next, err
	}
	first, last := term.Buckets()
	var position pgtype.Text
	var kind pgtype.Int2
	var ids []string
	var keys [][]byte
	err = each(ctx, conn, []any{&position, &kind, &ids, &keys}, func() error {
		if kind.Valid {
			visit(keys)
		} else {
			_, next, _ = strings.Cut(position.String, " ")
		}
		return nil
	}, sqlChanges, from, first, last)
	return next, err
}
