package tables

import (
	"context"
	"fmt"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Uses of limits that go to another run, or that are not all freed.
const (
	// sqlPassUse leaves the use with its run, which frees it, unless the next one is open.
	sqlPassUse = `UPDATE limit_uses SET used_by = $4 WHERE used_by = $1 AND limit_no = $2 AND limit_key = $3
	AND EXISTS (SELECT 1 FROM open_runs o WHERE o.idempotency_key = $4)`
	sqlFreeUse = `DELETE FROM limit_uses WHERE used_by = $1 AND limit_key = $3 AND limit_no IN (SELECT l.limit_no FROM limits l WHERE l.limit_id = $2)`
)

// writeUses writes what admitted runs use, and the rates of their starts.
func (d *Dialect) writeUses(ctx context.Context, q Queries, queueNo int32, out *ledger.Dispatched) error {
	if err := d.takeUses(ctx, q, out.Uses); err != nil {
		return err
	}
	for _, s := range out.Starts {
		if _, err := q.Exec(ctx, sqlSetLimitStart, s.LimitNo, s.Key, s.Next); err != nil {
			return fmt.Errorf("write the rate of limit %d: %w", s.LimitNo, err)
		}
	}
	if !out.NextStart.IsZero() {
		if _, err := q.Exec(ctx, sqlSetQueueStart, queueNo, out.NextStart); err != nil {
			return fmt.Errorf("write the rate of queue %d: %w", queueNo, err)
		}
	}
	return nil
}

func (d *Dialect) takeUses(ctx context.Context, q Queries, uses []ledger.LimitUse) error {
	if len(uses) == 0 {
		return nil
	}
	var nos []int32
	var keys, users []string
	for _, u := range uses {
		nos, keys, users = append(nos, u.LimitNo), append(keys, u.Key), append(users, u.UsedBy.String())
	}
	if _, err := q.Exec(ctx, d.TakeUses, Rows{nos, keys, users}); err != nil {
		return fmt.Errorf("write uses of limits: %w", err)
	}
	return nil
}

// FreeUses deletes what runs use that are not in flight any more: they have ended, or wait again. run
// is the i-th of n.
func (d *Dialect) FreeUses(ctx context.Context, q Queries, n int, run func(i int) *schedule.Run) error {
	var users []schedule.Key
	var calls []Call
	for i := range n {
		r := run(i)
		if r.Queue.Limits == "" {
			continue
		}
		freed, all := ledger.FreedUses(r)
		if all {
			users = append(users, r.Key)
		}
		for _, ref := range freed {
			calls = append(calls, Call{sqlFreeUse, []any{r.Key, ref.ID, ref.Key}})
		}
	}
	if len(users) > 0 {
		if _, err := q.Exec(ctx, d.FreeLimitUses, users); err != nil {
			return fmt.Errorf("free limits: %w", err)
		}
	}
	if len(calls) == 0 {
		return nil
	}
	if err := q.ExecAll(ctx, calls); err != nil {
		return fmt.Errorf("free the limits that runs do not keep: %w", err)
	}
	return nil
}

// KeepUses decides which uses of the ended runs go to the runs that follow them, and notes it in
// these, before they are inserted. runs returns the i-th of n ended ones with the next one, or nil.
func (d *Dialect) KeepUses(ctx context.Context, q Queries, n int, runs func(i int) (ended, next *schedule.Run)) ([]ledger.UsePass, error) {
	var keys []schedule.Key
	follows := make(map[schedule.Key]*schedule.Run)
	for i := range n {
		if ended, next := runs(i); ledger.MayPassUses(ended, next) {
			keys = append(keys, ended.Key)
			follows[ended.Key] = next
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	uses, err := collect(ctx, q, func(u *ledger.HeldUse) []any {
		return []any{&u.UsedBy, &u.LimitNo, &u.Key, &u.LimitID, &u.Ordered}
	}, d.HeldUses, keys)
	if err != nil {
		return nil, fmt.Errorf("read the limits of ended runs: %w", err)
	}
	return ledger.PassUses(uses, func(ended schedule.Key) *schedule.Run { return follows[ended] }), nil
}

// SettleUses gives uses of ended runs to the runs that follow, once these are inserted, and frees the
// rest. run is the i-th of n ended ones.
func (d *Dialect) SettleUses(ctx context.Context, q Queries, passes []ledger.UsePass, n int, run func(i int) *schedule.Run) error {
	if err := passUses(ctx, q, passes); err != nil {
		return err
	}
	return d.FreeUses(ctx, q, n, run)
}

func passUses(ctx context.Context, q Queries, passes []ledger.UsePass) error {
	calls := make([]Call, len(passes))
	for i, p := range passes {
		calls[i] = Call{sqlPassUse, []any{p.UsedBy, p.LimitNo, p.Key, p.To}}
	}
	if len(calls) == 0 {
		return nil
	}
	if err := q.ExecAll(ctx, calls); err != nil {
		return fmt.Errorf("leave limits to the next attempts: %w", err)
	}
	return nil
}
