package sqlite

import (
	"context"
	"fmt"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Flights reads when runs of exclusive policies were in flight; see worker.FireStore.
func (s *Store) Flights(ctx context.Context, req ledger.FlightsRequest) (flights []ledger.Flight, err error) {
	err = s.readers.query(ctx, sqlFlights, func(scan scan) error {
		var (
			k                   key
			launched, completed instant
			f                   ledger.Flight
		)
		err := scan(&k, &f.OverlapKey, &launched, &completed)
		f.Key, f.Launched, f.Completed = schedule.Key(k), launched.Time, completed.Time
		flights = append(flights, f)
		return err
	}, req.From.UnixMicro(), req.Until.UnixMicro(), req.First, req.Last, req.Limit)
	if err != nil {
		return nil, fmt.Errorf("read flights: %w", err)
	}
	return flights, nil
}
