package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/tracing"
)

// Elector wins terms for the worker; *leader.Elector is one.
type Elector interface {
	// Run calls lead for each term that it wins, until ctx ends. lead's ctx ends when the
	// term should stop planning and claiming, trusted when it may write nothing any more.
	Run(ctx context.Context, lead func(ctx, trusted context.Context, term schedule.Term) error) error
}

// Waker tells the worker that there is something to claim or cancel before the next tick,
// and in which hash buckets. The stores implement it. A term is not told of its own writes.
type Waker interface {
	Listen(ctx context.Context, wake func(first, last int)) error
}

// Balancer keeps this process's share of the shards fair: it asks electors of this process
// to resign.
type Balancer interface {
	Run(ctx context.Context) error
}

// Options are a Worker's parts.
type Options struct {
	ID    string // random per process start; the Holder of its terms
	Host  string // host:pid of the process, for people
	Plans PlanStore
	Fires FireStore
	// Backfills is optional: nil feeds none.
	Backfills BackfillStore
	Launcher  Launcher
	// Reach returns why a launch would fail; nil: the launcher is always reached.
	Reach func(ctx context.Context) error
	// Reached: the launcher is in this process, so the worker is healthy until
	// failureThreshold checks in a row fail.
	Reached  bool
	Electors []Elector        // one for each shard, in their order
	Balancer Balancer         // optional: one shard needs none
	Waker    Waker            // optional: without it a change waits for the next tick
	Now      func() time.Time // default time.Now
	Logger   *slog.Logger     // default slog.Default
	Metrics  *Metrics         // default: registered nowhere
	Tracer   *tracing.Tracer  // optional
	Config   Config
}

// Worker plans slots and fires them, for each shard that it leads. Launches belong to the
// process, not to a term: they continue after the term has ended.
type Worker struct {
	Options
	cfg Config
	log *slog.Logger

	health   *health
	launches *pool
	// Cancels do not use launches: calls that hang may hold all of them, and may be what
	// has to be cancelled.
	freeCancels chan struct{}
	calls       context.Context // of the launcher; ends when the process must
	ending      context.Context // ends when the process should
	open        sync.WaitGroup  // calls of the launcher

	mu    sync.Mutex
	terms []*term // woken in this order
}

// storeTimeout bounds one call of the store.
const storeTimeout = 10 * time.Second

// minShutdownTimeout is how long open calls may take after the terms, even if nothing of
// DrainTimeout is left.
const minShutdownTimeout = 100 * time.Millisecond

// livenessWindow: a process is alive if its last heartbeat is not older.
const livenessWindow = 5 * time.Second

// New returns a Worker with its defaults.
func New(o Options) *Worker {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	w := &Worker{
		Options: o, cfg: o.Config.withDefaults(), log: o.Logger.With("component", "worker"),
		freeCancels: make(chan struct{}, cancelBatch),
	}
	w.health = newHealth(o.Reach == nil || o.Reached, o.Metrics, w.log)
	w.launches = newPool(w.cfg.MaxLaunches)
	for range cancelBatch {
		w.freeCancels <- struct{}{}
	}
	w.Metrics.showShards(len(o.Electors))
	w.Metrics.pool(w.launches)
	return w
}

// Run works until ctx ends. Then it stops planning and claiming, gives its leaderships
// back at once, and waits for open calls, at most DrainTimeout.
func (w *Worker) Run(ctx context.Context) error {
	var endCalls context.CancelFunc
	w.calls, endCalls = context.WithCancel(context.WithoutCancel(ctx))
	defer endCalls()
	g, ctx := errgroup.WithContext(ctx)
	w.ending = ctx
	w.log.Info("worker started", "worker_id", w.ID, "host", w.Host)
	told := make(chan time.Time, 1)
	defer context.AfterFunc(ctx, func() { told <- time.Now() })()
	if w.Waker != nil {
		g.Go(func() error { return w.Waker.Listen(ctx, w.Wake) })
	}
	if w.Balancer != nil {
		g.Go(func() error { return w.Balancer.Run(ctx) })
	}
	if w.Reach != nil {
		g.Go(func() error { w.health.watch(ctx, w.Reach); return nil })
	}
	for _, elector := range w.Electors {
		g.Go(func() error { return elector.Run(ctx, w.lead) })
	}
	err := g.Wait()
	w.drain(max(minShutdownTimeout, w.cfg.DrainTimeout-time.Since(<-told)))
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// drain waits for open calls, at most d. The next leader sends the others again under the
// same keys.
func (w *Worker) drain(d time.Duration) {
	if !within(&w.open, d) {
		w.log.Warn("launcher calls still open at shutdown", "after", w.cfg.DrainTimeout)
	}
}

// within waits for wg, at most d. Its goroutine lives until the calls end, which have
// bounds of their own.
func within(wg *sync.WaitGroup, d time.Duration) bool {
	timeout := time.NewTimer(d)
	defer timeout.Stop()
	select {
	case <-ended(wg):
		return true
	case <-timeout.C:
		return false
	}
}

func ended(wg *sync.WaitGroup) <-chan struct{} {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	return done
}

// Wake starts a pass of the fire loops of the shards that have some of these hash buckets.
// It never blocks.
func (w *Worker) Wake(first, last int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.terms {
		if from, to := t.Buckets(); from <= last && first <= to {
			t.wakeUp()
		}
	}
}

// now returns the worker's time in the precision of the stores.
func (w *Worker) now() time.Time { return w.Now().UTC().Truncate(time.Microsecond) }
