package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillon/carillon/internal/logthrottle"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/tracing"
)

// Elector wins terms for the worker; *leader.Elector is one.
type Elector interface {
	// Run calls lead for every term that is won, until ctx ends. lead's ctx ends
	// when it should stop planning and claiming, trusted when nothing may be
	// written any more.
	Run(ctx context.Context, lead func(ctx, trusted context.Context, term schedule.Term) error) error
}

// Waker tells the worker that there is something to claim or cancel before the
// next tick, and of which hash buckets; the stores are one. What a term writes
// itself it is not told.
type Waker interface {
	Listen(ctx context.Context, wake func(first, last int)) error
}

// Balancer keeps this process' share of the shards fair: it asks electors of
// this process to resign. It runs beside them.
type Balancer interface {
	Run(ctx context.Context) error
}

// Options are a Worker's parts.
type Options struct {
	ID    string // random per process start; the Holder of its terms
	Host  string // which process that is, for people: host:pid
	Plans PlanStore
	Fires FireStore
	// Backfills is nil where there are none.
	Backfills BackfillStore
	Launcher  Launcher
	// Reach reports why a launch would fail; nil: none would.
	Reach func(ctx context.Context) error
	// Reached: the launcher is in this process, so the worker is healthy until three
	// looks in a row say otherwise.
	Reached  bool
	Electors []Elector        // one for each shard, in their order
	Balancer Balancer         // optional: one shard needs none
	Waker    Waker            // optional: ticks and timers do without
	Now      func() time.Time // default time.Now
	Logger   *slog.Logger     // default slog.Default
	Metrics  *Metrics         // default: counted nowhere
	Tracer   *tracing.Tracer  // nil: nothing is traced
	Config   Config
}

// Worker plans due slots and fires them, for each shard that it leads. What
// its terms launch is the process' own: it goes on when a term has ended.
type Worker struct {
	Options
	cfg Config
	log *slog.Logger

	fitness  *fitness
	launches *pool
	// Cancels have places of their own: calls that hang and hold every launch
	// are just what they may be for.
	freeCancels chan struct{}
	calls       context.Context // of the launcher; ends when the process must
	ending      context.Context // ends when the process should
	open        sync.WaitGroup  // calls of the launcher
	unanswered  schedule.Unanswered

	mu        sync.Mutex
	terms     []*term // woken in this order
	startedAt time.Time
	beatAt    time.Time // when the last heartbeat was written; by this machine's clock
}

// storeTimeout bounds one call of the store.
const storeTimeout = 10 * time.Second

// The bounds of a process' farewell: of all of it, which has what is left of
// DrainTimeout, and of signing off.
const (
	leastFarewell = 100 * time.Millisecond
	leaveTimeout  = time.Second
)

// New makes a Worker of its parts.
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
		freeCancels: make(chan struct{}, cancelBatch), startedAt: o.Now(),
	}
	w.fitness = newFitness(o.Reach == nil || o.Reached, o.Metrics, w.log)
	w.launches = newPool(w.cfg.MaxLaunches)
	for range cancelBatch {
		w.freeCancels <- struct{}{}
	}
	w.Metrics.showShards(len(o.Electors))
	w.Metrics.pool(w.launches)
	return w
}

// Run works until ctx ends: then it stops planning and claiming and gives the
// leadership back at once, waits for the calls that are open, and ends.
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
		g.Go(func() error { w.fitness.watch(ctx, w.Reach); return nil })
	}
	g.Go(func() error { w.beat(ctx); return nil })
	for _, elector := range w.Electors {
		g.Go(func() error { return elector.Run(ctx, w.lead) })
	}
	err := g.Wait()
	left := max(leastFarewell, w.cfg.DrainTimeout-time.Since(<-told))
	var leaving sync.WaitGroup
	leaving.Go(func() { w.leave(ctx, min(left, leaveTimeout)) })
	w.drain(left)
	leaving.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// leave tells the others at once that this process is gone, so that its shards
// are shared out anew.
func (w *Worker) leave(ctx context.Context, bound time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bound)
	defer cancel()
	if err := w.Plans.Leave(ctx, w.ID); err != nil {
		w.log.Warn("cannot remove this worker from the list of workers; the others notice within seconds", "err", err)
	}
}

// drain waits for open calls, a bounded time. What is still open then is sent
// again by the next leader under the same key.
func (w *Worker) drain(d time.Duration) {
	if !within(&w.open, d) {
		w.log.Warn("launcher calls still open at shutdown", "after", w.cfg.DrainTimeout)
	}
}

// within waits for wg, at most d. What it leaves behind waits as long as the
// calls do, which have bounds of their own.
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

// The others count a process among the living that was heard of within silence;
// so it says that it is alive every beatEvery, however slowly it ticks.
const (
	silence   = 5 * time.Second
	beatEvery = time.Second
)

// beat says again and again that this process is alive, leading or not, and
// whether it is fit to.
func (w *Worker) beat(ctx context.Context) {
	ticker := time.NewTicker(min(w.cfg.Tick, beatEvery))
	defer ticker.Stop()
	quiet := logthrottle.New(w.log)
	for {
		storeCtx, cancel := context.WithTimeout(ctx, storeTimeout)
		err := w.Plans.Heartbeat(storeCtx, schedule.WorkerSeen{WorkerID: w.ID, Host: w.Host, Unfit: w.Unfit(), StartedAt: w.startedAt})
		cancel()
		if err == nil {
			w.mu.Lock()
			w.beatAt = time.Now()
			w.mu.Unlock()
			quiet.Recovered("heartbeats are written again")
		} else if ctx.Err() == nil {
			quiet.Warn("cannot write the heartbeat", err)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case <-w.fitness.turned:
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// Beating says why the others do not count this process among the living; nil:
// they do.
func (w *Worker) Beating(context.Context) error {
	w.mu.Lock()
	at := w.beatAt
	w.mu.Unlock()
	switch since := time.Since(at); {
	case at.IsZero():
		return errors.New("no heartbeat was written yet")
	case since > silence:
		return fmt.Errorf("no heartbeat was written for %s", since.Round(time.Second))
	}
	return nil
}

// Wake makes the firing loops of the shards that have some of these hash buckets
// look at once. It never blocks.
func (w *Worker) Wake(first, last int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.terms {
		if from, to := t.Buckets(); from <= last && first <= to {
			t.wakeUp()
		}
	}
}

// now is the component's clock, in the precision of the stores.
func (w *Worker) now() time.Time { return w.Now().UTC().Truncate(time.Microsecond) }
