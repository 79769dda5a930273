package storetest

import (
	"context"
	"slices"
	"testing"
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
	"github.com/carillon/carillon/worker"
	"github.com/carillon/carillon/worker/leader"
)

// QueuedRetry is what the stores of the suite are opened with, for runs in queues where neither
// their schedule nor their queue has a policy.
var QueuedRetry = schedule.QueuedRetry(3, 7_000, 20_000)

// Store is everything that the components need of a store, in one.
type Store interface {
	worker.PlanStore
	worker.FireStore
	worker.BackfillStore
	leader.LeaseStore
	leader.Roster
	leader.TermStore
	heartbeat.Store
	launcher.Store
	presence.Store
	workflow.Versions
	workflow.AccessStore
	launchqueue.Store
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
	registrar.SendStore
	alert.ExpectationStore
	alert.Ledger
	alert.Outbox
	registrar.OutboxStore
	registrar.LogStore
	local.LogStore
	dispatch.Store
	registrar.EnqueueStore
	registrar.CopyStore
	registrar.ReservationStore
	registrar.EventStore

	// Listen calls wake, with the first and the last of the hash buckets concerned
	// or with all, whenever a run was inserted by ChangeSchedules or ChangeRun, a
	// run in flight ended other than by the term that leads it, or a cancel was
	// asked for other than by a claim; several of them may come as one call, and
	// some calls may have no cause. It returns when ctx ends.
	Listen(ctx context.Context, wake func(first, last int)) error
	// Lag is what should have been claimed and planned by now, over all shards.
	Lag(ctx context.Context, now time.Time) (schedule.Lag, error)
	// PruneRunLogs deletes up to limit parts of logs that were written before; 0:
	// none is left.
	PruneRunLogs(ctx context.Context, before time.Time, limit int) (int, error)
	// PruneRunResults deletes up to limit results of runs that expire before now; 0:
	// none is left.
	PruneRunResults(ctx context.Context, now time.Time, limit int) (int, error)
	// QueueMinutes are the minutes of a queue since an instant, newest first: those of up to limit rows.
	QueueMinutes(ctx context.Context, queueNo int32, since time.Time, limit int) ([]schedule.QueueMinute, error)
	// Ping says whether the database answers.
	Ping(ctx context.Context) error
	Close() error
}

// Presences is optional for a test adapter: it takes presence locks as a process
// does.
type Presences interface {
	// HoldPresence takes the presence lock of an instance until drop is called.
	HoldPresence(ctx context.Context, no int32) (generation string, drop func(), err error)
}

// Ager is optional for a test adapter.
type Ager interface {
	// Age makes it longer ago that an instance was last seen.
	Age(ctx context.Context, id string, by time.Duration) error
}

// Poisoner is optional for a test adapter. It makes, with SQL, rows that no call of the
// store makes.
type Poisoner interface {
	// Poison makes the row of one schedule impossible to decode. It leaves its
	// schedule_id, plan_at and plan_failures as they are.
	Poison(ctx context.Context, scheduleID string) error
	// DropRevisions deletes the revisions of a schedule.
	DropRevisions(ctx context.Context, scheduleID string) error
	// DropCancelReason deletes the cancel_reason of a run.
	DropCancelReason(ctx context.Context, key schedule.Key) error
	// OrphanUse makes a use of a limit without a run or reservation.
	OrphanUse(ctx context.Context, limitID string) error
}

// Prober is optional for a test adapter: it runs SQL that both dialects know on the tables of the store,
// and returns the rows as text.
type Prober interface {
	Probe(ctx context.Context, statement string, args ...any) ([][]string, error)
}

// Run runs the whole contract. open gives an empty, migrated store and closes
// it when its test ends; it is called many times, also in parallel.
func Run(t *testing.T, open func(t testing.TB) Store, only ...string) {
	for _, topic := range topics {
		if len(only) == 0 || slices.Contains(only, topic.name) {
			topic.run(t, open)
		}
	}
}

// topic is a group of checks.
type topic struct {
	name   string
	checks []check
	shared bool // the checks keep apart by ids and share one store
}

var topics = []topic{
	{name: "basics", checks: basics},
	{name: "audit", checks: audits},
	{name: "roundtrip", checks: roundtrips},
	{name: "plan", checks: plans},
	{name: "change log", checks: changeLogs},
	{name: "load", checks: loads},
	{name: "claim", checks: claims},
	{name: "verdicts", checks: verdicts},
	{name: "claim_order", checks: sharedOrder},
	{name: "arm", checks: arms},
	{name: "reclaim", checks: reclaims},
	{name: "overlap", checks: overlaps},
	{name: "coalesce", checks: coalesces},
	{name: "overlap groups", checks: overlapGroups},
	{name: "flights", checks: flightChecks},
	{name: "settle", checks: settles},
	{name: "settle launched", checks: settlesLaunched},
	{name: "sweep", checks: sweeps},
	{name: "attempts", checks: attempts},
	{name: "keys of runs", checks: ofRuns(keys)},
	{name: "presence of runs", checks: ofRuns(presences)},
	{name: "leases of runs", checks: ofRuns(leases)},
	{name: "requests", checks: requests, shared: true},
	{name: "presence", checks: presences, shared: true},
	{name: "instances", checks: instances},
	{name: "leases", checks: leases, shared: true},
	{name: "request checks", checks: requestChecks},
	{name: "grants", checks: grants},
	{name: "queues", checks: queues},
	{name: "limits", checks: limitChecks},
	{name: "groups of runs", checks: jobGroups},
	{name: "ends of groups", checks: groupEnds},
	{name: "groups of slots", checks: slotGroupChecks},
	{name: "events", checks: eventChecks},
	{name: "commits", checks: commitChecks},
	{name: "enqueue", checks: enqueues},
	{name: "admit", checks: admits},
	{name: "changes of queued runs", checks: queuedChanges},
	{name: "admitted runs", checks: admittedRuns},
	{name: "run facts", checks: runFacts},
	{name: "slots in queues", checks: entries},
	{name: "bounds of runs", checks: boundChecks},
	{name: "put back", checks: putBacks},
	{name: "sweep of queues", checks: queueSweeps},
	{name: "queue model", checks: queueModels},
	{name: "limit uses", checks: limitUses},
	{name: "ordered limits", checks: orderedLimits},
	{name: "rates", checks: rates},
	{name: "reservations", checks: reservations},
	{name: "copies", checks: queueCopies},
	{name: "unique", checks: uniques},
	{name: "minutes", checks: minutes},
	{name: "fair queues", checks: fairs},
	{name: "pull workers", checks: pulls},
	{name: "pull queues with limits, turns and groups", checks: pullTogether},
	{name: "queue moves", checks: queueMoves},
	{name: "grants at the claim", checks: grantClaims},
	{name: "grants before the call", checks: grantBegins},
	{name: "fence", checks: fences},
	{name: "leaders", checks: leaders, shared: true},
	{name: "terms", checks: terms},
	{name: "leader terms", checks: leaderTerms},
	{name: "shard counts", checks: shardCounts},
	{name: "shards", checks: shards},
	{name: "workflows", checks: workflows, shared: true},
	{name: "workflow shares", checks: shares, shared: true},
	{name: "changes", checks: changes},
	{name: "deploys", checks: deploys},
	{name: "quotas", checks: quotas},
	{name: "expectations", checks: expectations},
	{name: "alerts", checks: alerts},
	{name: "failing", checks: failing},
	{name: "retries", checks: retries},
	{name: "snoozes", checks: snoozes},
	{name: "interruptions", checks: interruptions},
	{name: "redrive", checks: redrives},
	{name: "cancels", checks: cancels},
	{name: "webhooks", checks: webhooks},
	{name: "runs", checks: runChanges},
	{name: "run logs", checks: runLogs},
	{name: "results", checks: results},
	{name: "backfills", checks: backfills},
	{name: "lists", checks: lists},
	{name: "fleet", checks: fleet},
	{name: "prune", checks: prunes},
	{name: "templates", checks: templates},
	{name: "slots", checks: slots},
	{name: "listen", checks: listens},
	{name: "races", checks: races},
	{name: "histories", checks: histories},
}

func (topic *topic) run(t *testing.T, open func(t testing.TB) Store) {
	t.Run(topic.name, func(t *testing.T) {
		t.Parallel()
		var store Store
		if topic.shared {
			store = open(t)
		}
		for _, c := range topic.checks {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				own := store
				if own == nil {
					own = open(t)
				}
				c.run(newRig(t, own))
			})
		}
	})
}

// check is one clause of the contract: a sentence and what shows it.
type check struct {
	name string
	run  func(r *rig)
}
