package postgres

import (
	"context"
	"fmt"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/tables"
)

const sqlOpenAmong = `SELECT o.idempotency_key FROM open_runs o WHERE o.idempotency_key = ANY($1::bytea[])`

// OpenAmong are those of the runs that are not over.
func (s *Store) OpenAmong(ctx context.Context, keys []schedule.Key) (open map[schedule.Key]bool, err error) {
	open = make(map[schedule.Key]bool)
	var raw []byte
	err = each(ctx, s.pool, []any{&raw}, func() error { open[schedule.Key(raw)] = true; return nil }, sqlOpenAmong, keyBytes(keys))
	if err != nil {
		return nil, fmt.Errorf("look for %d open runs: %w", len(keys), err)
	}
	return open, nil
}

// ListWaiting lists the runs of a queue that are not admitted, in its order.
func (s *Store) ListWaiting(ctx context.Context, f schedule.WaitingFilter) ([]schedule.Run, error) {
	list := func(statement string) func(limit, offset int) ([]schedule.Run, error) {
		return func(limit, offset int) ([]schedule.Run, error) {
			return collectRuns(ctx, s.pool, statement, f.QueueNo, limit, offset)
		}
	}
	count := func(state schedule.QueueState) (n int, err error) {
		err = s.pool.QueryRow(ctx, sqlCountWaiting, f.QueueNo, state.Code()).Scan(&n)
		return n, err
	}
	return tables.ListWaiting(f, count, tables.WaitingKind{State: schedule.QueueWaiting, List: list(sqlListWaiting)},
		tables.WaitingKind{State: schedule.QueueDelayed, List: list(sqlListDelayed)}, tables.WaitingKind{State: schedule.QueueChained, List: list(sqlListChained)})
}

// sqlCountWaiting names the states: their indexes are partial.
const sqlCountWaiting = `SELECT CASE $2::smallint
	WHEN 1 THEN (SELECT count(*) FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state = 1)
	WHEN 2 THEN (SELECT count(*) FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state = 2) END`

var (
	sqlListWaiting = `
SELECT` + openColumns + ownerColumns + fromOpen + joinOpenRevision + `
WHERE o.queue_no = $1 AND o.queue_state = 2
ORDER BY o.effective_priority, o.fair_order, o.position_key, o.idempotency_key LIMIT $2 OFFSET $3`

	sqlListDelayed = `
SELECT` + openColumns + ownerColumns + fromOpen + joinOpenRevision + `
WHERE o.queue_no = $1 AND o.queue_state = 1
ORDER BY o.fire_at, o.idempotency_key LIMIT $2 OFFSET $3`

	sqlListChained = `
SELECT` + openColumns + ownerColumns + fromOpen + joinOpenRevision + `
WHERE o.queue_no = $1 AND o.queue_state = 3
ORDER BY o.position_key, o.idempotency_key LIMIT $2 OFFSET $3`
)
