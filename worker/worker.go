package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillon/carillon/internal/batch"
	"github.com/carillon/carillon/internal/schedule"
)

// Elector wins terms for the worker; *leader.Elector is one.
type Elector interface {
	// Run calls lead for every term that is won, until ctx ends. lead's ctx ends
	// when it should drain, trusted when nothing may be written any more.
	Run(ctx context.Context, lead func(ctx, trusted context.Context, term schedule.Term) error) error
}

// Waker tells the worker that there is something to claim or cancel before the
// next tick; the stores are one.
type Waker interface {
	Listen(ctx context.Context, wake func()) error
}

// Options are a Worker's parts.
type Options struct {
	ID       string // random per process start
	Plans    PlanStore
	Fires    FireStore
	Launcher Launcher
	Elector  Elector
	Waker    Waker            // optional: ticks and timers do without
	Now      func() time.Time // default time.Now
	Logger   *slog.Logger     // default slog.Default
	Metrics  *Metrics         // default: counted nowhere
	Config   Config
}

// Worker plans due slots and fires them while it leads.
type Worker struct {
	Options
	cfg  Config
	log  *slog.Logger
	wake chan struct{} // holds at most one wake-up

	startedAt time.Time
}

// storeTimeout bounds one call of the store.
const storeTimeout = 10 * time.Second

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
	return &Worker{
		Options: o, cfg: o.Config.withDefaults(), log: o.Logger.With("component", "worker"),
		wake: make(chan struct{}, 1), startedAt: o.Now(),
	}
}

// Run works until ctx ends: then it stops planning and claiming, waits for
// open launches and gives the leadership back.
func (w *Worker) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	if w.Waker != nil {
		g.Go(func() error { return w.Waker.Listen(ctx, w.Wake) })
	}
	g.Go(func() error { w.beat(ctx); return nil })
	g.Go(func() error { return w.Elector.Run(ctx, w.lead) })
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// beat says each tick that this process is alive, leading or not.
func (w *Worker) beat(ctx context.Context) {
	ticker := time.NewTicker(w.cfg.Tick)
	defer ticker.Stop()
	for {
		storeCtx, cancel := context.WithTimeout(ctx, storeTimeout)
		if err := w.Plans.Heartbeat(storeCtx, w.ID, w.startedAt); err != nil && ctx.Err() == nil {
			w.log.Warn("heartbeat not written", "err", err)
		}
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Wake makes the firing loop look at once. It never blocks.
func (w *Worker) Wake() {
	select {
	case w.wake <- struct{}{}:
	default: // one is pending already
	}
}

// term is one leadership at work.
type term struct {
	*Worker
	schedule.Term
	trusted context.Context // ends when nothing may be written any more
	log     *slog.Logger
	free    chan struct{} // one token for each launch that may still begin
	starved atomic.Bool   // a pass found no launch free
	// Cancels have places of their own: calls that hang and hold every launch
	// are just what they may be for.
	freeCancels chan struct{}
	settles     *batch.Batcher[schedule.Settlement, bool]
	cancels     *cancelLog
}

// lead is one term. It plans before it claims: what was planned too late and
// what was not planned at all are judged together.
func (w *Worker) lead(ctx, trusted context.Context, t schedule.Term) error {
	lead := &term{
		Worker: w, Term: t, trusted: trusted, log: w.log.With("epoch", t.Epoch),
		free: make(chan struct{}, w.cfg.MaxLaunches), cancels: newCancelLog(),
		freeCancels: make(chan struct{}, cancelBatch),
	}
	lead.settles = batch.New(maxBatch, lead.settleAll)
	for range w.cfg.MaxLaunches {
		lead.free <- struct{}{}
	}
	for range cancelBatch {
		lead.freeCancels <- struct{}{}
	}
	lead.tick(ctx)
	var loops errgroup.Group
	loops.Go(func() error { lead.planLoop(ctx); return nil })
	loops.Go(func() error { lead.fireLoop(ctx); return nil })
	err := loops.Wait()
	lead.drain()
	return err
}

// drain waits for open launches, a bounded time. What is still open then is
// sent again by the next leader under the same key.
func (t *term) drain() {
	timeout := time.NewTimer(t.cfg.DrainTimeout)
	defer timeout.Stop()
	for n := range t.cfg.MaxLaunches + cancelBatch {
		free := t.free
		if n >= t.cfg.MaxLaunches {
			free = t.freeCancels
		}
		select {
		case <-free:
		case <-t.trusted.Done():
			return
		case <-timeout.C:
			t.log.Warn("launches or cancels still open at the end of the term")
			return
		}
	}
}

// now is the component's clock, in the precision of the stores.
func (w *Worker) now() time.Time { return w.Now().UTC().Truncate(time.Microsecond) }

// storeContext bounds a store call of this term.
func (t *term) storeContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.trusted, storeTimeout)
}
