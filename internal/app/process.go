package app

import (
	"context"
	"time"

	"github.com/carillon/carillon/internal/logthrottle"
	"github.com/carillon/carillon/internal/schedule"
)

const (
	// processEvery is how often a process notes that it runs. It must be well below
	// the minute within which `worker list` shows a process.
	processEvery = 10 * time.Second
	// processTimeout bounds one note, also the last at the end of the process.
	processTimeout = time.Second
)

// noteProcess keeps this process on the list of running ones until ctx ends,
// with its version and roles, so that a rolling upgrade can be watched.
func (a *App) noteProcess(ctx context.Context) {
	self := schedule.ProcessSeen{ProcessID: a.id, Host: thisHost(), Version: a.version, Roles: a.cfg.Roles, StartedAt: a.store.Now()}
	quiet := logthrottle.New(a.log.With("component", "process"))
	ticker := time.NewTicker(processEvery)
	defer ticker.Stop()
	for {
		note, cancel := context.WithTimeout(ctx, processTimeout)
		err := a.store.NoteProcess(note, self)
		cancel()
		if err != nil && ctx.Err() == nil {
			quiet.Warn("cannot write this process to the list of processes", err)
		}
		select {
		case <-ctx.Done():
			forget, cancel := context.WithTimeout(context.WithoutCancel(ctx), processTimeout)
			_ = a.store.ForgetProcess(forget, a.id) // it is off the list in a minute anyway
			cancel()
			return
		case <-ticker.C:
		}
	}
}
