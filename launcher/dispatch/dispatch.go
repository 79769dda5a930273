package dispatch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/batch"
	"github.com/carillon/carillon/internal/retry"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
)

// Launcher sends runs to the executor: the launcher of this process, on a Begun.
type Launcher interface {
	StartAll(ctx context.Context, reqs []schedule.StartRequest, answer func(i int, reply schedule.StartReply, err error))
	Cancel(ctx context.Context, req schedule.CancelRequest) (confirmed bool, err error)
	Lease(key schedule.Key) time.Duration
	// Prepare builds the call of a run that a worker has fetched, or says how the run ends.
	Prepare(ctx context.Context, req schedule.StartRequest) (call launcher.Call, verdict *schedule.Outcome, err error)
}

// Presence proves to other processes that this one lives.
type Presence interface {
	Await(ctx context.Context) (no int32, err error)
}

// Observer counts runs in metrics that are the same wherever runs are settled.
type Observer interface {
	RunLaunched(run *schedule.Run, at time.Time)
	RunEnded(to schedule.Status, reason schedule.Reason, neverTaken bool)
}

// Options has the parts of a Dispatcher.
type Options struct {
	Store    Store
	Begun    *Begun
	Launcher Launcher
	Presence Presence         // nil: only leases protect keys
	Observer Observer         // optional
	Now      func() time.Time // default time.Now
	Logger   *slog.Logger     // default slog.Default
	Metrics  *Metrics         // default: not registered

	MaxCalls     int           // admitted runs without an answer; default 2,000
	RetryFor     time.Duration // how long the launch of a run is tried where its schedule does not say
	CancelWait   time.Duration // a cancel that is not confirmed within it ends the run
	RequireGrant bool
	Drain        time.Duration // how long a stop waits for open calls; default 10 s
}

// Dispatcher admits runs of queues and sends them.
type Dispatcher struct {
	Options
	log     *slog.Logger
	wake    chan struct{}
	settles *batch.Batcher[schedule.Settlement, schedule.Moved]
	backs   *batch.Batcher[putBack, bool]
	retries retry.Launches
	calls   sync.WaitGroup
	// stopping is closed when Run stops: fetches are answered without runs.
	stopping chan struct{}

	mu      sync.Mutex
	pullers []*puller      // fetches that wait, the one that has waited longest first
	open    int            // admitted or sent again, and not answered
	openOf  map[string]int // of them, by the owner of the queue
	first   int            // of the queues of the next round
	held    bool           // runs are to be sent again: the next free calls are theirs
	// deletedSince is from when on the next sweep looks into deleted queues.
	deletedSince time.Time
	nextOrphans  time.Time // when the next sweep looks for uses of limits without a run
	stalls       map[int32]stall
	// limited are the queues in which runs waited for a limit or a rate at the last visit.
	limited map[int32]bool

	// resting are queues with so much to read that a visit without an admission took long: the
	// next one waits as long. Only the loop uses it.
	resting map[int32]time.Time
}

const (
	tick         = time.Second
	busyPause    = 10 * time.Millisecond // another process admits from a queue
	sweepPause   = 50 * time.Millisecond // the least time between two sweeps for which it was woken
	slowVisit    = 20 * time.Millisecond // such as that of ten thousand limit sets
	storeTimeout = 5 * time.Second
	maxBatch     = 1000
	openCancels  = 1000
)

// New returns a Dispatcher with these parts.
func New(o Options) *Dispatcher {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	if o.MaxCalls <= 0 {
		o.MaxCalls = 2000
	}
	if o.Drain <= 0 {
		o.Drain = 10 * time.Second
	}
	d := &Dispatcher{Options: o, log: o.Logger.With("component", "dispatch"), wake: make(chan struct{}, 1), stopping: make(chan struct{}), stalls: make(map[int32]stall), limited: make(map[int32]bool), openOf: make(map[string]int), resting: make(map[int32]time.Time)}
	d.settles = batch.New(maxBatch, d.settleAll)
	d.backs = batch.New(maxBatch, d.putBackAll)
	return d
}

// Run admits and sends runs until ctx ends. Then admitted runs whose call has not begun wait
// again, and it waits up to Drain for open calls; other processes send what is left again.
func (d *Dispatcher) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { close(d.stopping) })()
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		if err := d.Store.ListenQueues(ctx, d.Wake); err != nil && ctx.Err() == nil {
			d.log.Warn("not woken by other processes any more: queues are looked at once a second", "err", err)
		}
	}()
	defer func() { <-listening }()
	measured := make(chan struct{})
	go func() { defer close(measured); d.measure(ctx) }()
	defer func() { <-measured }()
	var swept time.Time
	next := d.now()
	for ctx.Err() == nil {
		now := d.now()
		if !now.Before(next) || d.held && d.free() > 0 {
			next, swept = d.sweep(ctx, now), now
		}
		again := d.admitAll(ctx)
		woken := d.wait(ctx, min(tick, again, max(0, next.Sub(d.now()))))
		if soon := swept.Add(sweepPause); woken && soon.Before(next) {
			next = soon // a cancel or a short delay may be due
		}
	}
	d.drain()
	return nil
}

// wait returns when it was woken or the pause is over. A wake that is there already is used up,
// also without a pause: the next look is for it.
func (d *Dispatcher) wait(ctx context.Context, pause time.Duration) (woken bool) {
	select {
	case <-d.wake:
		return true
	default:
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-d.wake:
		return true
	case <-timer.C:
	}
	return false
}

// Wake has the queues looked at soon. It does not wait.
func (d *Dispatcher) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *Dispatcher) drain() {
	drained := make(chan struct{})
	go func() { d.calls.Wait(); close(drained) }()
	timeout := time.NewTimer(d.Drain)
	defer timeout.Stop()
	select {
	case <-drained:
	case <-timeout.C:
		d.log.Warn("calls of queued runs are still open at shutdown; other processes ask for them by key, or send the same keys")
	}
}

func (d *Dispatcher) now() time.Time { return d.Now().UTC().Truncate(time.Microsecond) }

func (d *Dispatcher) holder(ctx context.Context) (int32, error) {
	if d.Presence == nil {
		return 0, nil
	}
	return d.Presence.Await(ctx)
}
