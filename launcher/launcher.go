package launcher

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/carillon/carillon/internal/batch"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/tracing"
)

// Config is what an operator decides for the launcher.
type Config struct {
	CallTimeout  time.Duration // of one call of the executor; default 10 s
	MaxCalls     int           // of the executor, open at once; default 2,000
	Feedback     bool          // the executor reports; false: accepted is SUCCESS(accepted)
	PublicURL    string        // where reports go; "" sends no report_url
	ReportSecret []byte        // signs report tokens
	RequireGrant bool          // REQUIRE_GRANT: a run without an execution grant is SKIPPED(grant_denied)
}

// checkLife is how long a check of pause, deletion, cancel and grant is good.
const checkLife = time.Second

// CheckAhead is how long before fire_at an armed run is checked and recorded at
// the earliest: a herd needs the time, and what is left of checkLife is what its
// calls may be late by without another check. A pause that begins later than
// that may or may not hold the run up: docs/foresight.md says so.
const CheckAhead = checkLife * 3 / 4

// storeTimeout bounds one call of the store.
const storeTimeout = 5 * time.Second

// maxBatch is how many keys one store transaction carries.
const maxBatch = 1000

// Options are a Launcher's parts.
type Options struct {
	Store     Store
	Workflows WorkflowStore
	Executor  Executor
	Permit    Permit // of graph runs; nil: each is permitted, and nobody's
	// Latest is the newest version of a workflow that an owner may run, for graph runs
	// that name none; schedule.ErrNotFound. nil: they go without version and DAG.
	Latest  func(ctx context.Context, userID, workflowID string) (int32, error)
	Now     func() time.Time // default time.Now
	Logger  *slog.Logger     // default slog.Default
	Metrics *Metrics         // default: counted nowhere
	Tracer  *tracing.Tracer  // nil: nothing is traced
	// Spread is some duration below another, so that no two leases end together
	// and waiting calls do not come in step; default: at random.
	Spread func(key schedule.Key, below time.Duration) time.Duration
	Config Config
}

// Launcher starts runs, each once in effect.
type Launcher struct {
	store     Store
	workflows WorkflowStore
	executor  Executor
	permit    Permit
	latest    func(ctx context.Context, userID, workflowID string) (int32, error)
	now       func() time.Time
	log       *slog.Logger
	metrics   *Metrics
	tracer    *tracing.Tracer
	cfg       Config
	begins    *batch.Batcher[schedule.BeginRequest, begun]
	finishes  *batch.Batcher[schedule.FinishRequest, schedule.Outcome]
	leases    *keeper
	loads     *deadlines // of loading a DAG
	deadlines *deadlines // of calls
	gates     *gates
	calls     *calls
}

// begun is what Begin answered, and when it was asked.
type begun struct {
	schedule.BeginResult
	checkedAt time.Time
}

// New makes a Launcher of its parts.
func New(o Options) *Launcher {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil, "")
	}
	if o.Spread == nil {
		o.Spread = func(_ schedule.Key, below time.Duration) time.Duration { return rand.N(below) }
	}
	if o.Config.CallTimeout <= 0 {
		o.Config.CallTimeout = 10 * time.Second
	}
	if o.Config.MaxCalls <= 0 {
		o.Config.MaxCalls = 2000
	}
	l := &Launcher{
		store: o.Store, workflows: o.Workflows, executor: o.Executor, permit: o.Permit, latest: o.Latest, now: o.Now,
		log: o.Logger.With("component", "launcher"), metrics: o.Metrics, tracer: o.Tracer, cfg: o.Config,
	}
	l.calls = newCalls(o.Config.MaxCalls, o.Metrics)
	l.loads = &deadlines{after: min(storeTimeout, o.Config.CallTimeout)}
	l.deadlines = &deadlines{after: o.Config.CallTimeout}
	l.gates = &gates{now: o.Now, at: make(map[int64]*gate)}
	l.begins = batch.New(maxBatch, l.beginAll)
	l.finishes = batch.New(maxBatch, l.finishAll)
	l.leases = &keeper{
		store: o.Store, now: o.Now, log: l.log, lost: l.metrics.leasesLost.Inc, open: make(map[*lease]bool),
		spread: o.Spread,
		// A call begins within checkLife. It, or asking and loading before it, and
		// recording what it came to are all bounded.
		longer: checkLife + o.Config.CallTimeout + 2*storeTimeout,
	}
	return l
}

func (l *Launcher) beginAll(ctx context.Context, reqs []schedule.BeginRequest) ([]begun, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	now := l.now()
	for i := range reqs {
		reqs[i].Lease = l.leases.leaseAt(now, &reqs[i])
	}
	results, err := l.store.Begin(ctx, reqs, now)
	if err != nil {
		return nil, err
	}
	out := make([]begun, len(results))
	for i := range results {
		out[i] = begun{results[i], now}
	}
	return out, nil
}

func (l *Launcher) finishAll(ctx context.Context, done []schedule.FinishRequest) ([]schedule.Outcome, error) {
	l.gates.pass()
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return l.store.Finish(ctx, done, l.now())
}
