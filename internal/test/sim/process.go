package sim

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon/carillon/internal/heartbeat"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/dispatch"
	"github.com/carillon/carillon/launcher/launchertest"
	"github.com/carillon/carillon/launcher/presence"
	"github.com/carillon/carillon/worker"
	"github.com/carillon/carillon/worker/leader"
)

// Metrics of all processes of all worlds, which nothing reads: creating them for each
// world would take longer than the world.
var (
	workerMetrics   = worker.NewMetrics(nil)
	launcherMetrics = launcher.NewMetrics(nil, "sim")
	dispatchMetrics = dispatch.NewMetrics(nil)
	quiet           = slog.New(slog.DiscardHandler)
)

// process is one start of a worker with its launcher.
type process struct {
	*caller
	ctx      context.Context
	stop     context.CancelFunc
	host     int
	sessions []*lock       // one for each shard
	done     chan struct{} // closed when it has ended

	dispatcher atomic.Pointer[dispatch.Dispatcher]
}

// host starts a worker's process again and again until the world ends.
func (w *world) host(n int) {
	for start := 0; ; start++ {
		p := w.newProcess(n, start)
		w.processes[n].Store(p)
		w.running.Go(func() {
			defer close(p.done)
			p.run()
		})
		select {
		case <-p.crashed:
			// A dead process' session ends with its connection.
			time.Sleep(p.dice.of(forProcess).span(time.Millisecond, 60*time.Millisecond))
			for _, l := range p.sessions {
				p.locks.drop(l)
			}
			p.presences.endOf(p.caller)
			p.stop()
		case <-p.done:
		case <-w.over:
			p.stop()
			<-p.done
			return
		}
		pause := time.NewTimer(p.dice.of(forProcess+1).span(100*time.Millisecond, 5*time.Second))
		select {
		case <-pause.C:
		case <-w.over:
			pause.Stop()
			return
		}
	}
}

func (w *world) newProcess(n, start int) *process {
	d := w.dice.of(forProcess + 2).of(uint64(n)).of(uint64(start))
	c := &caller{world: w, name: fmt.Sprintf("w%d.%d", n, start), dice: d, mortal: true, crashed: make(chan struct{})}
	c.skew.Store(int64(d.of(3).span(0, w.profile.maxSkew)))
	p := &process{caller: c, host: n, done: make(chan struct{})}
	for shard := range w.profile.shards {
		p.sessions = append(p.sessions, &lock{caller: c, service: w.locks, shard: shard})
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// run wires the parts as internal/app does, with calls that can fail between them, and
// runs until the process is told to end or dies.
func (p *process) run() {
	w, s := p.profile, store{p.caller}
	lives := presence.New(presence.Options{Store: presenceOf{p.caller}, Lock: presenceOf{p.caller}, ID: p.name, Now: p.now, Logger: quiet})
	begun := dispatch.NewBegun(s)
	var calls launcher.Store = s
	if w.queues > 0 {
		calls = begun
	}
	launch := launcher.New(launcher.Options{
		Store: calls, Workflows: s, Executor: executorClient{p.caller}, Presence: lives, Now: p.now, Logger: quiet, Metrics: launcherMetrics, Spread: p.spread,
		Config: launcher.Config{CallTimeout: w.callTimeout, Feedback: true, RequireGrant: w.requireGrant},
	})
	living, end := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		lives.Run(living, launch.MoveKeys)
	}()
	defer func() { end(); <-ended }()
	electors, balancer := p.electors(s)
	p.watch.knows(p.name, p.host)
	p.log.say(p.elapsed(), "%s starts", p.name)
	var backfills worker.BackfillStore
	if w.backfills {
		backfills = s
	}
	heart := heartbeat.New(heartbeat.Options{Store: s, Self: schedule.Instance{ID: p.name, Roles: []string{"worker"}}, Logger: quiet})
	var beating sync.WaitGroup
	beating.Go(func() { heart.Run(p.ctx) })
	defer beating.Wait()
	if w.queues > 0 {
		dispatcher := p.newDispatcher(s, begun, launch, lives)
		p.dispatcher.Store(dispatcher)
		beating.Go(func() { _ = dispatcher.Run(p.ctx) })
	}
	err := worker.New(worker.Options{
		ID: p.name, Plans: s, Fires: s, Backfills: backfills, Launcher: launcherClient{p.caller, launch}, Electors: electors, Balancer: balancer, Waker: s.ledger,
		Now: p.now, Logger: slog.New(defects{w: p.world}), Metrics: workerMetrics,
		Config: worker.Config{
			Tick: time.Second, Lookahead: w.lookahead, Grace: w.grace, MaxCatchup: w.maxCatchup, ClaimLease: w.lease,
			RetryFor: w.retryFor, CancelWait: w.cancelWait, MaxLaunches: w.maxLaunches, MaxWindow: w.window,
			// Not at an instant at which the worker reads the list of processes: their order
			// would vary.
			DrainTimeout: w.callTimeout + time.Millisecond,
			RequireGrant: w.requireGrant,
		},
	}).Run(p.ctx)
	p.log.say(p.elapsed(), "%s has ended: %v", p.name, err)
	if err != nil && !p.dead.Load() {
		p.violation("worker %s ended by itself: %v", p.name, err)
	}
}

// newDispatcher admits runs of queues and sends them through the launcher of the same process.
func (p *process) newDispatcher(s store, begun *dispatch.Begun, launch *launcher.Launcher, lives *presence.Presence) *dispatch.Dispatcher {
	return dispatch.New(dispatch.Options{
		Store: s, Begun: begun, Launcher: launch, Presence: lives, Observer: workerMetrics, Now: p.now, Logger: quiet, Metrics: dispatchMetrics,
		MaxCalls: p.profile.maxCalls, RetryFor: p.profile.retryFor, CancelWait: p.profile.cancelWait, RequireGrant: p.profile.requireGrant,
		Drain: p.profile.callTimeout + time.Millisecond,
	})
}

// defects is a worker's log that reports lines that must never appear as violations.
type defects struct {
	slog.Handler // nil: nothing else is kept
	w            *world
}

func (defects) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }
func (d defects) WithAttrs([]slog.Attr) slog.Handler             { return d }
func (d defects) WithGroup(string) slog.Handler                  { return d }

func (d defects) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "differs from the tables") || strings.Contains(r.Message, "refused claims") {
		line := r.Message
		r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
		d.w.violation("%s", line)
	}
	return nil
}

// electors campaign for one shard each.
func (p *process) electors(s store) (all []worker.Elector, balancer worker.Balancer) {
	electors := make([]*leader.Elector, p.profile.shards)
	b := leader.NewBalancer(leader.BalancerOptions{
		Store: s, Holder: p.name, Shards: p.profile.shards, Now: p.now, Logger: quiet,
		Resign: func(shard int, why schedule.TermEnd) { electors[shard].ResignBecause(why) },
	})
	for shard := range electors {
		electors[shard] = leader.New(leader.Options{
			Lease: s, Lock: p.sessions[shard], Shard: shard, Shards: p.profile.shards, Holder: p.name, TTL: p.profile.ttl,
			Now: p.now, Logger: quiet, Defer: b.Defer(shard),
			Jitter: func(pause time.Duration) time.Duration {
				return pause/2 + p.dice.of(forProcess+4).of(uint64(shard)).of(uint64(p.elapsed())).span(0, pause/2)
			},
		})
		all = append(all, electors[shard])
	}
	return all, b
}

// spread is some duration below another.
func (p *process) spread(key schedule.Key, below time.Duration) time.Duration {
	return p.dice.of(forProcess+5).of(idOf(key)).of(uint64(p.elapsed())).span(0, below-1)
}

// launcherClient is a worker's connection to the launcher.
type launcherClient struct {
	*caller
	launcher *launcher.Launcher
}

func (l launcherClient) StartAll(ctx context.Context, reqs []schedule.StartRequest, answer func(int, schedule.StartReply, error)) {
	launchertest.Each{Start: l.start}.StartAll(ctx, reqs, answer)
}

func (l launcherClient) start(ctx context.Context, req schedule.StartRequest) (reply schedule.StartReply, err error) {
	// Runs that are due at one instant are handed over by timers that end at
	// that instant: a part of a millisecond keeps their order.
	l.executor.handedOver(req.Key, l.elapsed())
	req.FireAt = req.FireAt.Add(l.dice.of(idOf(req.Key)).span(1, time.Millisecond))
	err = l.call(ctx, siteStart, idOf(req.Key), nil, func() (err error) {
		reply, err = l.launcher.Start(ctx, req)
		return err
	})
	return reply, err
}

func (l launcherClient) Cancel(ctx context.Context, req schedule.CancelRequest) (confirmed bool, err error) {
	err = l.call(ctx, siteCancel, idOf(req.Key), nil, func() (err error) {
		confirmed, err = l.launcher.Cancel(ctx, req)
		return err
	})
	return confirmed, err
}
