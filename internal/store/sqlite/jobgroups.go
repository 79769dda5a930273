package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Groups of runs of queues. The write lock keeps others from them.
const (
	sqlLockJobGroups = `SELECT group_no, group_id, queue_no, user_id, mode, on_failure, state, sealed, seal_at, members, stop_from, cancel_requested_at,
 succeeded, failed, skipped, cancelled, on_complete, webhook, retry_of, body_hash, created_at, ended_at
 FROM queue_groups WHERE group_no IN (SELECT value ->> 0 FROM json_each(?1)) ORDER BY group_no`

	sqlLockSlotGroups = `SELECT group_no, group_id, queue_no, user_id, mode, on_failure, state, sealed, seal_at, members, stop_from, cancel_requested_at,
 succeeded, failed, skipped, cancelled, on_complete, webhook, retry_of, body_hash, created_at, ended_at
 FROM queue_groups WHERE group_id IN (SELECT value FROM json_each(?1)) ORDER BY group_no`

	sqlCountJobGroups = `SELECT count(*) FROM queue_groups WHERE group_no IN (SELECT value ->> 0 FROM json_each(?1))`
)

var (
	sqlStoppedMembers = `SELECT ` + openRowColumns + ` FROM open_runs o INDEXED BY open_runs_group` + ofOpen + `
 WHERE o.group_no = ?1 AND o.group_seq >= ?2 AND o.queue_state <= 3 AND o.claimed_at IS NULL AND o.trigger = 6 ORDER BY o.group_seq LIMIT ?3`

	sqlMembers = `SELECT ` + openRowColumns + ` FROM open_runs o INDEXED BY open_runs_group` + ofOpen + `
 WHERE o.group_no = ?1 AND o.cancel_requested_at IS NULL ORDER BY o.group_seq LIMIT ?2`
)

// cancelMembers cancels open members of a group as a step says.
func cancelMembers(ctx context.Context, t tx, step ledger.MemberStep, now time.Time) (int, error) {
	var rows []*openRow
	var err error
	if step.All {
		rows, err = readOpenRows(ctx, t, sqlMembers, int64(step.GroupNo), step.Limit)
	} else {
		rows, err = readOpenRows(ctx, t, sqlStoppedMembers, int64(step.GroupNo), int64(step.From), step.Limit)
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
			if _, err := t.exec(ctx, sqlAskCancel, now.UnixMicro(), word(request), keyArg(r.Key)); err != nil {
				return 0, fmt.Errorf("ask for the cancel of run %s: %w", r.Key, err)
			}
			t.noteRun(cancelRequested, &r.Run)
		}
	}
	for _, r := range over {
		t.noteRun(runEnded, &r.Run)
	}
	return len(rows), endRows(ctx, t, over, now)
}

// settleGroups makes what ends of runs make of their groups.
func settleGroups(ctx context.Context, t tx, rows []*openRow, now time.Time) error {
	return dialect.SettleGroups(ctx, queries{t}, len(rows), func(i int) *schedule.Run { return &rows[i].Run }, now)
}
