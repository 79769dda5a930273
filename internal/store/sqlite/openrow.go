package sqlite

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// never is the due_at of a run that no instant moves.
const never = math.MaxInt64

// openRow is a run that is not over, with all that the rules of package ledger need.
type openRow struct {
	schedule.Run
	Lease       schedule.KeyLease // of its key
	FirstSentAt time.Time
	SID, Nth    int32
	AttemptLog  string
	LateReports int64

	moved bool // a rule has changed Run
}

// openRowColumns are those of readOpenRows, behind ofOpen.
const openRowColumns = openRunColumns + `, o.sid, o.nth, o.attempt_log, o.late_reports, o.first_sent_at, ` + leaseColumns

// readOpenRows collects the runs of a statement that selects openRowColumns.
func readOpenRows(ctx context.Context, t tx, statement string, args ...any) (rows []*openRow, err error) {
	var run runRow
	var lease leaseRow
	var sid, nth, late number
	var attempts text
	var firstSent instant
	columns := append(append(run.columns(), &sid, &nth, &attempts, &late, &firstSent), lease.columns()...)
	err = t.query(ctx, statement, func(scan scan) error {
		if err := scan(columns...); err != nil {
			return err
		}
		rows = append(rows, &openRow{
			Run: run.run(), Lease: lease.lease(), FirstSentAt: firstSent.Time, SID: int32(sid), Nth: int32(nth),
			AttemptLog: string(attempts), LateReports: int64(late),
		})
		return nil
	}, args...)
	if err != nil {
		return nil, fmt.Errorf("read open runs: %w", err)
	}
	return rows, nil
}

// openRowsOf reads open runs by their keys. The write lock is held, so they do not change
// before the commit.
func openRowsOf(ctx context.Context, t tx, keys []schedule.Key) (map[schedule.Key]*openRow, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	rows, err := readOpenRows(ctx, t, sqlOpenRows, keyList(keys))
	byKey := make(map[schedule.Key]*openRow, len(rows))
	for _, row := range rows {
		byKey[row.Key] = row
	}
	return byKey, err
}

// settle applies a settlement if the status allows it.
func (r *openRow) settle(e *schedule.Settlement, now time.Time) (moved bool) {
	if r.Run, moved = ledger.Settle(r.Run, e, now); moved {
		r.moved = true
		r.AttemptLog = ledger.LogAttempt(r.AttemptLog, e)
	}
	return moved
}

// update writes the variable columns of a run that stays open.
func (r *openRow) update(ctx context.Context, t tx) error {
	n, err := t.exec(ctx, sqlWriteOpen, keyArg(r.Key), int64(r.Status.Code()), dueAt(&r.Run), int64(r.Deliveries), int64(r.FailedAttempts),
		micros(r.ClaimedUntil), micros(r.LaunchedAt), micros(r.StartedAt), micros(r.TimeoutAt), word(r.RunID), word(r.TraceID),
		word(r.ErrorCode), word(r.ErrorMessage), word(r.AttemptLog), r.UpdatedAt.UnixMicro())
	if err != nil {
		return fmt.Errorf("update run %s: %w", r.Key, err)
	}
	if n != 1 {
		return fmt.Errorf("update run %s: it is not in flight", r.Key)
	}
	return nil
}

// dueAt is ledger.DueAt as the column has it.
func dueAt(r *schedule.Run) int64 {
	if at := ledger.DueAt(r); !at.IsZero() {
		return at.UnixMicro()
	}
	return never
}
