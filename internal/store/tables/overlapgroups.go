package tables

import (
	"context"
	"fmt"

	"github.com/carillon/carillon/internal/schedule"
)

// OverlapKeys are the overlap keys of living schedules with policy coalesce, as
// user_id/overlap_key, in order.
func (t *Tables) OverlapKeys(ctx context.Context, f schedule.OverlapKeyFilter) (keys []string, err error) {
	keys, err = collect(ctx, t.read, func(key *string) []any { return []any{key} }, t.dialect.OverlapKeys, f.UserID, f.After, schedule.PageSize(f.Limit))
	if err != nil {
		return nil, fmt.Errorf("list overlap keys: %w", err)
	}
	return keys, nil
}

// SchedulesOfOverlap returns up to limit living schedules with an overlap key, by schedule_id.
func (t *Tables) SchedulesOfOverlap(ctx context.Context, overlapKey string, limit int) (ids []string, err error) {
	if ids, err = collect(ctx, t.read, func(id *string) []any { return []any{id} }, sqlSchedulesOfOverlap, overlapKey, limit); err != nil {
		return nil, fmt.Errorf("look for schedules with overlap key %s: %w", schedule.Quote(overlapKey), err)
	}
	return ids, nil
}

// OpenOfOverlap are the open runs of an overlap key that are in flight, wait for it, or are due.
func (t *Tables) OpenOfOverlap(ctx context.Context, ask schedule.OpenAsk) ([]schedule.Key, error) {
	return openOfOverlap(ctx, t.read, &ask)
}

func openOfOverlap(ctx context.Context, q Queries, ask *schedule.OpenAsk) ([]schedule.Key, error) {
	keys, err := collect(ctx, q, func(key *schedule.Key) []any { return []any{key} }, sqlOpenOfOverlap, ask.OverlapKey, ask.DueBy, ask.Limit)
	if err != nil {
		return nil, fmt.Errorf("read the open runs of overlap key %s: %w", schedule.Quote(ask.OverlapKey), err)
	}
	return keys, nil
}
