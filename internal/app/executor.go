package app

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/carillon/carillon/launcher"
	grpcexecutor "github.com/carillon/carillon/launcher/executor/grpc"
	httpexecutor "github.com/carillon/carillon/launcher/executor/http"
	"github.com/carillon/carillon/launcher/executor/local"
)

// executorRole is the executor that the configuration names, with what it
// needs to run.
type executorRole struct {
	launcher.Executor
	serve func(ctx context.Context) error // nil: nothing to run
	close func()                          // nil: nothing to free
}

func newExecutor(cfg Config, baseURL string, reports launcher.Reporter, log *slog.Logger) (*executorRole, error) {
	switch cfg.Executor {
	case "local":
		return newLocalExecutor(cfg, baseURL, reports, log)
	case "grpc":
		e, err := grpcexecutor.New(grpcexecutor.Config{Target: cfg.ExecutorURL, Token: cfg.ExecutorToken, Timeout: ms(cfg.ExecutorTimeoutMS)})
		if err != nil {
			return nil, err
		}
		return &executorRole{Executor: e, close: func() { _ = e.Close() }}, nil
	}
	e, err := httpexecutor.New(httpexecutor.Config{
		URL: cfg.ExecutorURL, CancelURL: cfg.ExecutorCancelURL, Token: cfg.ExecutorToken, Timeout: ms(cfg.ExecutorTimeoutMS),
	})
	if err != nil {
		return nil, err
	}
	return &executorRole{Executor: e, close: e.Close}, nil
}

func newLocalExecutor(cfg Config, baseURL string, reports launcher.Reporter, log *slog.Logger) (*executorRole, error) {
	e, err := local.New(local.Config{Dir: cfg.DataDir, BaseURL: baseURL, Reporter: reports, Log: log})
	if err != nil {
		return nil, fmt.Errorf("start the local executor: %w", err)
	}
	return &executorRole{Executor: e, serve: e.Serve, close: func() { _ = e.Close() }}, nil
}
