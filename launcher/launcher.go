package launcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/batch"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/tracing"
)

// Config has the launcher's settings.
type Config struct {
	CallTimeout  time.Duration // of one executor call; default 10 s
	MaxCalls     int           // executor calls open at once; default 2,000
	Feedback     bool          // the executor reports; false: accepted is SUCCESS(accepted)
	PublicURL    string        // where reports go; "" sends no report_url
	ReportSecret []byte        // signs report tokens
	RequireGrant bool          // REQUIRE_GRANT: a run without an execution grant is SKIPPED(grant_denied)
	KeepResults  time.Duration // how long results are kept after the end; default 7 days
}

// checkLife is how long a check of pause, deletion, cancel and grant is valid.
const checkLife = time.Second

// CheckAhead is how long before fire_at an armed run is checked and recorded at
// the earliest. A burst needs the time. The rest of checkLife is how late its
// calls may be without another check. A pause that begins within CheckAhead may
// or may not stop the run (docs/foresight.md).
const CheckAhead = checkLife * 3 / 4

// storeTimeout bounds one call of the store.
const storeTimeout = 5 * time.Second

// maxBatch caps the keys of one store transaction.
const maxBatch = 1000

// Options has the parts of a Launcher.
type Options struct {
	Store     Store
	Workflows WorkflowStore
	Executor  Executor
	Permit    Permit // checks graph runs; nil: all are permitted and have no owner
	// Latest returns the newest version of a workflow that an owner may run, or
	// schedule.ErrNotFound. It is for graph runs without a version. nil: they are
	// sent without version and DAG.
	Latest func(ctx context.Context, userID, workflowID string) (int32, error)
	// Presence: without a lock no call begins. nil: only leases protect keys.
	Presence Presence
	Now      func() time.Time // default time.Now
	Logger   *slog.Logger     // default slog.Default
	Metrics  *Metrics         // default: not registered
	// EndedLate hears of each answer with an end after another end of the run. Optional.
	EndedLate func()
	Tracer    *tracing.Tracer // nil: no tracing
	// Spread returns a duration in [0, below). It keeps leases from ending together
	// and waiting calls from retrying together. Default: random.
	Spread func(key schedule.Key, below time.Duration) time.Duration
	Config Config
}

// Launcher starts runs, each with one effect.
type Launcher struct {
	store     Store
	workflows WorkflowStore
	executor  Executor
	presence  Presence
	permit    Permit
	latest    func(ctx context.Context, userID, workflowID string) (int32, error)
	now       func() time.Time
	log       *slog.Logger
	metrics   *Metrics
	endedLate func()
	tracer    *tracing.Tracer
	cfg       Config
	begins    *batch.Queue[*start]
	finishes  *batch.Queue[*start]
	releases  *batch.Batcher[schedule.KeyRelease, struct{}]
	renewer   *leaseRenewer
	loads     *deadlines // for loading a DAG
	deadlines *deadlines // for executor calls
	timers    *timers
	limiter   *limiter
}

// New returns a Launcher with these parts.
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
	if o.Presence == nil {
		o.Presence = unproven{}
	}
	if o.EndedLate == nil {
		o.EndedLate = func() {}
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
	if o.Config.KeepResults <= 0 {
		o.Config.KeepResults = 7 * 24 * time.Hour
	}
	l := &Launcher{
		store: o.Store, workflows: o.Workflows, executor: o.Executor, presence: o.Presence, permit: o.Permit, latest: o.Latest, now: o.Now,
		log: o.Logger.With("component", "launcher"), metrics: o.Metrics, endedLate: o.EndedLate, tracer: o.Tracer, cfg: o.Config,
	}
	l.limiter = newLimiter(o.Config.MaxCalls, o.Metrics)
	l.loads = &deadlines{after: min(storeTimeout, o.Config.CallTimeout)}
	l.deadlines = &deadlines{after: o.Config.CallTimeout}
	l.timers = &timers{now: o.Now, at: make(map[int64]*timer)}
	l.begins = batch.NewQueue(maxBatch, l.beginAll)
	l.finishes = batch.NewQueue(maxBatch, l.finishAll)
	l.releases = batch.New(maxBatch, l.releaseAll)
	l.renewer = &leaseRenewer{
		store: o.Store, now: o.Now, log: l.log, lost: l.metrics.leasesLost.Inc, open: make(map[*lease]bool),
		spread: o.Spread,
		// All steps are bounded: the call begins within checkLife; asking by key,
		// loading, the call and recording its outcome have timeouts.
		maxOpen: checkLife + o.Config.CallTimeout + 2*storeTimeout,
	}
	return l
}

// errPanicked is the error of starts that a bug has ended. They may be sent again.
var errPanicked = errors.New("internal error; see the log of the launcher")

// guard returns the error of a call, errPanicked if it panics.
func (l *Launcher) guard(call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			l.log.Error("start panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = errPanicked
		}
	}()
	return call()
}

// Lease is the length of the lease of a key whose call begins now, for a sender that records
// the call itself.
func (l *Launcher) Lease(key schedule.Key) time.Duration {
	return leaseFor + l.renewer.spread(key, leaseSpread)
}

// MoveKeys is called when this process has lost the presence lock of the number from
// and holds that of to. It moves the keys of open calls that nobody has taken over.
// Where that fails, the lease still protects the key.
func (l *Launcher) MoveKeys(ctx context.Context, from, to int32) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	for keys := range slices.Chunk(l.renewer.heldBy(from), maxBatch) {
		moved, err := l.store.MoveKeys(ctx, schedule.KeyMove{Keys: keys, From: from, To: to})
		if err != nil {
			l.log.Warn("cannot move the keys of open calls to this process's new number; their leases still protect them", "keys", len(keys), "err", err)
			return
		}
		l.renewer.moved(moved, from, to)
		if len(moved) < len(keys) {
			l.log.Warn("other processes took over keys of open calls while the presence lock was lost", "keys", len(keys)-len(moved))
		}
	}
}
