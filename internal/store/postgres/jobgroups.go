package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/tables"
)

// Groups of runs of queues.
const (
	forUpdate = ` FOR UPDATE`

	// sqlLockJobGroups does not wait for a group: this transaction holds rows of runs, which the
	// holder of the group may need. See tables.GroupsBusy.
	sqlLockJobGroups = `
SELECT group_no, group_id, queue_no, user_id, mode, on_failure, state, sealed, seal_at, members, stop_from, cancel_requested_at,
	succeeded, failed, skipped, cancelled, on_complete, webhook, retry_of, body_hash, created_at, ended_at
FROM queue_groups WHERE group_no = ANY($1::integer[]) ORDER BY group_no FOR UPDATE SKIP LOCKED`

	// sqlLockSlotGroups waits: the claim holds no row of a run yet.
	sqlLockSlotGroups = `
SELECT group_no, group_id, queue_no, user_id, mode, on_failure, state, sealed, seal_at, members, stop_from, cancel_requested_at,
	succeeded, failed, skipped, cancelled, on_complete, webhook, retry_of, body_hash, created_at, ended_at
FROM queue_groups WHERE group_id = ANY($1) ORDER BY group_no FOR UPDATE`

	sqlCountJobGroups = `SELECT count(*) FROM queue_groups WHERE group_no = ANY($1::integer[])`

	sqlAwaitJobGroups = `SELECT FROM queue_groups WHERE group_no = ANY($1::integer[]) ORDER BY group_no FOR UPDATE`
)

var (
	sqlLockStopped = lockOpenRuns + `o.group_no = $1 AND o.group_seq >= $2 AND o.queue_state <= 3 AND o.claimed_at IS NULL AND o.trigger = 6
ORDER BY o.group_seq LIMIT $3 FOR UPDATE OF o SKIP LOCKED`

	sqlLockMembers = lockOpenRuns + `o.group_no = $1 AND o.cancel_requested_at IS NULL ORDER BY o.group_seq LIMIT $2 FOR UPDATE OF o SKIP LOCKED`
)

// busyGroups are those that a transaction waits for before anything else, because it found them
// held before.
type busyGroups []int32

// note adds the groups of an error.
func (b *busyGroups) note(err error) {
	if busy, ok := errors.AsType[*tables.GroupsBusy](err); ok {
		*b = append(*b, busy.Nos...)
		slices.Sort(*b)
		*b = slices.Compact(*b)
	}
}

func (b busyGroups) await(ctx context.Context, tx pgx.Tx) error {
	if len(b) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, sqlAwaitJobGroups, []int32(b)); err != nil {
		return fmt.Errorf("wait for groups: %w", err)
	}
	return nil
}

// cancelMembers cancels open members of a group as a step says.
func cancelMembers(ctx context.Context, tx pgx.Tx, step ledger.MemberStep, now time.Time) (int, error) {
	var rows []*openRow
	var err error
	if step.All {
		rows, err = lockOpen(ctx, tx, sqlLockMembers, step.GroupNo, step.Limit)
	} else {
		rows, err = lockOpen(ctx, tx, sqlLockStopped, step.GroupNo, step.From, step.Limit)
	}
	if err != nil {
		return 0, err
	}
	var over []*openRow
	for _, r := range rows {
		end, request := step.Cancel(&r.Run, now)
		switch {
		case end != nil && r.settle(end, now):
			over = append(over, r)
		case request != "":
			if _, err := affect(ctx, tx, sqlAskCancel, r.Key[:], now, string(request)); err != nil {
				return 0, fmt.Errorf("ask for the cancel of run %s: %w", r.Key, err)
			}
		}
	}
	wakeQueues(tx)
	if err := endRows(ctx, tx, over, now); err != nil {
		return 0, err
	}
	led := slices.DeleteFunc(over, func(r *openRow) bool { return r.IsJob() })
	wakeLeaders(tx, led)
	return len(rows), note(ctx, tx, changeEnd, led)
}

// settleGroups makes what ends of runs make of their groups.
func settleGroups(ctx context.Context, tx pgx.Tx, rows []*openRow, now time.Time) error {
	return dialect.SettleGroups(ctx, queries{tx}, len(rows), func(i int) *schedule.Run { return &rows[i].Run }, now)
}
