package app

import (
	"context"
	"time"

	"github.com/carillon/carillon/internal/logthrottle"
	"github.com/carillon/carillon/internal/schedule"
)

const (
	// processEvery is the interval of a process's heartbeat. It must be well below the minute after
	// which `worker list` hides a process.
	processEvery = 10 * time.Second
	// processTimeout is for one heartbeat, and for the removal at shutdown.
	processTimeout = time.Second
)

// noteProcess keeps this process in the list of running processes until ctx ends, with its version and
// roles, to follow a rolling upgrade.
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
			_ = a.store.ForgetProcess(forget, a.id) // the list hides it after a minute anyway
			cancel()
			return
		case <-ticker.C:
		}
	}
}
