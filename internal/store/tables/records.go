package tables

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Records of keys that the ledger does not have: graph runs, and starts from workers on
// another database.

// The states of a record.
const (
	inProgress = "IN_PROGRESS"
	done       = "DONE"
)

// Records reads the records of keys, and locks them where a database has row locks.
func (d *Dialect) Records(ctx context.Context, q Queries, keys []schedule.Key) (map[schedule.Key]schedule.ExecutionRequest, error) {
	found, err := collect(ctx, q, func(r *schedule.ExecutionRequest) []any {
		o := &r.Outcome
		return []any{
			&r.Key, (*schedule.Key)(&r.RequestHash), &r.Done, &r.Calls, &r.Lease.Holder, &r.Lease.Until,
			&o.Status, &o.Reason, &o.RunID, &o.TraceID, &o.ErrorCode, &o.ErrorMessage, &o.SnoozeFor,
		}
	}, d.LockRecords, keys)
	if err != nil {
		return nil, fmt.Errorf("read records of keys: %w", err)
	}
	records := make(map[schedule.Key]schedule.ExecutionRequest, len(found))
	for i := range found {
		records[found[i].Key] = found[i]
	}
	return records, nil
}

// WriteRecords writes records that were read, or that are new.
func (d *Dialect) WriteRecords(ctx context.Context, q Queries, records []schedule.ExecutionRequest, now time.Time) error {
	calls := make([]Call, len(records))
	for i := range records {
		r := &records[i]
		o, state := &r.Outcome, inProgress
		if r.Done {
			state = done
		}
		calls[i] = Call{sqlWriteRecord, []any{
			r.Key, r.RequestHash[:], state, r.Calls, r.Lease.Until, orNull(r.Lease.Holder), orNull(o.Status), orNull(o.Reason),
			orNull(o.RunID), orNull(o.TraceID), orNull(o.ErrorCode), orNull(o.ErrorMessage), now, orNull(o.SnoozeFor.Milliseconds()),
		}}
	}
	if err := q.ExecAll(ctx, calls); err != nil {
		return fmt.Errorf("write records of keys: %w", err)
	}
	return nil
}

// FinishRecords records the answers at some places of done, and returns what counts in
// finished.
func (d *Dialect) FinishRecords(ctx context.Context, q Queries, done []schedule.FinishRequest, places []int, finished []schedule.Finished, now time.Time) error {
	if len(places) == 0 {
		return nil
	}
	keys := make([]schedule.Key, len(places))
	for i, at := range places {
		keys[i] = done[at].Key
	}
	records, err := d.Records(ctx, q, keys)
	if err != nil {
		return err
	}
	for _, at := range places {
		finished[at] = schedule.Finished{Outcome: done[at].Outcome}
		if known, there := records[done[at].Key]; there {
			records[known.Key] = ledger.FinishKey(known, &done[at])
			finished[at].Outcome = records[known.Key].Outcome
		}
	}
	return d.WriteRecords(ctx, q, slices.Collect(maps.Values(records)), now)
}
