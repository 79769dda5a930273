package launcher

import (
	"context"
	"errors"
	"fmt"

	"github.com/carillon/carillon/internal/schedule"
)

// Cancel requests the end of a run. confirmed = true: it does not run, or no
// longer. If no call of the key has begun, its run ends and every later send is
// answered with that. While a call is open or its outcome unknown, an executor that
// does not know the key confirms nothing, because the call may still arrive. The error is ErrUnsupported if the executor cannot cancel.
func (l *Launcher) Cancel(ctx context.Context, req schedule.CancelRequest) (confirmed bool, err error) {
	closed, known, err := l.store.CloseKey(ctx, req.Key, req.Reason, l.now())
	if err != nil {
		return false, fmt.Errorf("close key %s: %w", req.Key, err)
	}
	if closed {
		return true, nil
	}
	if known.Done && known.Outcome.Status.Terminal() && req.Reason != schedule.ReasonDeadline {
		// It never ran or has ended. A run past its deadline may go on at the executor.
		return known.Outcome.Status == schedule.StatusCancelled, nil
	}
	if req.RunID == "" {
		req.RunID = known.Outcome.RunID
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	switch err := l.executor.Cancel(ctx, req); {
	case err == nil:
		return true, nil
	case errors.Is(err, ErrCancelAccepted):
		return false, nil
	case errors.Is(err, schedule.ErrNotFound):
		return known.Done, nil
	default:
		return false, fmt.Errorf("cancel key %s at the executor: %w", req.Key, err)
	}
}
