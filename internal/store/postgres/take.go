package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/ledger"
)

// Take looks at consumers; see worker.FireStore. Rows that publishers have locked are passed over.
func (s *Store) Take(ctx context.Context, req ledger.TakeRequest) (taken ledger.Taken, err error) {
	err = s.fenced(ctx, req.Term, func(tx pgx.Tx) error {
		taken, err = dialect.Take(ctx, queries{tx}, &req)
		return err
	})
	if err != nil {
		return ledger.Taken{}, fmt.Errorf("take events: %w", err)
	}
	return taken, nil
}
