package worker

import (
	"context"

	"github.com/carillon/carillon/internal/schedule"
)

// Launcher starts claimed runs; the launcher in this process meets it, and the
// gRPC client of one elsewhere.
type Launcher interface {
	// Start answers a definite outcome, or an error: the outcome is unknown and
	// the same key may be sent again.
	Start(ctx context.Context, req schedule.StartRequest) (schedule.StartReply, error)
	// Cancel answers whether the run surely does not run, or not any more.
	Cancel(ctx context.Context, req schedule.CancelRequest) (confirmed bool, err error)
}
