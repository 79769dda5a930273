package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Flights reads when runs of exclusive policies were in flight; see worker.FireStore.
func (s *Store) Flights(ctx context.Context, req ledger.FlightsRequest) (flights []ledger.Flight, err error) {
	err = pgx.BeginTxFunc(ctx, s.pool, loading, func(tx pgx.Tx) error {
		var (
			key                 []byte
			overlapKey          string
			launched, completed time.Time
		)
		flights = nil
		return each(ctx, tx, []any{&key, &overlapKey, &launched, &completed}, func() error {
			flights = append(flights, ledger.Flight{Key: schedule.Key(key), OverlapKey: overlapKey, Launched: launched.UTC(), Completed: completed.UTC()})
			return nil
		}, sqlFlights, req.From, req.Until, req.First, req.Last, req.Limit)
	})
	if err != nil {
		return nil, fmt.Errorf("read flights: %w", err)
	}
	return flights, nil
}
