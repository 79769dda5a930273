package worker

import (
	"context"

	"github.com/carillon/carillon/internal/schedule"
)

// Launcher starts claimed runs: the launcher in this process, or the gRPC client of a
// remote one.
type Launcher interface {
	// Start returns a definite outcome. With an error the outcome is unknown, and the same
	// key may be sent again.
	Start(ctx context.Context, req schedule.StartRequest) (schedule.StartReply, error)
	// Cancel reports whether the run certainly does not run, or no longer.
	Cancel(ctx context.Context, req schedule.CancelRequest) (confirmed bool, err error)
}
