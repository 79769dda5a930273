package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillon/carillon/internal/safehttp"
	"github.com/carillon/carillon/launcher"
	grpcexecutor "github.com/carillon/carillon/launcher/executor/grpc"
	httpexecutor "github.com/carillon/carillon/launcher/executor/http"
	"github.com/carillon/carillon/launcher/executor/local"
)

// executorRole is the configured executor with its background work.
type executorRole struct {
	launcher.Executor
	serve func(ctx context.Context) error // nil: nothing to run
	close func()                          // nil: nothing to free
}

func newExecutor(cfg Config, baseURL string, reports launcher.Reporter, logs local.LogStore, log *slog.Logger) (*executorRole, error) {
	switch cfg.Executor {
	case "local":
		return newLocalExecutor(cfg, baseURL, reports, logs, log)
	case "grpc":
		e, err := grpcexecutor.New(grpcexecutor.Config{Target: cfg.ExecutorURL, Token: cfg.ExecutorToken.Reveal(), Timeout: ms(cfg.ExecutorTimeoutMS), Environment: cfg.Environment})
		if err != nil {
			return nil, err
		}
		return &executorRole{Executor: e, close: func() { _ = e.Close() }}, nil
	}
	e, err := httpexecutor.New(httpexecutor.Config{
		URL: cfg.ExecutorURL, CancelURL: cfg.ExecutorCancelURL, Token: cfg.ExecutorToken.Reveal(), Timeout: ms(cfg.ExecutorTimeoutMS),
		Dialect: cfg.ExecutorDialect, Environment: cfg.Environment,
	})
	if err != nil {
		return nil, err
	}
	return &executorRole{Executor: e, close: e.Close}, nil
}

func newLocalExecutor(cfg Config, baseURL string, reports launcher.Reporter, logs local.LogStore, log *slog.Logger) (*executorRole, error) {
	egress, err := safehttp.ParsePolicy(cfg.AllowEgress)
	if err != nil {
		return nil, fmt.Errorf("ALLOW_EGRESS: %w", err)
	}
	if err := cfg.useDataDir(); err != nil {
		return nil, err
	}
	if err := local.Shield(); err != nil {
		return nil, fmt.Errorf("start the local executor: %w", err)
	}
	if os.Geteuid() == 0 && cfg.LocalExecutorUser == "" {
		log.Warn("the local executor runs commands as root, with access to all files and to the secrets of this process; set LOCAL_EXECUTOR_USER, or start carillon as another user")
	}
	e, err := local.New(local.Config{Dir: cfg.DataDir, BaseURL: baseURL, Reporter: reports, Log: log, Egress: egress, User: cfg.LocalExecutorUser, Environment: cfg.Environment, Logs: logs, Mask: cfg.mask(), ShutdownGrace: ms(cfg.ShutdownGraceMS)})
	if err != nil {
		return nil, fmt.Errorf("start the local executor: %w", err)
	}
	serve := func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return e.Serve(ctx) })
		g.Go(func() error { pruneRuns(ctx, e, cfg.retention(), log); return nil })
		return g.Wait()
	}
	return &executorRole{Executor: e, serve: serve, close: func() { _ = e.Close() }}, nil
}

// pruneEvery is the interval of removing folders of old runs.
const pruneEvery = time.Hour

// pruneRuns removes the folders of runs after the retention. Never before the ledger deletes their
// keys: without its folder a run could start again.
func pruneRuns(ctx context.Context, e *local.Executor, retention time.Duration, log *slog.Logger) {
	ticker := time.NewTicker(pruneEvery)
	defer ticker.Stop()
	for {
		if n, err := e.Prune(ctx, time.Now().Add(-retention-24*time.Hour)); err != nil && ctx.Err() == nil {
			log.Warn("cannot prune run folders", "err", err)
		} else if n > 0 {
			log.Info("run folders pruned", "folders", n)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
