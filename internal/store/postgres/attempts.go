package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
)

// sqlAttemptFacts are the definitions of the run's revision, of its schedule and of its queue. One that is
// missing or cannot be read is reported by a claim of that revision.
const sqlAttemptFacts = `
SELECT u.key, s.schedule_id, planned.definition, in_force.definition, q.definition
FROM unnest($1::bytea[], $2::integer[], $3::bigint[], $4::integer[]) AS u(key, sid, revision, queue_no) JOIN schedules s ON s.sid = u.sid
LEFT JOIN queues q ON q.queue_no = u.queue_no
LEFT JOIN schedule_revisions planned ON planned.schedule_id = s.schedule_id AND planned.revision = u.revision
LEFT JOIN schedule_revisions in_force ON in_force.schedule_id = s.schedule_id AND in_force.revision = s.revision AND s.deleted_at IS NULL`

// conclude makes runs what history has of them, and returns the next attempts of those that
// failed. Most failed runs have one attempt: only the others read anything.
func conclude(ctx context.Context, tx pgx.Tx, rows []*openRow, now time.Time) (map[*openRow]*schedule.Run, error) {
	var retried []*openRow
	for _, r := range rows {
		r.asEnded(now)
		if ledger.NeedsAttemptFacts(&r.Run) {
			retried = append(retried, r)
		}
	}
	facts, err := attemptFacts(ctx, tx, retried)
	if err != nil {
		return nil, fmt.Errorf("read the retry policies of failed runs: %w", err)
	}
	attempts := make(map[*openRow]*schedule.Run, len(retried))
	for _, r := range rows {
		if next := ledger.Conclude(&r.Run, facts[r.Key]); next != nil {
			attempts[r] = next
		}
	}
	return attempts, nil
}

func attemptFacts(ctx context.Context, tx pgx.Tx, rows []*openRow) (map[schedule.Key]*ledger.AttemptFacts, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	var (
		key              []byte
		id               string
		planned, inForce pgtype.Text
		queue            pgtype.Text
		byKey            = rowsByKey(rows)
		facts            = make(map[schedule.Key]*ledger.AttemptFacts, len(rows))
	)
	err := each(ctx, tx, []any{&key, &id, &planned, &inForce, &queue}, func() error {
		byKey[schedule.Key(key)].ScheduleID = id
		facts[schedule.Key(key)] = &ledger.AttemptFacts{
			Planned: revision.Readable(planned.String), InForce: revision.Readable(inForce.String), Queue: schedule.RetryOfQueue(queue.String), Setting: openedBy(tx).QueuedRetry,
		}
		return nil
	}, sqlAttemptFacts, column(rows, rowKey), column(rows, func(r **openRow) int32 { return (*r).SID }),
		column(rows, func(r **openRow) int64 { return (*r).Revision }), column(rows, func(r **openRow) int32 { return (*r).Queue.No }))
	return facts, err
}

// insertAttempts inserts the next attempts of runs that are in history.
func insertAttempts(ctx context.Context, tx pgx.Tx, ended []*openRow, attempts map[*openRow]*schedule.Run, now time.Time) error {
	if len(attempts) == 0 {
		return nil
	}
	runs := make([]schedule.Run, 0, len(attempts))
	for _, r := range ended {
		if next := attempts[r]; next != nil {
			runs = append(runs, *next)
		}
	}
	if _, err := insertRuns(ctx, tx, runs, now); err != nil {
		return fmt.Errorf("plan automatic retries: %w", err)
	}
	return nil
}
