package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
)

// sqlAttemptFacts are the definitions of the run's revision, of its schedule and of its queue. One that is
// missing or cannot be read is reported by a claim of that revision.
const sqlAttemptFacts = `SELECT planned.definition, in_force.definition, q.definition FROM schedules s
 LEFT JOIN schedule_revisions planned ON planned.schedule_id = s.schedule_id AND planned.revision = ?2
 LEFT JOIN schedule_revisions in_force ON in_force.schedule_id = s.schedule_id AND in_force.revision = s.revision AND s.deleted_at IS NULL
 LEFT JOIN queues q ON q.queue_no = ?3
 WHERE s.sid = ?1`

// conclude makes runs what history has of them, and returns the next attempts of those that
// failed. Most failed runs have one attempt: only the others read anything.
func conclude(ctx context.Context, t tx, rows []*openRow, now time.Time) (map[*openRow]*schedule.Run, error) {
	attempts := make(map[*openRow]*schedule.Run)
	for _, r := range rows {
		r.asEnded(now)
		var facts *ledger.AttemptFacts
		if ledger.NeedsAttemptFacts(&r.Run) {
			err := t.query(ctx, sqlAttemptFacts, func(scan scan) error {
				var planned, inForce, queue text
				err := scan(&planned, &inForce, &queue)
				facts = &ledger.AttemptFacts{
					Planned: revision.Readable(string(planned)), InForce: revision.Readable(string(inForce)), Queue: schedule.RetryOfQueue(string(queue)), Setting: t.w.queuedRetry,
				}
				return err
			}, int64(r.SID), r.Revision, int64(r.Queue.No))
			if err != nil {
				return nil, fmt.Errorf("read the retry policy of run %s: %w", r.Key, err)
			}
		}
		if next := ledger.Conclude(&r.Run, facts); next != nil {
			attempts[r] = next
		}
	}
	return attempts, nil
}

// insertAttempts inserts the next attempts of runs that are in history.
func insertAttempts(ctx context.Context, t tx, ended []*openRow, attempts map[*openRow]*schedule.Run, now time.Time) error {
	if len(attempts) == 0 {
		return nil
	}
	runs := make([]schedule.Run, 0, len(attempts))
	for _, r := range ended {
		if next := attempts[r]; next != nil {
			runs = append(runs, *next)
		}
	}
	if _, err := insertRuns(ctx, t, runs, now); err != nil {
		return fmt.Errorf("plan automatic retries: %w", err)
	}
	return nil
}
