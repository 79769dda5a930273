package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// openRow is a run with all that the rules of package ledger need of one that is not
// over. A transaction has locked its row, or has taken it: the row is then no longer in
// open_runs and must be written to history. Rules change it; endRuns or writeOpen writes
// it. Readers of ended runs scan into one as well.
type openRow struct {
	schedule.Run                   // without ScheduleID if it was locked or taken; see nameSchedules
	Lease        schedule.KeyLease // of its key
	FirstSentAt  time.Time
	SID, Nth     int32
	Bucket       int16
	AttemptLog   string
	LateReports  int32

	result *schedule.RunResult // of its end; nil: none
	commit *schedule.Commit    // of its success; nil: none

	decoding // the first value that Run and Lease lack; such a row moves like others, or it would stay in flight forever
	bad      bad
	taken    bool
	moved    bool // a rule has changed Run
	counted  bool // it has ended without a row of history
}

// unreadable names a column that Run or Lease lacks. The key is right even so.
func (r *openRow) unreadable() error {
	if r.err == nil {
		return nil
	}
	return fmt.Errorf("run %s of %s: %w", r.Key, r.ScheduleID, r.err)
}

// logUnreadable logs a row that is unreadable, and reports whether it is.
func (s *Store) logUnreadable(ctx context.Context, r *openRow) bool {
	err := r.unreadable()
	if err != nil {
		s.log.ErrorContext(ctx, "run unreadable", "key", r.Key, "schedule_id", r.ScheduleID, "err", err)
	}
	return err != nil
}

// settle applies a settlement to the row.
func (r *openRow) settle(s *schedule.Settlement, now time.Time) (moved bool) {
	if r.Run, moved = ledger.Settle(r.Run, r.Lease, s, now); moved {
		r.AttemptLog = ledger.LogAttempt(r.AttemptLog, s)
		r.result, r.commit = ledger.ResultOf(&r.Run, s), ledger.CommitOf(&r.Run, s)
		r.moved, r.Lease = true, ledger.LeaseAfter(&r.Run, r.Lease)
	}
	return moved
}

func rowKey(r **openRow) []byte { return (*r).Key[:] }

// Statements that lock rows of open_runs, in the order of their keys where they wait.
//
// open_runs is often empty, and a plan made then stays until statistics change. It must
// read by key even so: a test checks the plans of an empty database. For a join with
// = ANY(ARRAY[u.key]) in place of = u.key there is no other plan. Rows that come by key
// are asked for their status, which no index has: state would lead to open_runs_due.
const (
	takeRows = `
DELETE FROM open_runs o WHERE o.idempotency_key = ANY($1::bytea[]) AND `

	// launching: a call may be made. A run of a queue is ENQUEUED meanwhile.
	launching = `(o.status = 2 OR o.queue_state = 4)`

	byKey = `
ORDER BY o.idempotency_key FOR UPDATE OF o`

	sqlSchedulesOf = `
SELECT s.sid, s.schedule_id FROM schedules s WHERE s.sid = ANY($1::integer[])`
)

var (
	lockOpenRuns = `
SELECT` + rowColumns + fromOpen + `
WHERE `

	sqlLockKeys = lockOpenRuns + `o.idempotency_key = ANY($1::bytea[])` + byKey

	// sqlLockPlannedOf are the planned runs of schedules.
	sqlLockPlannedOf = lockOpenRuns + `o.idempotency_key = ANY(ARRAY(
	SELECT k.idempotency_key FROM open_runs k
	WHERE k.sid = ANY(ARRAY(SELECT s.sid FROM schedules s WHERE s.schedule_id = ANY($1::text[]))))) AND o.status = 1` + byKey

	sqlLockPlannedOfBackfill = lockOpenRuns + `o.idempotency_key = ANY(ARRAY` + unsettledKeys + `) AND o.status = 1` + byKey

	// sqlLockDue are runs in flight that a sweep must look at, the oldest due_at first.
	// Rows that others have locked wait for the next sweep.
	sqlLockDue = lockOpenRuns + `o.state = 3 AND o.due_at <= $1 AND CASE WHEN o.bucket < $3 THEN false ELSE o.bucket <= $4 END
ORDER BY o.due_at LIMIT $2 FOR UPDATE OF o SKIP LOCKED`

	// They find their rows in the order of the keys.
	sqlTakePlanned   = takeRows + `o.status = 1 RETURNING` + rowColumns
	sqlTakeLaunching = takeRows + launching + ` RETURNING` + rowColumns
)

// lockOpen runs a statement that returns rowColumns of locked rows.
func lockOpen(ctx context.Context, tx pgx.Tx, statement string, args ...any) ([]*openRow, error) {
	var (
		row  openRow
		rows []*openRow
	)
	err := eachRun(ctx, tx, &row, columnsOfRow.targets(&row), func() error {
		r := row
		rows = append(rows, &r)
		return nil
	}, statement, args...)
	if err != nil {
		return nil, fmt.Errorf("lock open runs: %w", err)
	}
	return rows, nil
}

// lockKeys locks the open runs among the given ones. Where it cannot find a key, the run
// is over or there is none.
func lockKeys(ctx context.Context, tx pgx.Tx, keys []schedule.Key) ([]*openRow, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	return lockOpen(ctx, tx, sqlLockKeys, keyBytes(keys))
}

func rowsByKey(rows []*openRow) map[schedule.Key]*openRow {
	byKey := make(map[schedule.Key]*openRow, len(rows))
	for _, r := range rows {
		byKey[r.Key] = r
	}
	return byKey
}

// takeRuns removes from open_runs those of the runs that sqlTakePlanned or sqlTakeLaunching
// means. The caller must end all that it returns. Nothing is locked and read before: an end
// is one look for the row.
func takeRuns(ctx context.Context, tx pgx.Tx, statement string, keys []schedule.Key) ([]*openRow, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	rows, err := lockOpen(ctx, tx, statement, keyBytes(keys))
	for _, r := range rows {
		r.taken = true
	}
	return rows, err
}

// nameSchedules sets the ScheduleID of rows.
func nameSchedules(ctx context.Context, tx pgx.Tx, rows []*openRow) error {
	if len(rows) == 0 {
		return nil
	}
	names, err := readNames(ctx, tx, column(rows, func(r **openRow) int32 { return (*r).SID }))
	if err != nil {
		return err
	}
	for _, r := range rows {
		r.ScheduleID = names[r.SID]
	}
	return nil
}

// sqlWriteOpen writes rows in flight that are locked. due_at only falls: it nearly always
// stays, and no index changes.
// The leader reads again when a LAUNCHING run is to be sent next.
var sqlWriteOpen = `
WITH changed AS (
UPDATE open_runs o SET status = u.status, due_at = least(o.due_at, u.due_at),
	` + columnsThatMove.assign() + `
FROM ` + columnsWritten.unnest(0) + `
WHERE o.idempotency_key = ANY(ARRAY[u.idempotency_key]) AND o.status > 1
RETURNING o.idempotency_key, o.bucket, o.status
), noted AS (` + noteRuns + `2 FROM changed WHERE status = 2 HAVING count(*) > 0)
SELECT FROM changed`

var columnsWritten = append(runColumns.named("idempotency_key", "status", "due_at"), columnsThatMove...)

// writeOpen writes runs that are in flight and stay so.
func writeOpen(ctx context.Context, tx pgx.Tx, rows []*openRow) error {
	if len(rows) == 0 {
		return nil
	}
	n, err := affect(ctx, tx, sqlWriteOpen, columnsWritten.arrays(nil, rows)...)
	if err == nil && n != len(rows) {
		err = fmt.Errorf("%d of %d locked rows were there", n, len(rows))
	}
	if err != nil {
		return fmt.Errorf("write open runs: %w", err)
	}
	return nil
}

// writeMoved writes the rows that a rule has changed: those that are over to history.
func writeMoved(ctx context.Context, tx pgx.Tx, rows []*openRow, now time.Time) (ended []*openRow, err error) {
	var open []*openRow
	for _, r := range rows {
		switch {
		case r.moved && r.Status.Terminal():
			ended = append(ended, r)
		case r.taken:
			return nil, fmt.Errorf("run %s was taken and is %s: %w", r.Key, r.Status, errNotOver)
		case r.moved:
			open = append(open, r)
		}
	}
	if err := writeOpen(ctx, tx, open); err != nil {
		return nil, err
	}
	return ended, endRuns(ctx, tx, ended, now)
}

// errNotOver means that a statement took a run that no rule ends.
var errNotOver = errors.New("not over")

// inKeyOrder is the order in which rows are locked everywhere.
func inKeyOrder(keys []schedule.Key) []schedule.Key {
	return slices.SortedFunc(slices.Values(keys), func(a, b schedule.Key) int { return bytes.Compare(a[:], b[:]) })
}
