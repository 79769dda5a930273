package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// openRow is a row of open_runs that this transaction has locked. Rules of package ledger
// change it; endRuns or writeOpen writes it.
type openRow struct {
	schedule.Run
	Lease      schedule.KeyLease // of its key
	AttemptLog string
	SID        int32 // of its schedule, once it is in history
	// Unreadable names columns that Run and Lease lack. Such a row moves like others,
	// or it would stay in flight forever.
	Unreadable error

	moved bool // a rule has changed Run
}

// settle applies a settlement to the row.
func (r *openRow) settle(s *schedule.Settlement, now time.Time) (moved bool) {
	if r.Run, moved = ledger.Settle(r.Run, s, now); moved {
		r.AttemptLog = ledger.LogAttempt(r.AttemptLog, s)
		r.moved = true
	}
	return moved
}

// lockOpen runs a statement that begins with lockOpenRuns.
func lockOpen(ctx context.Context, tx pgx.Tx, statement string, args ...any) ([]*openRow, error) {
	var (
		row        runRow
		attemptLog pgtype.Text
		holder     pgtype.Int4
		leaseUntil pgtype.Timestamptz
		rows       []*openRow
	)
	err := each(ctx, tx, append(row.targets(), &attemptLog, &holder, &leaseUntil), func() error {
		var d decoding
		run, err := row.run()
		lease := schedule.KeyLease{Holder: holder.Int32, Until: d.time("lease_until", leaseUntil)}
		rows = append(rows, &openRow{Run: run, Lease: lease, AttemptLog: attemptLog.String, Unreadable: errors.Join(err, d.err)})
		return nil
	}, statement, args...)
	if err != nil {
		return nil, fmt.Errorf("lock open runs: %w", err)
	}
	return rows, nil
}

// lockKeys locks the open runs among the given ones. Where it cannot find a key, the run
// is over or there is none.
func lockKeys(ctx context.Context, tx pgx.Tx, keys []schedule.Key) (map[schedule.Key]*openRow, error) {
	rows, err := lockOpen(ctx, tx, sqlLockKeys, keyBytes(keys))
	if err != nil {
		return nil, err
	}
	byKey := make(map[schedule.Key]*openRow, len(rows))
	for _, r := range rows {
		byKey[r.Key] = r
	}
	return byKey, nil
}

// lockAnswered is lockKeys for settlements without FAILED. The rows have only what
// such a settlement reads and changes.
func lockAnswered(ctx context.Context, tx pgx.Tx, keys []schedule.Key) (map[schedule.Key]*openRow, error) {
	var row runRow
	var attemptLog pgtype.Text
	rows := make(map[schedule.Key]*openRow, len(keys))
	err := each(ctx, tx, []any{
		&row.key, &row.overlapKey, &row.status, &row.waitingSince, &row.claimedUntil, &row.cancelRequestedAt, &row.cancelReason,
		&row.runID, &row.traceID, &row.errorCode, &row.errorMessage, &row.launchedAt, &row.startedAt, &row.timeoutAt,
		&row.fireAt, &row.claimedAt, &row.deliveries, &row.failedAttempts, &attemptLog,
	}, func() error {
		run, err := row.run()
		rows[run.Key] = &openRow{Run: run, AttemptLog: attemptLog.String, Unreadable: err}
		return nil
	}, sqlLockAnswered, keyBytes(keys))
	if err != nil {
		return nil, fmt.Errorf("lock answered runs: %w", err)
	}
	return rows, nil
}

// writeMoved writes the rows that a rule has changed: those that are over to history.
func writeMoved(ctx context.Context, tx pgx.Tx, rows []*openRow, now time.Time) (ended []*openRow, err error) {
	var open []*openRow
	for _, r := range rows {
		switch {
		case !r.moved:
		case r.Status.Terminal():
			ended = append(ended, r)
		default:
			open = append(open, r)
		}
	}
	if err := writeOpen(ctx, tx, open, now); err != nil {
		return nil, err
	}
	return ended, endRuns(ctx, tx, ended, now)
}

// writeOpen writes runs that are in flight and stay so.
func writeOpen(ctx context.Context, tx pgx.Tx, rows []*openRow, now time.Time) error {
	if len(rows) == 0 {
		return nil
	}
	n, err := affect(ctx, tx, sqlWriteOpen, append([]any{
		now, column(rows, rowKey),
		column(rows, func(r **openRow) pgtype.Timestamptz { return noneOrTime(ledger.DueAt(&(*r).Run)) }),
		column(rows, func(r **openRow) pgtype.Timestamptz { return noneOrTime((*r).ClaimedUntil) }),
	}, outcomeArgs(rows)...)...)
	if err == nil && n != len(rows) {
		err = fmt.Errorf("%d of %d locked rows were there", n, len(rows))
	}
	if err != nil {
		return fmt.Errorf("write open runs: %w", err)
	}
	return nil
}

func rowKey(r **openRow) []byte { return (*r).Key[:] }

// outcomeArgs are the columns of a row that a rule may change, as outcomeRows lists them.
func outcomeArgs(rows []*openRow) []any {
	return []any{
		column(rows, func(r **openRow) pgtype.Int2 { return noneOrCode((*r).Status.Code()) }),
		column(rows, func(r **openRow) pgtype.Text { return noneOrText((*r).RunID) }),
		column(rows, func(r **openRow) pgtype.Text { return noneOrText((*r).TraceID) }),
		column(rows, func(r **openRow) pgtype.Text { return noneOrText((*r).ErrorCode) }),
		column(rows, func(r **openRow) pgtype.Text { return noneOrText((*r).ErrorMessage) }),
		column(rows, func(r **openRow) pgtype.Timestamptz { return noneOrTime((*r).LaunchedAt) }),
		column(rows, func(r **openRow) pgtype.Timestamptz { return noneOrTime((*r).StartedAt) }),
		column(rows, func(r **openRow) pgtype.Timestamptz { return noneOrTime((*r).TimeoutAt) }),
		column(rows, func(r **openRow) int32 { return (*r).Deliveries }),
		column(rows, func(r **openRow) int32 { return (*r).FailedAttempts }),
		column(rows, func(r **openRow) pgtype.Text { return noneOrText((*r).AttemptLog) }),
	}
}

// inKeyOrder is the order in which rows are locked everywhere.
func inKeyOrder(keys []schedule.Key) []schedule.Key {
	return slices.SortedFunc(slices.Values(keys), func(a, b schedule.Key) int { return bytes.Compare(a[:], b[:]) })
}
