package sqlite

import (
	"context"
	"fmt"

	"github.com/carillon/carillon/internal/ledger"
)

// Take looks at consumers; see worker.FireStore.
func (s *Store) Take(ctx context.Context, req ledger.TakeRequest) (taken ledger.Taken, err error) {
	err = s.write(ctx, func(ctx context.Context, t tx) error {
		if err := fence(ctx, t, req.Term); err != nil {
			return err
		}
		taken, err = dialect.Take(ctx, queries{t}, &req)
		return err
	})
	if err != nil {
		return ledger.Taken{}, fmt.Errorf("take events: %w", err)
	}
	return taken, nil
}
