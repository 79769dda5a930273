package tables

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

func backfillFields(b *schedule.Backfill) []any {
	return []any{
		&b.BackfillID, &b.ScheduleID, &b.RequestID, (*schedule.Key)(&b.RequestHash), &b.UserID, &b.Revision, &b.OverlapKey,
		&b.From, &b.To, &b.Reprocess, &b.Order, &b.OverlapPolicy, &b.Concurrency, &b.RatePerMinute, &b.Note, &b.CreatedBy,
		&b.State, &b.Reason, &b.StateNote, &b.ChangedBy, &b.Cursor, &b.NextAt, &b.Slots, &b.ToRun, &b.PassedOver, &b.Inserted,
		&b.Succeeded, &b.Failed, &b.Skipped, &b.Cancelled, &b.Open, &b.CreatedAt, &b.UpdatedAt, &b.EndedAt,
	}
}

// Backfills returns the rows of a statement.
func Backfills(ctx context.Context, q Queries, statement string, args ...any) ([]schedule.Backfill, error) {
	return collect(ctx, q, backfillFields, statement, args...)
}

// PutBackfill inserts the row, or updates its variable columns.
func (d *Dialect) PutBackfill(ctx context.Context, q Queries, b *schedule.Backfill, lookedAt time.Time) error {
	_, err := q.Exec(ctx, sqlWriteBackfill, b.BackfillID, b.ScheduleID, b.RequestID, b.RequestHash[:], b.UserID, b.Revision, b.OverlapKey,
		b.From, b.To, b.Reprocess, b.Order, b.OverlapPolicy, b.Concurrency, b.RatePerMinute, orNull(b.Note), orNull(b.CreatedBy),
		b.State, orNull(b.Reason), orNull(b.StateNote), orNull(b.ChangedBy), b.Cursor, b.NextAt, b.Slots, b.ToRun, b.PassedOver, b.Inserted,
		b.Succeeded, b.Failed, b.Skipped, b.Cancelled, b.Open, b.CreatedAt, b.UpdatedAt, b.EndedAt, schedule.Bucket(b.OverlapKey), lookedAt)
	if err != nil {
		return fmt.Errorf("write backfill %s: %w", b.BackfillID, err)
	}
	return nil
}

// counted adds unsettled runs to the counts of open backfills.
func (d *Dialect) counted(ctx context.Context, q Queries, rows []schedule.Backfill) error {
	at := make(map[string]*schedule.Backfill, len(rows))
	ids := make([]string, 0, len(rows))
	for i := range rows {
		if rows[i].Open {
			at[rows[i].BackfillID] = &rows[i]
			ids = append(ids, rows[i].BackfillID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var (
		id     string
		status schedule.Status
		reason schedule.Reason
		n      int64
	)
	return q.Each(ctx, d.BackfillCounts, []any{&id, &status, &reason, &n}, func(bad error) error {
		at[id].Count(status, reason, n)
		return bad
	}, ids)
}

// CurrentBackfill returns one backfill with its current counts, or schedule.ErrNotFound.
func (d *Dialect) CurrentBackfill(ctx context.Context, q Queries, backfillID string) (*schedule.Backfill, error) {
	rows, err := Backfills(ctx, q, d.GetBackfill, backfillID)
	if err == nil && len(rows) == 0 {
		err = schedule.ErrNotFound
	}
	if err == nil {
		err = d.counted(ctx, q, rows)
	}
	if err != nil {
		return nil, err
	}
	return &rows[0], nil
}

// GetBackfill returns one backfill with its current counts.
func (t *Tables) GetBackfill(ctx context.Context, backfillID string) (*schedule.Backfill, error) {
	b, err := t.dialect.CurrentBackfill(ctx, t.read, backfillID)
	if err != nil {
		return nil, fmt.Errorf("get backfill %s: %w", backfillID, err)
	}
	return b, nil
}

// ListBackfills returns backfills, newest first.
func (t *Tables) ListBackfills(ctx context.Context, f schedule.BackfillFilter) ([]schedule.Backfill, error) {
	f.Limit = schedule.PageSize(f.Limit)
	list := t.dialect.ListBackfills(&f)
	rows, err := Backfills(ctx, t.read, list.Statement, list.Args...)
	if err == nil {
		err = t.dialect.counted(ctx, t.read, rows)
	}
	if err != nil {
		return nil, fmt.Errorf("list backfills: %w", err)
	}
	return rows, nil
}

// SlotStates returns the state of the given slots, in their order.
func (t *Tables) SlotStates(ctx context.Context, scheduleID string, slots []time.Time) ([]schedule.SlotState, error) {
	return t.dialect.SlotStates(ctx, t.read, scheduleID, slots)
}

// SlotStates is Tables.SlotStates in a transaction.
func (d *Dialect) SlotStates(ctx context.Context, q Queries, scheduleID string, slots []time.Time) ([]schedule.SlotState, error) {
	out := make([]schedule.SlotState, len(slots))
	if len(slots) == 0 {
		return out, nil
	}
	at := make(map[int64]int, len(slots))
	for i, slot := range slots {
		at[slot.UnixMicro()] = i
	}
	var (
		runAt time.Time
		state = schedule.SlotState{Rows: true}
	)
	err := q.Each(ctx, d.ReadSlotStates, []any{&runAt, &state.OnWay, &state.Success, &state.Failed}, func(bad error) error {
		out[at[runAt.UnixMicro()]] = state
		return bad
	}, scheduleID, slots)
	if err != nil {
		return nil, fmt.Errorf("read the state of slots of %s: %w", scheduleID, err)
	}
	return out, nil
}
