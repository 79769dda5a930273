package launchertest

import (
	"context"
	"sync/atomic"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
)

// Null answers SUCCESS at once and counts. The zero value is ready.
type Null struct{ calls atomic.Int64 }

var _ launcher.Executor = (*Null)(nil)

// Run answers SUCCESS.
func (n *Null) Run(context.Context, launcher.Call) (schedule.Outcome, error) {
	n.calls.Add(1)
	return schedule.Outcome{Status: schedule.StatusSuccess, RunID: "null"}, nil
}

// Cancel knows no run: all have ended.
func (n *Null) Cancel(context.Context, schedule.CancelRequest) error { return schedule.ErrNotFound }

// GetByKey remembers nothing.
func (n *Null) GetByKey(context.Context, schedule.RunRef) (schedule.Outcome, error) {
	return schedule.Outcome{}, launcher.ErrUnsupported
}

// Calls is how often Run was called.
func (n *Null) Calls() int64 { return n.calls.Load() }
