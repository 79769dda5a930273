package peers

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon/carillon/internal/test/bench/database"
	"github.com/carillon/carillon/internal/test/bench/proc"
	"github.com/carillon/carillon/internal/test/bench/record"
)

// GraphileVersion is the one that graphile/package.json pins: the newest that
// runs on Node 20.
const GraphileVersion = "0.17.3"

// graphileFiles are our part of a Node program that runs graphile-worker.
//
//go:embed graphile/package.json graphile/package-lock.json graphile/worker.js
var graphileFiles embed.FS

// ErrAbsent says that a peer cannot run on this machine.
var ErrAbsent = errors.New("cannot run here")

// GraphilePreset is graphile-worker's own configuration, by its own names;
// zeros are its defaults.
type GraphilePreset struct {
	ConcurrentJobs        int         `json:"concurrentJobs,omitempty"`
	MaxPoolSize           int         `json:"maxPoolSize,omitempty"`
	PollInterval          int         `json:"pollInterval,omitempty"` // ms
	LocalQueue            *LocalQueue `json:"localQueue,omitempty"`
	CompleteJobBatchDelay *int        `json:"completeJobBatchDelay,omitempty"` // ms; nil: each by itself
	FailJobBatchDelay     *int        `json:"failJobBatchDelay,omitempty"`
}

// LocalQueue is the number of jobs fetched at once.
type LocalQueue struct {
	Size int `json:"size"`
}

// GraphileOptions are what the Node program is started with.
type GraphileOptions struct {
	DatabaseURL string
	Preset      GraphilePreset
}

// GraphileDefault is what its documentation shows.
func GraphileDefault() GraphilePreset { return GraphilePreset{} }

// GraphileTuned are the fastest settings found on such a machine: 500 jobs fetched at
// once, 24 concurrent, completions in batches, poll every 10 ms.
func GraphileTuned() GraphilePreset {
	atOnce := 0
	return GraphilePreset{
		ConcurrentJobs: 24, MaxPoolSize: 26, PollInterval: 10, LocalQueue: &LocalQueue{Size: 500},
		CompleteJobBatchDelay: &atOnce, FailJobBatchDelay: &atOnce,
	}
}

// InstallGraphile has npm put the pinned packages into a folder, the first time.
// No script of a package runs.
func InstallGraphile(ctx context.Context, folder string) error {
	if _, err := exec.LookPath("node"); err != nil {
		return fmt.Errorf("graphile-worker %w: it needs Node 20 or newer (node is not in PATH)", ErrAbsent)
	}
	sum := sha256.New()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"package.json", "package-lock.json", "worker.js"} {
		text, err := graphileFiles.ReadFile("graphile/" + name)
		if err != nil {
			return err
		}
		if name != "worker.js" {
			sum.Write(text)
		}
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			return err
		}
	}
	mark := filepath.Join(folder, "node_modules", ".installed-"+hex.EncodeToString(sum.Sum(nil)[:8]))
	if _, err := os.Stat(mark); err == nil {
		return nil
	}
	fmt.Fprintln(os.Stderr, "bench: installing graphile-worker", GraphileVersion, "into", folder)
	npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	npm.Dir, npm.Stdout, npm.Stderr = folder, os.Stderr, os.Stderr
	if err := npm.Run(); err != nil {
		return fmt.Errorf("graphile-worker %w: npm ci in %s: %w", ErrAbsent, folder, err)
	}
	return os.WriteFile(mark, nil, 0o644)
}

// NewGraphile starts graphile-worker, which InstallGraphile has put into the
// folder, on a fresh database.
func NewGraphile(ctx context.Context, serverURL, name, folder string, preset GraphilePreset, watch bool) (p *Peer, err error) {
	p = &Peer{settled: graphileSettled, ends: graphileEnds}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if p.db, err = database.Create(ctx, serverURL, name); err != nil {
		return p, err
	}
	if watch {
		if err := p.db.Watch(ctx); err != nil {
			return p, err
		}
	}
	if p.scheduler, err = proc.StartForeign("graphile-worker", folder, "node", "worker.js"); err != nil {
		return p, err
	}
	return p, p.scheduler.Call("Part.Start", GraphileOptions{DatabaseURL: p.db.URL, Preset: preset}, &proc.None{})
}

// A job that has succeeded is deleted, and nothing says when.
const (
	graphileLeft = `SELECT count(*) FROM graphile_worker._private_jobs j JOIN graphile_worker._private_tasks t ON t.id = j.task_id
		WHERE t.identifier = 'slot' AND j.run_at >= $1 AND j.run_at <= $2`
	graphileEnds = `SELECT CASE WHEN last_error IS NOT NULL THEN 'failed' WHEN locked_at IS NOT NULL THEN 'locked' ELSE 'waiting' END, count(*)
		FROM graphile_worker._private_jobs WHERE run_at >= $1 AND run_at <= $2 GROUP BY 1`
)

func graphileSettled(ctx context.Context, pool *pgxpool.Pool, work record.Work) (n int, last time.Time, err error) {
	var left int
	err = pool.QueryRow(ctx, graphileLeft, work.First, work.Last()).Scan(&left)
	return work.Slots() - left, last, err
}
