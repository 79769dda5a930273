package worker

import (
	"context"

	"github.com/carillon/carillon/internal/schedule"
)

// Launcher starts claimed runs: the launcher in this process, or the gRPC client of a
// remote one.
type Launcher interface {
	// StartAll starts runs and returns when each is answered. answer is called once for
	// each, as soon as its outcome is known, in any goroutine; it does not wait. With an error
	// the outcome is unknown, and the same key may be sent again.
	StartAll(ctx context.Context, reqs []schedule.StartRequest, answer func(i int, reply schedule.StartReply, err error))
	// Cancel reports whether the run certainly does not run, or no longer.
	Cancel(ctx context.Context, req schedule.CancelRequest) (confirmed bool, err error)
}
