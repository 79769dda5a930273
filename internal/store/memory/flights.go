package memory

import (
	"context"
	"slices"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Flights reads when runs of exclusive policies were in flight.
func (s *Store) Flights(ctx context.Context, req ledger.FlightsRequest) (flights []ledger.Flight, err error) {
	err = s.read(ctx, func() error {
		var ended []*schedule.Run
		for _, r := range s.runs {
			bucket := schedule.Bucket(r.OverlapKey)
			if r.Status.Terminal() && !r.UpdatedAt.Before(at(req.From)) && r.UpdatedAt.Before(at(req.Until)) && req.First <= bucket && bucket <= req.Last &&
				r.Exclusive && r.Deliveries == 1 && !r.LaunchedAt.IsZero() {
				ended = append(ended, r)
			}
		}
		slices.SortFunc(ended, func(a, b *schedule.Run) int { return a.UpdatedAt.Compare(b.UpdatedAt) })
		for _, r := range ended[:min(len(ended), req.Limit)] {
			flights = append(flights, ledger.Flight{Key: r.Key, OverlapKey: r.OverlapKey, Launched: r.LaunchedAt, Completed: r.CompletedAt})
		}
		return nil
	})
	return flights, err
}
