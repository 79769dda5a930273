package local

import (
	"context"

	"github.com/carillon/carillon/internal/schedule"
)

// LogStore keeps what steps write where every process of the deployment can read
// it.
type LogStore interface {
	// AppendRunLog adds parts to a run's log and removes others of it. A part that
	// is there stays as it is, so that an append may be repeated.
	AppendRunLog(ctx context.Context, a schedule.RunLogAppend) error
}
