package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/carillon/carillon/internal/launchqueue"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	launcherclient "github.com/carillon/carillon/launcher/client"
	"github.com/carillon/carillon/launcher/workflow"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/worker"
)

// newRegistrar is built in every process: executors report to a launcher too.
func (a *App) newRegistrar(secret []byte) *registrar.Registrar {
	return registrar.New(registrar.Options{
		Schedules: a.store, Runs: a.store, Workflows: a.store, Now: a.store.Now, Logger: a.log,
		Config: registrar.Config{
			DefaultOverlap:  schedule.OverlapPolicy(a.cfg.DefaultOverlapPolicy),
			DefaultCatchup:  schedule.CatchupPolicy(a.cfg.DefaultCatchupPolicy),
			DefaultJitterMS: uint32(a.cfg.DefaultJitterMS),
			RunTimeoutMS:    uint32(a.cfg.RunTimeoutMS),
			CanCancel:       a.cfg.Executor != "http" || a.cfg.ExecutorCancelURL != "",
			ReportSecret:    secret,
		},
	})
}

func (a *App) buildLauncher(reg *registrar.Registrar, secret []byte) (err error) {
	if !a.cfg.Has("launcher") {
		return nil
	}
	if a.executor, err = newExecutor(a.cfg, "http://"+a.HTTPAddr(), reg, a.log); err != nil {
		return err
	}
	a.launch = launcher.New(launcher.Options{
		Store: a.store, Workflows: a.workflows(), Executor: a.executor, Now: a.store.Now, Logger: a.log,
		Metrics: launcher.NewMetrics(a.registry),
		Config: launcher.Config{
			CallTimeout: ms(a.cfg.ExecutorTimeoutMS), Feedback: a.cfg.ExecutorFeedback == "reports",
			PublicURL: a.publicURL(), ReportSecret: secret,
		},
	})
	return nil
}

// dagCache is how many bytes of DAGs a launcher keeps in memory.
const dagCache = 64 << 20

func (a *App) workflows() launcher.WorkflowStore {
	switch a.cfg.WorkflowStore {
	case "none":
		return workflow.None{}
	case "dir":
		return workflow.NewCached(workflow.NewDir(a.cfg.WorkflowDir), dagCache)
	}
	return workflow.NewCached(a.store, dagCache)
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
	var unfit func() string
	if reach != nil {
		unfit = func() string { return a.worker.Unfit() } // which is built of what asks
	}
	electors, balancer, err := a.electors(metrics, unfit)
	if err != nil {
		return err
	}
	a.worker = worker.New(worker.Options{
		ID: a.id, Host: thisHost(), Plans: a.store, Fires: a.store, Launcher: launch, Reach: reach, Electors: electors, Balancer: balancer, Waker: a.store,
		Now: a.store.Now, Logger: a.log, Metrics: metrics,
		Config: worker.Config{
			Tick: ms(a.cfg.TickMS), Lookahead: ms(a.cfg.LookaheadMS), Grace: ms(a.cfg.MisfireGraceMS),
			MaxCatchup: a.cfg.MaxCatchupPerTick, ClaimLease: ms(a.cfg.ClaimLeaseMS), RetryFor: ms(a.cfg.LaunchRetryForMS),
			CancelWait: ms(a.cfg.CancelWaitMS), Retention: a.cfg.retention(),
			MaxLaunches: a.cfg.MaxLaunches, DrainTimeout: a.bound(),
		},
	})
	return nil
}

// checkShards refuses to work with another number of shards than the others.
// The first worker of a database records its own.
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

// launcherForWorker is what the worker launches through, and what tells whether
// that would arrive; nil: it always would.
func (a *App) launcherForWorker() (launch worker.Launcher, reach func(ctx context.Context) error, err error) {
	switch {
	case a.queue != nil:
		publisher := launchqueue.NewPublisher(a.queue, a.queueMetrics())
		return publisher, publisher.Reach, nil
	case a.launch != nil:
		return a.launch, nil, nil
	}
	client, err := launcherclient.New(a.cfg.LauncherAddr)
	if err != nil {
		return nil, nil, fmt.Errorf("LAUNCHER_ADDR: %w", err)
	}
	a.client = client
	return client, client.Reach, nil
}

// thisHost says which process this is: a worker's id is another one after every
// start, and means nothing to whoever looks for it on a machine.
func thisHost() string {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	return fmt.Sprint(name, ":", os.Getpid())
}

// reportSecret is what signs report tokens: the configured one, else a random
// one that is kept in DATA_DIR, so that it outlives this process.
func reportSecret(cfg Config) ([]byte, error) {
	if cfg.ReportSecret != "" {
		return []byte(cfg.ReportSecret), nil
	}
	path := filepath.Join(cfg.DataDir, "report.secret")
	secret, err := os.ReadFile(path)
	if err == nil && len(secret) > 0 {
		return secret, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read report secret: %w", err)
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("make DATA_DIR: %w", err)
	}
	secret = []byte(rand.Text())
	if err := os.WriteFile(path, secret, 0o600); err != nil {
		return nil, fmt.Errorf("keep report secret: %w", err)
	}
	return secret, nil
}
