package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/carillon/carillon/internal/test/bench/proc"
	"github.com/carillon/carillon/internal/test/bench/record"
)

// KindRiver is the kind of child that ServeRiver is.
const KindRiver = "river"

// RiverOptions say how River is set up.
type RiverOptions struct {
	DatabaseURL  string
	LauncherAddr string // gRPC of a null launcher that the handler calls; "": the handler is the executor
	Periodic     bool   // periodic jobs; else jobs with ScheduledAt
	Cooldown     time.Duration
	Poll         time.Duration
	Workers      int  // at once
	Conns        int  // of the pool
	Watch        bool // statements are counted
}

// RiverDefault is what the documentation shows, on pgxpool's own four connections.
func RiverDefault() RiverOptions {
	return RiverOptions{Cooldown: river.FetchCooldownDefault, Poll: river.FetchPollIntervalDefault, Workers: 100, Conns: 4}
}

// RiverTuned are the fastest settings found for a burst on such a machine.
func RiverTuned() RiverOptions {
	return RiverOptions{Cooldown: time.Millisecond, Poll: 10 * time.Millisecond, Workers: 5000, Conns: 20}
}

// slotArgs are the arguments of a job: which slot it is.
type slotArgs struct {
	Slot int `json:"slot"`
}

// Kind names it to River.
func (slotArgs) Kind() string { return "slot" }

// executor is called when a job is worked.
type executor struct {
	river.WorkerDefaults[slotArgs]
	called func(ctx context.Context, slot uint64, due time.Time) error
}

// Work is the handler.
func (e *executor) Work(ctx context.Context, job *river.Job[slotArgs]) error {
	return e.called(ctx, slotOf(job.Args.Slot, job.ScheduledAt), job.ScheduledAt)
}

// probeArgs are those of a job that shows that River's leader works.
type probeArgs struct{}

// Kind names it to River.
func (probeArgs) Kind() string { return "probe" }

// River is one process with a River client; its methods answer the harness.
type River struct {
	ctx    context.Context // of the process, which net/rpc's methods do not get
	log    record.Log
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	probes chan struct{} // worked
	launch *nullClient
	o      RiverOptions
}

// ServeRiver runs River until the harness closes our input.
func ServeRiver(ctx context.Context) error {
	r := &River{ctx: ctx}
	err := proc.Serve(r)
	if r.client != nil {
		stopping, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if stopErr := r.client.StopAndCancel(stopping); stopErr != nil && !errors.Is(stopErr, context.DeadlineExceeded) {
			err = errors.Join(err, stopErr)
		}
		r.pool.Close()
	}
	if r.launch != nil {
		err = errors.Join(err, r.launch.Close())
	}
	return err
}

// Start migrates the database and starts the client.
func (r *River) Start(o RiverOptions, _ *proc.None) error {
	r.o = o
	cfg, err := pgxpool.ParseConfig(o.DatabaseURL)
	if err != nil {
		return err
	}
	cfg.MaxConns = int32(o.Conns)
	if r.pool, err = pgxpool.NewWithConfig(r.ctx, cfg); err != nil {
		return err
	}
	driver := riverpgxv5.New(r.pool)
	quiet := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(r.ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	called := r.note
	if o.LauncherAddr != "" {
		if r.launch, err = newNullClient(o.LauncherAddr); err != nil {
			return err
		}
		called = r.launch.Start
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &executor{called: called})
	r.probes = make(chan struct{}, 1)
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[probeArgs]) error {
		r.probes <- struct{}{}
		return nil
	}))
	r.client, err = river.NewClient(driver, &river.Config{
		Logger: quiet, Workers: workers, FetchCooldown: o.Cooldown, FetchPollInterval: o.Poll,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: o.Workers}},
	})
	if err != nil {
		return err
	}
	if err := r.client.Start(r.ctx); err != nil {
		return err
	}
	return r.awaitLeader()
}

func (r *River) note(_ context.Context, slot uint64, due time.Time) error {
	r.log.Note(record.Call{Slot: slot, Due: due.UnixNano(), At: time.Now().UnixNano()})
	return nil
}

// awaitLeader waits until this client leads and its services run, which begin
// one after the other, up to a second apart: only then anything is scheduled.
func (r *River) awaitLeader() error {
	construct := func() (river.JobArgs, *river.InsertOpts) { return probeArgs{}, nil }
	probe, err := r.client.PeriodicJobs().AddSafely(river.NewPeriodicJob(river.NeverSchedule(), construct, &river.PeriodicJobOpts{RunOnStart: true}))
	if err != nil {
		return err
	}
	defer r.client.PeriodicJobs().Remove(probe)
	return r.awaitProbes(1)
}

func (r *River) awaitProbes(n int) error {
	timeout := time.NewTimer(time.Minute)
	defer timeout.Stop()
	for i := range n {
		select {
		case <-r.probes:
		case <-timeout.C:
			return fmt.Errorf("%d of %d probes were worked within a minute", i, n)
		}
	}
	return nil
}

// Warm has n jobs worked and completed, which count for nothing.
func (r *River) Warm(n int, _ *proc.None) error {
	batch := make([]river.InsertManyParams, n)
	for i := range batch {
		batch[i] = river.InsertManyParams{Args: probeArgs{}}
	}
	if _, err := r.client.InsertManyFast(r.ctx, batch); err != nil {
		return err
	}
	return r.awaitProbes(n)
}

// insertBatch is how many jobs one COPY inserts.
const insertBatch = 5000

// Load has River know the slots of the work.
func (r *River) Load(work record.Work, _ *proc.None) error {
	if r.o.Periodic {
		return r.loadPeriodic(work)
	}
	batch := make([]river.InsertManyParams, 0, insertBatch)
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		_, err := r.client.InsertManyFast(r.ctx, batch)
		batch = batch[:0]
		return err
	}
	for round := range work.Rounds {
		due := work.First.Add(time.Duration(round) * time.Second)
		for i := range work.N {
			batch = append(batch, river.InsertManyParams{Args: slotArgs{i}, InsertOpts: &river.InsertOpts{ScheduledAt: due}})
			if len(batch) == insertBatch {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	return flush()
}

func (r *River) loadPeriodic(work record.Work) error {
	periodic := make([]*river.PeriodicJob, work.N)
	for i := range periodic {
		construct := func() (river.JobArgs, *river.InsertOpts) { return slotArgs{i}, nil }
		periodic[i] = river.NewPeriodicJob(instants(work), construct, nil)
	}
	_, err := r.client.PeriodicJobs().AddManySafely(periodic)
	return err
}

// Pause stops the workers.
func (r *River) Pause(proc.None, *proc.None) error { return r.client.Stop(r.ctx) }

// Resume starts them again.
func (r *River) Resume(proc.None, *proc.None) error { return r.client.Start(r.ctx) }

// Enqueue inserts n jobs that are available at once.
func (r *River) Enqueue(n int, _ *proc.None) error {
	for from := 0; from < n; from += insertBatch {
		var batch []river.InsertManyParams
		for i := from; i < min(n, from+insertBatch); i++ {
			batch = append(batch, river.InsertManyParams{Args: slotArgs{i}})
		}
		if _, err := r.client.InsertManyFast(r.ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// Called says how often the handler was called.
func (r *River) Called(_ proc.None, out *int) error {
	*out = r.log.Len()
	return nil
}

// Calls is the record of the handler.
func (r *River) Calls(_ proc.None, out *[]byte) error {
	*out = record.Encode(r.log.Calls())
	return nil
}
