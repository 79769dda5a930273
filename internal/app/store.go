package app

import (
	"context"
	"time"

	"github.com/carillon/carillon/internal/heartbeat"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/dispatch"
	"github.com/carillon/carillon/launcher/executor/local"
	"github.com/carillon/carillon/launcher/launchqueue"
	"github.com/carillon/carillon/launcher/presence"
	"github.com/carillon/carillon/launcher/workflow"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/registrar/alert"
	"github.com/carillon/carillon/schema"
	"github.com/carillon/carillon/worker"
	"github.com/carillon/carillon/worker/leader"
)

// Store is all that the roles need of one database.
type Store interface {
	worker.PlanStore
	worker.FireStore
	worker.BackfillStore
	worker.Waker
	leader.LeaseStore
	leader.Roster
	leader.TermStore
	heartbeat.Store
	launcher.Store
	presence.Store
	workflow.Versions
	workflow.AccessStore
	launchqueue.Store
	dispatch.Store
	registrar.ScheduleStore
	registrar.FleetStore
	registrar.RunStore
	registrar.OutcomeStore
	registrar.BackfillStore
	registrar.WorkflowStore
	registrar.ShareStore
	registrar.AuditStore
	registrar.GrantStore
	registrar.QueueStore
	registrar.LimitStore
	registrar.JobGroupStore
	registrar.OverlapStore
	registrar.EnqueueStore
	registrar.CopyStore
	registrar.ReservationStore
	registrar.EventStore
	registrar.OutboxStore
	registrar.SendStore
	alert.ExpectationStore
	alert.Ledger
	alert.Outbox
	registrar.LogStore
	local.LogStore

	// Lag is what should have been claimed and planned by now, over all shards.
	Lag(ctx context.Context, now time.Time) (schedule.Lag, error)
	// Upkeep is what background work has left undone, over all shards.
	Upkeep(ctx context.Context, now time.Time) (schedule.Upkeep, error)
	// OrphanUses counts uses of limits by runs that are not in flight.
	OrphanUses(ctx context.Context) (int, error)
	// EndedTwice counts the runs that this process ended although history had their end.
	EndedTwice() uint64
	// PruneRunLogs deletes up to limit parts of logs that were written before; 0:
	// none is left.
	PruneRunLogs(ctx context.Context, before time.Time, limit int) (int, error)
	// PruneRunResults deletes up to limit results of runs that expire before now; 0:
	// none is left.
	PruneRunResults(ctx context.Context, now time.Time, limit int) (int, error)
	Migrate(ctx context.Context, progress ...schema.Progress) (applied int, err error)
	MigrateDown(ctx context.Context) error
	CheckSchema(ctx context.Context) error
	// EnterSchema is CheckSchema for a process that starts. register records its first
	// heartbeat.
	EnterSchema(ctx context.Context, register func(context.Context) error) error
	Ping(ctx context.Context) error
	Now() time.Time
	MeasureClock(ctx context.Context) (skew time.Duration, err error)
	Close() error
}

// closeTimeout bounds the wait for calls that are still under way in the store.
const closeTimeout = time.Second

// closeStore does not let a database that does not answer hold up the end.
func (a *App) closeStore() error {
	closed := make(chan error, 1)
	go func() { closed <- a.store.Close() }()
	timeout := time.NewTimer(closeTimeout)
	defer timeout.Stop()
	select {
	case err := <-closed:
		return err
	case <-timeout.C:
		a.log.Warn("store not closed: calls are still in progress")
		return nil
	}
}
