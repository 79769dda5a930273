package tables

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Unique keys of runs in queues.
const (
	uniqueColumns = `u.queue_no, u.hash, u.user_id, u.unique_key, u.run_key, u.scope, u.first_at, u.until, u.replaced, u.fire_by`
	sqlUniqueOf   = `SELECT ` + uniqueColumns + ` FROM queue_uniques u WHERE u.run_key = $1`
	sqlPutUnique  = `INSERT INTO queue_uniques (queue_no, hash, user_id, unique_key, run_key, scope, first_at, until, replaced, fire_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (queue_no, hash) DO UPDATE SET run_key = excluded.run_key, scope = excluded.scope, first_at = excluded.first_at, until = excluded.until,
	replaced = excluded.replaced, fire_by = excluded.fire_by`
	// The run has the key no more if another entry has taken it.
	sqlPassUnique = `UPDATE queue_uniques SET run_key = $4 WHERE queue_no = $1 AND hash = $2 AND run_key = $3`
	sqlFreeUnique = `DELETE FROM queue_uniques WHERE queue_no = $1 AND hash = $2 AND run_key = $3`

	sqlPruneUniques = `DELETE FROM queue_uniques WHERE (queue_no, hash) IN (
	SELECT queue_no, hash FROM queue_uniques WHERE until < $1 ORDER BY until LIMIT $2)`
)

// uniqueLocks is how many locks the keys share: a batch may have thousands of keys, and each lock
// takes shared memory of the database.
const uniqueLocks = 256

func uniqueFields(h *schedule.UniqueHold) []any {
	return []any{&h.QueueNo, &h.Hash, &h.UserID, &h.Key, &h.RunKey, &h.Scope, &h.FirstAt, &h.Until, &h.Replaced, &h.FireBy}
}

// lockUniques reads the keys of a request with the runs that hold them. A transaction takes a key
// under its lock, and frees one when it ends the run, with the row of the run locked. So the row is
// locked here before it is known whether the key still names the run: the key of an open run cannot
// have changed, and that of another run is read again.
func (d *Dialect) lockUniques(ctx context.Context, q Queries, queueNo int32, hashes []schedule.Key) (map[schedule.Key]schedule.UniqueFact, error) {
	if d.LockUniques != "" {
		locks := make([]int32, len(hashes))
		for i, hash := range hashes {
			locks[i] = int32(binary.BigEndian.Uint32(hash[:]) % uniqueLocks)
		}
		slices.Sort(locks)
		if _, err := q.Exec(ctx, d.LockUniques, Rows{slices.Compact(locks)}); err != nil {
			return nil, fmt.Errorf("lock unique keys: %w", err)
		}
	}
	holds, err := d.uniques(ctx, q, queueNo, hashes)
	if err != nil || len(holds) == 0 {
		return nil, err
	}
	keys := make([]schedule.Key, 0, len(holds))
	for i := range holds {
		keys = append(keys, holds[i].RunKey)
	}
	open, err := d.LockOpen(ctx, q, keys)
	if err != nil {
		return nil, fmt.Errorf("lock the runs of unique keys: %w", err)
	}
	facts := make(map[schedule.Key]schedule.UniqueFact, len(holds))
	for i := range holds {
		facts[holds[i].Hash] = schedule.UniqueFact{UniqueHold: holds[i], Run: open[holds[i].RunKey]}
	}
	if len(open) == len(holds) || d.LockUniques == "" {
		return facts, nil
	}
	if holds, err = d.uniques(ctx, q, queueNo, hashes); err != nil {
		return nil, err
	}
	if len(holds) != len(facts) {
		return nil, errEnqueued
	}
	for i := range holds {
		if facts[holds[i].Hash].RunKey != holds[i].RunKey { // a run has ended meanwhile
			return nil, errEnqueued
		}
	}
	return facts, nil
}

func (d *Dialect) uniques(ctx context.Context, q Queries, queueNo int32, hashes []schedule.Key) ([]schedule.UniqueHold, error) {
	holds, err := collect(ctx, q, uniqueFields, d.UniquesByHash, queueNo, hashes)
	if err != nil {
		return nil, fmt.Errorf("read unique keys: %w", err)
	}
	return holds, nil
}

// replacedThatDraw are those of the replaced runs that draw if their queue is fair.
func replacedThatDraw(replaced []schedule.Run) (drawing []*schedule.Run) {
	for i := range replaced {
		if ledger.NeedsDraw(&replaced[i]) {
			drawing = append(drawing, &replaced[i])
		}
	}
	return drawing
}

// writeUniques writes the keys of an entry, and the runs that it has replaced.
func (d *Dialect) writeUniques(ctx context.Context, q Queries, decided *schedule.Enqueue) error {
	for i := range decided.Replaced {
		r := &decided.Replaced[i]
		r.UpdatedAt = decided.Now
		n, err := d.WriteQueued(ctx, q, r)
		if err == nil && n == 0 {
			err = ledger.ErrAdmitted
		}
		if err != nil {
			return fmt.Errorf("replace run %s: %w", r.Key, err)
		}
	}
	if len(decided.Replaced) > 0 {
		d.WakeQueues(q)
	}
	calls := make([]Call, len(decided.Uniques))
	for i := range decided.Uniques {
		h := &decided.Uniques[i]
		calls[i] = Call{sqlPutUnique, []any{h.QueueNo, h.Hash, h.UserID, h.Key, h.RunKey, string(h.Scope), h.FirstAt, h.Until, h.Replaced, h.FireBy}}
	}
	if err := q.ExecAll(ctx, calls); err != nil {
		return fmt.Errorf("write unique keys: %w", err)
	}
	return nil
}

// UniquesOf are the unique keys that ended runs hold. ended is the i-th of n.
func (d *Dialect) UniquesOf(ctx context.Context, q Queries, n int, ended func(i int) *schedule.Run) ([]schedule.UniqueHold, error) {
	keys := make([]schedule.Key, 0, n)
	for i := range n {
		if r := ended(i); r.IsJob() { // slots have none
			keys = append(keys, r.Key)
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	holds, err := collect(ctx, q, uniqueFields, d.UniquesOfRuns, keys)
	if err != nil {
		return nil, fmt.Errorf("read the unique keys of ended runs: %w", err)
	}
	return holds, nil
}

// SettleUniques frees the unique keys of runs that have ended, or gives them to the runs that follow.
// ended is the i-th of n.
func (d *Dialect) SettleUniques(ctx context.Context, q Queries, holds []schedule.UniqueHold, n int, ended func(i int) *schedule.Run) error {
	if len(holds) == 0 {
		return nil
	}
	byKey := make(map[schedule.Key]*schedule.Run, n)
	for i := range n {
		r := ended(i)
		byKey[r.Key] = r
	}
	var calls []Call
	for i := range holds {
		h := &holds[i]
		if byKey[h.RunKey] == nil { // history had its end: the first one has settled the key
			continue
		}
		after, keeps := ledger.UniqueAfter(*h, byKey[h.RunKey])
		switch {
		case !keeps:
			calls = append(calls, Call{sqlFreeUnique, []any{h.QueueNo, h.Hash, h.RunKey}})
		case after.RunKey != h.RunKey:
			calls = append(calls, Call{sqlPassUnique, []any{h.QueueNo, h.Hash, h.RunKey, after.RunKey}})
		}
	}
	if err := q.ExecAll(ctx, calls); err != nil {
		return fmt.Errorf("free unique keys: %w", err)
	}
	return nil
}

// UniqueOf is the unique key that a run holds; nil: none.
func (t *Tables) UniqueOf(ctx context.Context, key schedule.Key) (*schedule.UniqueHold, error) {
	found, err := collect(ctx, t.read, uniqueFields, sqlUniqueOf, key)
	if err != nil {
		return nil, fmt.Errorf("unique key of run %s: %w", key, err)
	}
	if len(found) == 0 {
		return nil, nil
	}
	return &found[0], nil
}

// PruneUniques deletes up to limit keys of scope period that are free.
func PruneUniques(ctx context.Context, q Queries, now time.Time, limit int) (int, error) {
	n, err := q.Exec(ctx, sqlPruneUniques, now.Add(-uniqueMargin), limit)
	if err != nil {
		return 0, fmt.Errorf("prune unique keys: %w", err)
	}
	return n, nil
}

// uniqueMargin is how much longer a key is kept: the clock of who asks may be late.
const uniqueMargin = time.Minute
