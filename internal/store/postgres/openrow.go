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

// openRow is a row of open_runs that this transaction has locked, or taken: the row is
// then no longer in the table and must be written to history. Rules of package ledger
// change it; endRuns or writeOpen writes it.
type openRow struct {
	schedule.Run                   // without ScheduleID; see nameSchedules
	Lease        schedule.KeyLease // of its key
	AttemptLog   string
	// Unreadable names columns that Run and Lease lack. Such a row moves like others,
	// or it would stay in flight forever.
	Unreadable error

	stored storedRow // as the table has it
	taken  bool
	moved  bool // a rule has changed Run
}

// storedRow is a row as rowColumns list it.
type storedRow struct {
	runRow
	sid, nth                int32
	bucket                  int16
	attemptLog              pgtype.Text
	holder, lateReports     pgtype.Int4
	leaseUntil, firstSentAt pgtype.Timestamptz
}

const rowColumns = `
o.idempotency_key, o.sid, o.nth, o.bucket, o.revision, o.run_at, o.fire_at, o.status, o.trigger,
o.overlap_key, o.policy, o.max_queued, o.waiting_since, o.attempt, o.retry_of, o.deliveries, o.input, o.priority,
o.run_id, o.trace_id, o.epoch, o.claimed_at, o.send_after, o.cancel_requested_at, o.cancel_reason,
o.launched_at, o.started_at, o.timeout_at, o.error_code, o.error_message, o.failed_attempts, o.created_at, o.updated_at,
o.attempt_log::text, o.holder, o.lease_until, o.first_sent_at, o.late_reports, o.exit_code, o.log_url`

func (w *storedRow) targets() []any {
	return []any{
		&w.key, &w.sid, &w.nth, &w.bucket, &w.revision, &w.runAt, &w.fireAt, &w.status, &w.trigger,
		&w.overlapKey, &w.overlapPolicy, &w.maxQueued, &w.waitingSince, &w.attempt, &w.retryOf, &w.deliveries, &w.input, &w.priority,
		&w.runID, &w.traceID, &w.epoch, &w.claimedAt, &w.claimedUntil, &w.cancelRequestedAt, &w.cancelReason,
		&w.launchedAt, &w.startedAt, &w.timeoutAt, &w.errorCode, &w.errorMessage, &w.failedAttempts, &w.createdAt, &w.updatedAt,
		&w.attemptLog, &w.holder, &w.leaseUntil, &w.firstSentAt, &w.lateReports, &w.exitCode, &w.logURL,
	}
}

func (w *storedRow) openRow() *openRow {
	var d decoding
	run, err := w.run()
	run.Exclusive = run.OverlapPolicy.Exclusive()
	lease := schedule.KeyLease{Holder: w.holder.Int32, Until: d.time("lease_until", w.leaseUntil)}
	return &openRow{Run: run, Lease: lease, AttemptLog: w.attemptLog.String, Unreadable: errors.Join(err, d.err), stored: *w}
}

// settle applies a settlement to the row.
func (r *openRow) settle(s *schedule.Settlement, now time.Time) (moved bool) {
	if r.Run, moved = ledger.Settle(r.Run, s, now); moved {
		r.AttemptLog = ledger.LogAttempt(r.AttemptLog, s)
		r.moved = true
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
	lockOpenRuns = `
SELECT` + rowColumns + fromOpen + `
WHERE `
	byKey = `
ORDER BY o.idempotency_key FOR UPDATE OF o`

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

	// sqlTakeRuns finds its rows in the order of their keys.
	sqlTakeRuns = `
DELETE FROM open_runs o WHERE o.idempotency_key = ANY($1::bytea[]) AND o.status = $2
RETURNING` + rowColumns

	sqlSchedulesOf = `
SELECT s.sid, s.schedule_id FROM schedules s WHERE s.sid = ANY($1::integer[])`
)

// lockOpen runs a statement that returns rowColumns of locked rows.
func lockOpen(ctx context.Context, tx pgx.Tx, statement string, args ...any) ([]*openRow, error) {
	var (
		row  storedRow
		rows []*openRow
	)
	err := each(ctx, tx, row.targets(), func() error {
		rows = append(rows, row.openRow())
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

// takeRuns removes those of the runs that have the status from open_runs. The caller must
// end all that it returns. Nothing is locked and read before: an end is one look for the
// row.
func takeRuns(ctx context.Context, tx pgx.Tx, keys []schedule.Key, status schedule.Status) ([]*openRow, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	rows, err := lockOpen(ctx, tx, sqlTakeRuns, keyBytes(keys), status.Code())
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
	var (
		sid int32
		id  string
		ids = make(map[int32]string)
	)
	err := each(ctx, tx, []any{&sid, &id}, func() error {
		ids[sid] = id
		return nil
	}, sqlSchedulesOf, column(rows, func(r **openRow) int32 { return (*r).stored.sid }))
	if err != nil {
		return fmt.Errorf("read the schedules of runs: %w", err)
	}
	for _, r := range rows {
		r.ScheduleID = ids[r.stored.sid]
	}
	return nil
}

// sqlWriteOpen writes rows in flight that are locked. due_at only falls: it nearly always
// stays, and no index changes. An acceptance is the answer to the call that holds the key.
// The leader reads again when a LAUNCHING run is to be sent next.
const sqlWriteOpen = `
WITH changed AS (
UPDATE open_runs o SET status = u.status, due_at = least(o.due_at, u.due_at), send_after = u.send_after,
	run_id = u.run_id, trace_id = u.trace_id, error_code = u.error_code, error_message = u.error_message,
	launched_at = u.launched_at, started_at = u.started_at, timeout_at = u.timeout_at,
	holder = CASE WHEN u.status = 3 THEN NULL ELSE o.holder END, lease_until = CASE WHEN u.status = 3 THEN NULL ELSE o.lease_until END,
	deliveries = u.deliveries, failed_attempts = u.failed_attempts, attempt_log = u.attempt_log::jsonb, updated_at = $1
FROM unnest($2::bytea[], $3::timestamptz[], $4::timestamptz[],
	$5::smallint[], $6::text[], $7::text[], $8::text[], $9::text[],
	$10::timestamptz[], $11::timestamptz[], $12::timestamptz[], $13::integer[], $14::integer[], $15::text[])
	AS u(key, due_at, send_after, status, run_id, trace_id, error_code, error_message,
	launched_at, started_at, timeout_at, deliveries, failed_attempts, attempt_log)
WHERE o.idempotency_key = ANY(ARRAY[u.key]) AND o.status > 1
RETURNING o.idempotency_key, o.bucket, o.status
), noted AS (` + noteRuns + `2 FROM changed WHERE status = 2 HAVING count(*) > 0)
SELECT FROM changed`

// writeOpen writes runs that are in flight and stay so.
func writeOpen(ctx context.Context, tx pgx.Tx, rows []*openRow, now time.Time) error {
	if len(rows) == 0 {
		return nil
	}
	n, err := affect(ctx, tx, sqlWriteOpen, now, column(rows, rowKey),
		column(rows, func(r **openRow) pgtype.Timestamptz { return noneOrTime(ledger.DueAt(&(*r).Run)) }),
		column(rows, func(r **openRow) pgtype.Timestamptz { return noneOrTime((*r).ClaimedUntil) }),
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
		column(rows, func(r **openRow) pgtype.Text { return noneOrText((*r).AttemptLog) }))
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
	if err := writeOpen(ctx, tx, open, now); err != nil {
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
