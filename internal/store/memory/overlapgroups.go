package memory

import (
	"bytes"
	"context"
	"slices"

	"github.com/carillon/carillon/internal/schedule"
)

// OverlapKeys are the overlap keys of living schedules with policy coalesce, in order.
func (s *Store) OverlapKeys(ctx context.Context, f schedule.OverlapKeyFilter) (keys []string, err error) {
	err = s.read(ctx, func() error {
		for _, row := range s.schedules {
			key := row.QualifiedOverlapKey()
			if row.Alive() && row.OverlapPolicy == schedule.OverlapCoalesce && key > f.After && (f.UserID == "" || row.UserID == f.UserID) {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		keys = slices.Compact(keys)
		keys = keys[:min(len(keys), schedule.PageSize(f.Limit))]
		return nil
	})
	return keys, err
}

// SchedulesOfOverlap returns up to limit living schedules with an overlap key, by schedule_id.
func (s *Store) SchedulesOfOverlap(ctx context.Context, overlapKey string, limit int) (ids []string, err error) {
	err = s.read(ctx, func() error {
		for id, row := range s.schedules {
			if row.Alive() && row.QualifiedOverlapKey() == overlapKey {
				ids = append(ids, id)
			}
		}
		slices.Sort(ids)
		ids = ids[:min(len(ids), limit)]
		return nil
	})
	return ids, err
}

// OpenOfOverlap are the open runs of an overlap key that are in flight, wait for it, or are due.
func (s *Store) OpenOfOverlap(ctx context.Context, ask schedule.OpenAsk) (keys []schedule.Key, err error) {
	err = s.read(ctx, func() error {
		keys = s.openOfOverlap(&ask)
		return nil
	})
	return keys, err
}

func (s *Store) openOfOverlap(ask *schedule.OpenAsk) (keys []schedule.Key) {
	for key, r := range s.runs {
		planned := r.Status == schedule.StatusPlanned && !r.Queue.In() && r.WaitingSince.IsZero()
		if r.OverlapKey == ask.OverlapKey && !r.Status.Terminal() && !r.IsJob() && (!planned || !r.FireAt.After(at(ask.DueBy))) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b schedule.Key) int { return bytes.Compare(a[:], b[:]) })
	return keys[:min(len(keys), ask.Limit)]
}
