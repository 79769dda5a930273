package local

import (
	"context"
	"time"

	"github.com/carillon/carillon/internal/output"
	"github.com/carillon/carillon/internal/schedule"
)

// RunLog is a run's log without a run.
type RunLog struct{ l *runLog }

// NewRunLog makes one.
func NewRunLog(key schedule.Key, store LogStore, now func() time.Time) RunLog {
	return RunLog{newRunLog(key, store, now)}
}

// Open begins the log of a step.
func (l RunLog) Open(step string, mask *output.Masker) StepLog { return StepLog{l.l.open(step, mask)} }

// Flush writes what came since.
func (l RunLog) Flush(ctx context.Context, all bool) error { return l.l.flush(ctx, all) }

// StepLog is the log of one step.
type StepLog struct{ l *liveLog }

// Write takes a piece of output.
func (s StepLog) Write(p []byte) { s.l.write(p) }
