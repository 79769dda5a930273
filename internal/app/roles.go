package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/carillon/carillon/internal/app/simulate"
	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/auth/ratelimit"
	"github.com/carillon/carillon/internal/grant"
	"github.com/carillon/carillon/internal/private"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	launcherclient "github.com/carillon/carillon/launcher/client"
	"github.com/carillon/carillon/launcher/dispatch"
	"github.com/carillon/carillon/launcher/graphapi"
	"github.com/carillon/carillon/launcher/launchqueue"
	"github.com/carillon/carillon/launcher/workflow"
	"github.com/carillon/carillon/launcher/workflow/bucket"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/worker"
)

// newRegistrar is called in every process: launchers also accept reports.
func (a *App) newRegistrar(secret []byte) (*registrar.Registrar, error) {
	credit, err := a.creditGate()
	if err != nil {
		return nil, err
	}
	if err := a.readRunHooks(); err != nil {
		return nil, err
	}
	return registrar.New(registrar.Options{
		Schedules: a.store, Fleet: a.store, Runs: a.store, Logs: a.store, Outcomes: a.store, Backfills: a.store, Workflows: a.store, Shares: a.store, Mirror: a.mirror(), Grants: a.store, Queues: a.store, Entries: a.store, Copies: a.store, Limits: a.store, Events: a.store, Groups: a.store, Overlaps: a.store, Reservations: a.store, Terms: a.store, Sends: a.store, Instances: a.store, Credit: credit, Now: a.store.Now, Logger: a.log,
		Outbox: a.store, WakeOutbox: a.wakeOutbox, Webhook: a.webhook(),
		Ended:        a.runMetrics().RunReported,
		EndedLate:    a.runMetrics().EndedLate,
		Simulator:    simulate.New(a.workerConfig()),
		LimitReports: ratelimit.Reports(a.cfg.RunReportsPerS, time.Now),
		Worked:       newWorkMetrics(a.registry),
		Duplicate:    newDuplicateMetrics(a.registry),
		Config: registrar.Config{
			DefaultOverlap:      schedule.OverlapPolicy(a.cfg.DefaultOverlapPolicy),
			DefaultCatchup:      schedule.CatchupPolicy(a.cfg.DefaultCatchupPolicy),
			DefaultJitterMS:     uint32(a.cfg.DefaultJitterMS),
			RunTimeoutMS:        uint32(a.cfg.RunTimeoutMS),
			DefaultMaxInFlight:  uint32(a.cfg.DefaultMaxInFlight),
			DefaultMaxAttempts:  uint32(a.cfg.DefaultMaxAttempts),
			DefaultBackoffMS:    uint32(a.cfg.DefaultBackoffMS),
			DefaultMaxBackoffMS: uint32(a.cfg.DefaultMaxBackoffMS),
			QueuesMaxInFlight:   uint32(a.cfg.QueuesMaxInFlight),
			OwnerMaxSchedules:   a.cfg.OwnerMaxSchedules,
			OwnerMaxQueues:      a.cfg.OwnerMaxQueues,
			OwnerMaxWaiting:     a.cfg.OwnerMaxWaiting,
			OwnerMaxPending:     a.cfg.OwnerMaxPending,
			CanCancel:           a.cfg.Executor != "http" || a.cfg.ExecutorCancelURL != "",
			CancelWait:          ms(a.cfg.CancelWaitMS),
			ReportSecret:        secret,
			ReportLate:          ms(a.cfg.ReportLateMS),
			KeepResults:         a.cfg.resultRetention(),
			RequireGrant:        a.cfg.RequireGrant,
			CreditDownOpen:      a.cfg.CreditGateDown == "open",
			Retention:           a.cfg.retention(),
			Mask:                a.cfg.mask(),
		},
	}), nil
}

// buildLauncher uses the given executor, or the configured one if nil.
func (a *App) buildLauncher(reg *registrar.Registrar, secret []byte, given launcher.Executor) (err error) {
	if !a.cfg.Has("launcher") {
		return nil
	}
	if given != nil {
		a.executor = &executorRole{Executor: given}
	} else if a.executor, err = newExecutor(a.cfg, a.scheme()+a.HTTPAddr(), reg, a.store, a.log); err != nil {
		return err
	}
	a.buildPresence()
	begun := dispatch.NewBegun(a.store)
	a.launch = launcher.New(launcher.Options{
		Store: begun, Presence: a.presence, Workflows: a.workflows(), Executor: newRedacting(a.executor, &a.cfg), Latest: a.latestVersion, Permit: a.permit, Now: a.store.Now, Logger: a.log,
		Metrics: launcher.NewMetrics(a.registry, a.cfg.Executor), EndedLate: a.runMetrics().EndedLate, Tracer: a.tracer,
		Config: launcher.Config{
			CallTimeout: ms(a.cfg.ExecutorTimeoutMS), Feedback: a.cfg.ExecutorFeedback == "reports",
			PublicURL: a.publicURL(), ReportSecret: secret, RequireGrant: a.cfg.RequireGrant, MaxCalls: a.cfg.MaxCalls, KeepResults: a.cfg.resultRetention(),
		},
	})
	a.dispatcher = dispatch.New(dispatch.Options{
		Store: a.store, Begun: begun, Launcher: a.launch, Presence: a.presence, Observer: a.runMetrics(), Now: a.store.Now, Logger: a.log,
		Metrics: dispatch.NewMetrics(a.registry), MaxCalls: a.cfg.MaxCalls, RetryFor: ms(a.cfg.LaunchRetryForMS), CancelWait: ms(a.cfg.CancelWaitMS), RequireGrant: a.cfg.RequireGrant,
		Drain: a.shutdownTimeout(),
	})
	return nil
}

// permit checks the grant of a graph run. The grant's owner becomes the run's owner.
func (a *App) permit(ctx context.Context, ref schedule.GrantRef, workflowID string) (userID string, refused schedule.Reason, err error) {
	use := schedule.GrantUse{GrantID: ref.GrantID, WorkflowID: workflowID, UserID: ref.UserID, Required: a.cfg.RequireGrant}
	var g *schedule.Grant
	if ref.GrantID != "" {
		g, err = a.findGrant(ctx, ref)
	}
	switch {
	case errors.Is(err, schedule.ErrNotFound):
		g = nil
	case err != nil:
		return "", schedule.ReasonNone, err
	case g != nil:
		use.UserID = g.UserID
	}
	refused, _ = grant.Denial(g, use, a.store.Now())
	return use.UserID, refused, nil
}

func (a *App) findGrant(ctx context.Context, ref schedule.GrantRef) (*schedule.Grant, error) {
	found, err := a.store.ListGrants(ctx, schedule.GrantFilter{GrantID: ref.GrantID, UserID: ref.UserID, Now: a.store.Now(), Limit: 2})
	if err != nil {
		return nil, err
	}
	return grant.Only(found, ref.GrantID, "userId")
}

// latestVersion is the newest version that an owner may run, from the API or the bucket.
func (a *App) latestVersion(ctx context.Context, userID, workflowID string) (int32, error) {
	if a.cfg.WorkflowStore == "none" {
		return 0, schedule.ErrNotFound
	}
	return workflow.Latest(ctx, userID, workflowID, a.store, a.newestStored)
}

// newestStored is the newest version stored for this owner, without shared ones.
func (a *App) newestStored(ctx context.Context, userID, workflowID string) (newest int32, err error) {
	if a.bucket != nil {
		if newest, err = a.bucket.Latest(ctx, userID, workflowID); err != nil && !errors.Is(err, schedule.ErrNotFound) {
			return 0, err
		}
	}
	stored, err := a.store.ListWorkflows(ctx, schedule.WorkflowFilter{WorkflowID: workflowID, UserIDs: []string{userID}, Limit: 1})
	if err == nil && len(stored) > 0 {
		newest = max(newest, stored[0].Version)
	}
	if err == nil && newest == 0 {
		err = schedule.ErrNotFound
	}
	return newest, err
}

// openBucket opens the bucket of WORKFLOW_STORE=blob for launchers and registrars.
func (a *App) openBucket(ctx context.Context) (err error) {
	if a.cfg.WorkflowStore != "blob" || !a.cfg.Has("launcher") && !a.cfg.Has("registrar") {
		return nil
	}
	if a.bucket, err = bucket.Open(ctx, a.cfg.WorkflowBlobURL); err != nil {
		return fmt.Errorf("WORKFLOW_BLOB_URL: %w", err)
	}
	return nil
}

// mirror is the bucket for the registrar. Without one it must be a nil interface, not a nil *Store.
func (a *App) mirror() registrar.WorkflowMirror {
	if a.bucket == nil {
		return nil
	}
	return a.bucket
}

// graphs is the graph run API of a process with the launcher role; nil without.
func (a *App) graphs() http.Handler {
	if a.launch == nil {
		return nil
	}
	token := a.cfg.InternalAPIToken.Reveal()
	graphs := graphapi.New(graphapi.Options{
		Launcher: a.launch, Token: token, Open: token == "", MaxOpen: a.cfg.MaxCalls, Logger: a.log,
	})
	if token != "" {
		return graphs
	}
	return a.gate.Only(graphs, "", auth.Compiler, auth.Worker)
}

// dagCache bounds the DAGs in a launcher's memory, in bytes.
const dagCache = 64 << 20

// bucketMissTTL is how long a version that is missing in the bucket is not requested again: each
// request is a network call. Versions from the API are found at once.
const bucketMissTTL = 10 * time.Minute

func (a *App) workflows() launcher.WorkflowStore {
	o := workflow.Options{Versions: a.store, AccessStore: a.store, CacheBytes: dagCache}
	switch a.cfg.WorkflowStore {
	case "none":
		return workflow.None{}
	case "blob":
		o.Versions, o.Files, o.LacksFor = workflow.Fallback{First: a.bucket, Second: a.store}, a.bucket, bucketMissTTL
	case "dir":
		dir := workflow.NewDir(a.cfg.WorkflowDir)
		o.Versions, o.Files, o.FilesOnly = dir, dir, true
	}
	return workflow.NewOwned(o)
}

func (a *App) buildWorker(ctx context.Context) error {
	if !a.cfg.Has("worker") {
		return nil
	}
	launch, reach, err := a.launcherForWorker()
	if err != nil {
		return err
	}
	if err := a.checkShards(ctx); err != nil {
		return err
	}
	metrics := a.runMetrics()
	unhealthy := func() string { return a.worker.Unhealthy() } // a.worker is set below
	electors, balancer, err := a.electors(metrics, unhealthy)
	if err != nil {
		return err
	}
	a.worker = worker.New(worker.Options{
		ID: a.id, Host: thisHost(), Plans: a.store, Fires: a.store, Backfills: a.store, Launcher: launch, Reach: reach, Reached: a.launch != nil && a.queue == nil, Electors: electors, Balancer: balancer, Waker: a.store,
		Now: a.store.Now, Logger: a.log, Metrics: metrics, Tracer: a.tracer,
		Config: a.workerConfig(),
	})
	return nil
}

// workerConfig is also used by simulations.
func (a *App) workerConfig() worker.Config {
	cfg := worker.Config{
		Tick: ms(a.cfg.TickMS), Lookahead: ms(a.cfg.LookaheadMS), Grace: ms(a.cfg.MisfireGraceMS),
		MaxCatchup: a.cfg.MaxCatchupPerTick, ClaimLease: ms(a.cfg.ClaimLeaseMS), RetryFor: ms(a.cfg.LaunchRetryForMS),
		CancelWait: ms(a.cfg.CancelWaitMS), Retention: a.cfg.retention(),
		MaxLaunches: a.cfg.MaxLaunches, DrainTimeout: a.shutdownTimeout(), RequireGrant: a.cfg.RequireGrant,
		JobAttempts: a.cfg.DefaultMaxAttempts, BoundQueues: a.cfg.QueuesMaxInFlight > 0,
	}
	if !a.cfg.OnPostgres() {
		// A plan holds the only write lock of SQLite, and rows with the same due time are cheapest to
		// insert together.
		cfg.PlanAim, cfg.PlanStride = 1000, 6*time.Second
	}
	return cfg
}

// checkShards refuses a SHARDS that differs from the database. The first worker records its own.
func (a *App) checkShards(ctx context.Context) error {
	recorded, err := a.store.RecordShards(ctx, a.cfg.Shards)
	if err != nil {
		return err
	}
	if recorded != a.cfg.Shards {
		return schedule.Explain(schedule.ErrShardCount,
			"SHARDS is %d here and %d in the database; start this worker with SHARDS=%d, or change it for all with `carillon shards set %d` and restart every worker",
			a.cfg.Shards, recorded, recorded, a.cfg.Shards)
	}
	return nil
}

// launcherForWorker returns what the worker launches through, and what reports why that
// would fail.
func (a *App) launcherForWorker() (launch worker.Launcher, reach func(ctx context.Context) error, err error) {
	switch {
	case a.queue != nil:
		publisher := launchqueue.NewPublisher(a.queue, a.queueMetrics())
		return publisher, publisher.Reach, nil
	case a.launch != nil:
		return a.launch, a.mayLaunch, nil
	}
	dialing, err := a.cfg.launcherDialing()
	if err != nil {
		return nil, nil, err
	}
	client, err := launcherclient.New(a.cfg.LauncherAddr, dialing...)
	if err != nil {
		return nil, nil, fmt.Errorf("LAUNCHER_ADDR: %w", err)
	}
	a.client = client
	return client, client.Reach, nil
}

// thisHost is HOST:PID, so that operators can find the process. A worker's id is random.
func thisHost() string {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	return fmt.Sprint(name, ":", os.Getpid())
}

// reportSecret signs report tokens: REPORT_SECRET, or a random one stored in DATA_DIR so that it
// survives restarts.
func reportSecret(cfg Config) ([]byte, error) {
	if cfg.ReportSecret != "" {
		return []byte(cfg.ReportSecret.Reveal()), nil
	}
	if err := cfg.useDataDir(); err != nil {
		return nil, err
	}
	path := filepath.Join(cfg.DataDir, "report.secret")
	if err := private.File(path); err != nil {
		return nil, fmt.Errorf("restrict the permissions of the report secret: %w", err)
	}
	secret, err := os.ReadFile(path)
	if err == nil && len(secret) > 0 {
		if len(secret) < leastToken {
			return nil, fmt.Errorf("%s: has %d bytes, fewer than %d; delete the file, and the next start creates a random one", path, len(secret), leastToken)
		}
		return secret, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read report secret: %w", err)
	}
	secret = []byte(rand.Text())
	if err := os.WriteFile(path, secret, 0o600); err != nil {
		return nil, fmt.Errorf("write report secret: %w", err)
	}
	return secret, nil
}
