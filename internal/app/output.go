package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/output"
	registrarapi "github.com/carillon/carillon/registrar/api"
)

// checkOutput checks the settings for the output of runs.
func (c *Config) checkOutput() error {
	var problems []error
	for name, text := range map[string]string{"LOG_URL_TEMPLATE": c.LogURLTemplate, "TRACE_URL_TEMPLATE": c.TraceURLTemplate} {
		if _, err := registrarapi.ParseLinkTemplate(text); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
		}
	}
	if _, err := output.NewMasker(c.LogMask); err != nil {
		problems = append(problems, fmt.Errorf("LOG_MASK: %w", err))
	}
	if c.ResultRetentionDays > c.RetentionDays {
		problems = append(problems, fmt.Errorf("RESULT_RETENTION_DAYS: %d is more than RETENTION_DAYS (%d): a result is not kept longer than its run", c.ResultRetentionDays, c.RetentionDays))
	}
	return errors.Join(problems...)
}

// links must be called after Validate.
func (c *Config) links() registrarapi.Links {
	logs, _ := registrarapi.ParseLinkTemplate(c.LogURLTemplate)
	traces, _ := registrarapi.ParseLinkTemplate(c.TraceURLTemplate)
	return registrarapi.Links{Log: logs, Trace: traces}
}

// mask masks secrets in the output of runs: known forms, LOG_MASK and the secrets of this process. It
// must be called after Validate.
func (c *Config) mask() *output.Masker {
	m, _ := output.NewMasker(c.LogMask)
	return m.With(c.secrets()...)
}

func (c *Config) logRetention() time.Duration {
	return time.Duration(min(c.LogRetentionDays, c.RetentionDays)) * 24 * time.Hour
}

func (c *Config) resultRetention() time.Duration {
	return time.Duration(c.ResultRetentionDays) * 24 * time.Hour
}

const (
	pruneLogsEvery = 10 * time.Minute
	pruneLogsBatch = 500 // rows, of up to 64 KiB each
)

// pruneLogs removes output older than LOG_RETENTION_DAYS, and results that have expired. Every worker
// does it, because deleting twice is harmless.
func (a *App) pruneLogs(ctx context.Context) {
	if !a.cfg.Has("worker") {
		return
	}
	ticker := time.NewTicker(pruneLogsEvery)
	defer ticker.Stop()
	for {
		a.pruneLogsOnce(ctx)
		a.pruneResultsOnce(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (a *App) pruneLogsOnce(ctx context.Context) {
	before := a.store.Now().Add(-a.cfg.logRetention())
	a.pruneAll(ctx, "output of runs", before, a.store.PruneRunLogs)
}

func (a *App) pruneResultsOnce(ctx context.Context) {
	a.pruneAll(ctx, "results of runs", a.store.Now(), a.store.PruneRunResults)
}

func (a *App) pruneAll(ctx context.Context, what string, before time.Time, portion func(context.Context, time.Time, int) (int, error)) {
	total := 0
	for ctx.Err() == nil {
		n, err := portion(ctx, before, pruneLogsBatch)
		if err != nil && ctx.Err() == nil {
			a.log.Warn("cannot prune", "what", what, "err", err)
		}
		total += n
		if err != nil || n == 0 {
			break
		}
	}
	if total > 0 {
		a.log.Info("pruned", "what", what, "rows", total, "before", before)
	}
}
