package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/test/storetest"
)

// Built is the SQL that is made of the table of columns when the program starts.
var Built = map[string]string{
	"openColumns": openColumns, "endedColumns": endedColumns, "rowColumns": rowColumns, "beginColumns": beginColumns,
	"openFields": openFields, "endedFields": endedFields, "listColumns": listColumns,
	"sqlInsertRuns": sqlInsertRuns, "copyRuns": copyRuns, "copyEnded": copyEnded, "sqlWriteOpen": sqlWriteOpen, "sqlClaim": sqlClaim, "sqlClaimCancel": sqlClaimCancel,
}

// Gathered is how many changes wait for the transaction after the present one.
func Gathered(s *Store) int { return s.changes.Waiting() }

// SlowFronts makes each read from the front of an index slow.
func (s *Store) SlowFronts() { s.fronts.slower = time.Hour }

// QuickSweeps makes no sweep slow, however busy the machine is: a slow one only looks a second ahead
// for what is due next.
func (s *Store) QuickSweeps() { s.fronts.sweepsSlower = -time.Hour }

// HeadsRead is how many waiting runs an admission reads.
func (s *Store) HeadsRead(ctx context.Context, req *schedule.AdmitRequest) (runs int, err error) {
	err = s.transact(ctx, func(tx pgx.Tx) error {
		f, _, err := dialect.ReadAdmission(ctx, queries{tx}, req, 0)
		for _, h := range append(f.Heads, f.Oldest...) {
			runs += len(h.Runs)
		}
		return err
	})
	return runs, err
}

// ReadFrontsAgain lets the next read of each queue be one from its front.
func (s *Store) ReadFrontsAgain() {
	s.fronts.mu.Lock()
	defer s.fronts.mu.Unlock()
	for _, q := range s.fronts.queues {
		q.fullAt = time.Now()
	}
}

// AwaitNotifications waits until leaders are notified of all that was committed.
func AwaitNotifications(s *Store) { s.notifier.work.Wait() }

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

// OpenRow is a row of a run, for tests of its columns.
type OpenRow = openRow

// RunColumns is the table of columns.
func RunColumns() (found []storetest.RunColumn) {
	for _, c := range runColumns {
		column := storetest.RunColumn{Name: c.name, Read: c.in&ofRun != 0}
		if c.in&^history != 0 {
			column.Open = c.open
		}
		if c.in&history != 0 {
			column.Ended = c.ended
		}
		found = append(found, column)
	}
	return found
}

// ThroughTheTables writes a row to both tables and reads it back of each.
func (s *Store) ThroughTheTables(ctx context.Context, r *OpenRow) (open OpenRow, ended schedule.Run, err error) {
	stored := slices.DeleteFunc(slices.Clone(columnsOfRow), func(c runColumn) bool { return c.open == "" })
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `CREATE TEMP TABLE given (LIKE open_runs INCLUDING DEFAULTS) ON COMMIT DROP`)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `ALTER TABLE given ALTER due_at SET DEFAULT now(), ALTER state SET DEFAULT 5`); err != nil {
			return err
		}
		c := newCopied(1, 512)
		stored.copied(c, r)
		if _, err := c.into(ctx, tx, `COPY given (`+stored.names()+`) FROM STDIN (FORMAT binary)`); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO open_runs SELECT * FROM given`); err != nil {
			return err
		}
		rows, err := lockKeys(ctx, tx, []schedule.Key{r.Key})
		if err != nil || len(rows) != 1 {
			return fmt.Errorf("%d open rows: %w", len(rows), err)
		}
		open = *rows[0]
		if err := insertEnded(ctx, tx, []*openRow{r}); err != nil {
			return err
		}
		runs, err := collectRuns(ctx, tx, sqlEndedRuns, keyBytes([]schedule.Key{r.Key}))
		if err != nil || len(runs) != 1 {
			return fmt.Errorf("%d ended rows: %w", len(runs), err)
		}
		ended = runs[0]
		return nil
	})
	return open, ended, err
}
