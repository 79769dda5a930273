package local

import (
	"context"

	"github.com/carillon/carillon/internal/schedule"
)

// LogStore keeps the output of steps for all processes of the deployment.
type LogStore interface {
	// AppendRunLog adds parts to a run's log and removes others. An existing part is
	// kept, so an append may be repeated.
	AppendRunLog(ctx context.Context, a schedule.RunLogAppend) error
}
