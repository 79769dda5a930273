package leader

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/logthrottle"
	"github.com/carillon/carillon/internal/schedule"
)

// Share is how many shards one live worker leads.
type Share struct {
	Worker string
	Shards int
}

// ShouldRelease reports whether me should release one shard. The worker with the most shards
// is paired with the one with the fewest, the second with the second last and so on. A
// worker that has at least two more than its counterpart releases one. So workers that see
// the same shares agree, and no more shards move at a time than there are workers for them.
func ShouldRelease(me string, shares []Share) bool {
	ranked := slices.Clone(shares)
	slices.SortFunc(ranked, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Shards, a.Shards), cmp.Compare(a.Worker, b.Worker))
	})
	for rich, poor := 0, len(ranked)-1; rich < poor; rich, poor = rich+1, poor-1 {
		if ranked[rich].Worker == me {
			return ranked[rich].Shards-ranked[poor].Shards >= 2
		}
	}
	return false
}

// ShouldDefer reports whether me should leave a free shard to another live worker, which
// leads fewer.
func ShouldDefer(me string, shares []Share) bool {
	mine := 0
	if i := slices.IndexFunc(shares, func(s Share) bool { return s.Worker == me }); i >= 0 {
		mine = shares[i].Shards
	}
	return slices.ContainsFunc(shares, func(s Share) bool { return s.Worker != me && s.Shards < mine })
}

// ShareStore reads which worker leads which shard, and which workers are alive.
type ShareStore interface {
	Leaders(ctx context.Context, now time.Time) ([]schedule.Leadership, error)
	Instances(ctx context.Context, within time.Duration) ([]schedule.Instance, error)
}

// BalancerOptions are a Balancer's parts.
type BalancerOptions struct {
	Store  ShareStore
	Holder string // of all electors of this process
	Shards int
	// Resign releases the shard if this process leads it; Elector.ResignBecause does that.
	Resign func(shard int, why schedule.TermEnd)
	// Unhealthy returns why this process should not lead while another worker is healthy; empty,
	// or nil: it is healthy. The health of other workers is in their heartbeats.
	Unhealthy func() string
	Now       func() time.Time
	Logger    *slog.Logger
}

// Balancer gives each live worker a fair share of the shards. A worker that leads two more
// than another resigns one and leaves it to the other. An unhealthy worker has no share
// while a healthy one lives: it resigns all its shards, one after the other. If none is
// healthy, all share as if they were, because slots must be planned. With one shard a
// healthy worker does nothing.
type Balancer struct {
	BalancerOptions
	quiet *logthrottle.Logger

	mu   sync.Mutex
	led  map[string]int       // shards of each worker, as last read
	fell map[string]time.Time // when a worker that had led shards was first seen with none

	given   map[int]schedule.Term // released shards without a new leader
	resting time.Time             // nothing is released before
	rest    time.Duration
}

const (
	// balanceEvery is how often shares are compared. One shard moves each time.
	balanceEvery = 500 * time.Millisecond
	// aliveWithin: a worker counts if it was seen within this time. One that has lost all
	// its shards does not count for as long: it may have died.
	aliveWithin = 5 * time.Second
	// heardWithin: a shard is left to a worker only if it was seen within this time, two
	// heartbeats and a bit. Otherwise it may have been killed.
	heardWithin = 2500 * time.Millisecond
	// shareLimit bounds one read of the shares.
	shareLimit = 2 * time.Second
)

// NewBalancer returns the Balancer of one process.
func NewBalancer(o BalancerOptions) *Balancer {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Logger = o.Logger.With("component", "balancer")
	return &Balancer{BalancerOptions: o, quiet: logthrottle.New(o.Logger), led: make(map[string]int), fell: make(map[string]time.Time), given: make(map[int]schedule.Term)}
}

// Run keeps the shares fair until ctx ends.
func (b *Balancer) Run(ctx context.Context) error {
	if !b.canRelease() {
		<-ctx.Done()
		return ctx.Err()
	}
	for {
		pause(ctx, balanceEvery)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if b.hasShare() {
			continue
		}
		seen, err := b.look(ctx)
		if err != nil {
			if ctx.Err() == nil {
				b.quiet.Warn("cannot read the shares", err)
			}
			continue
		}
		if shard, give := b.decide(seen, time.Now()); give {
			why := b.why(seen)
			b.Logger.Info("shard released", "shard_given", shard, "reason", string(why.Reason), "err", why.Detail)
			b.Resign(shard, why)
		}
	}
}

// canRelease reports whether the process may ever have to release a shard. A single shard is
// released for health only.
func (b *Balancer) canRelease() bool { return b.Shards > 1 || b.Unhealthy != nil }

// hasShare reports whether the process may keep its only shard now.
func (b *Balancer) hasShare() bool { return b.Shards <= 1 && b.unhealthy() == "" }

func (b *Balancer) unhealthy() string {
	if b.Unhealthy == nil {
		return ""
	}
	return b.Unhealthy()
}

func (b *Balancer) why(seen view) schedule.TermEnd {
	if seen.passed {
		return schedule.TermEnd{Reason: schedule.EndUnhealthy, Detail: b.unhealthy()}
	}
	return schedule.TermEnd{Reason: schedule.EndBalanced}
}

// Defer returns Options.Defer for the elector of a shard: it leaves a free shard to a worker
// that leads fewer, or that is healthy if this one is not. A shard whose leader died goes
// to the first worker; balance comes later.
func (b *Balancer) Defer(shard int) func(ctx context.Context) bool {
	if !b.canRelease() {
		return nil
	}
	return func(ctx context.Context) bool {
		if b.hasShare() {
			return false
		}
		ctx, cancel := context.WithTimeout(ctx, shareLimit)
		defer cancel()
		leaders, err := b.Store.Leaders(ctx, b.Now())
		if err != nil { // other workers cannot read it either
			return false
		}
		if slices.ContainsFunc(leaders, func(row schedule.Leadership) bool { return row.Shard == shard && !row.Expired }) {
			return false
		}
		seen, err := b.look(ctx)
		return err == nil && (seen.passed || ShouldDefer(b.Holder, seen.shares))
	}
}

// view is the leaders and workers at one moment.
type view struct {
	rows    map[int]schedule.Leadership
	shares  []Share
	settled bool // every shard is led by a live worker
	passed  bool // this process has no share: it is unhealthy, and another is healthy
}

func (b *Balancer) look(ctx context.Context) (view, error) {
	ctx, cancel := context.WithTimeout(ctx, shareLimit)
	defer cancel()
	now := b.Now()
	leaders, err := b.Store.Leaders(ctx, now)
	if err != nil {
		return view{}, err
	}
	instances, err := b.Store.Instances(ctx, aliveWithin)
	if err != nil {
		return view{}, err
	}
	return b.count(leaders, schedule.Workers(instances), time.Now()), nil
}

func (b *Balancer) count(leaders []schedule.Leadership, workers []schedule.Instance, now time.Time) view {
	v := view{rows: make(map[int]schedule.Leadership)}
	led := map[string]int{b.Holder: 0} // alive for certain
	silent, unhealthy := make(map[string]bool), make(map[string]bool)
	for _, w := range workers {
		led[w.ID] = 0
		silent[w.ID] = w.ID != b.Holder && b.Now().Sub(w.SeenAt) > heardWithin
		unhealthy[w.ID] = w.Unhealthy != ""
	}
	unhealthy[b.Holder] = b.unhealthy() != ""
	counted := 0
	for _, row := range leaders {
		if row.Shard >= b.Shards { // from before SHARDS was reduced
			continue
		}
		v.rows[row.Shard] = row
		if _, alive := led[row.Holder]; alive && !row.Expired {
			led[row.Holder]++
			counted++
		}
	}
	v.settled = counted == b.Shards
	fallen, healthy := b.fallen(led, now), false
	for worker, shards := range led {
		if !fallen[worker] && (shards > 0 || !silent[worker]) {
			v.shares = append(v.shares, Share{worker, shards})
			healthy = healthy || !unhealthy[worker] && !silent[worker]
		}
	}
	if healthy {
		v.shares = slices.DeleteFunc(v.shares, func(s Share) bool { return unhealthy[s.Worker] })
		v.passed = unhealthy[b.Holder]
	}
	return v
}

// fallen returns the workers that led shards a moment ago and lead none now: they may be
// dead. Balance never takes the last shard of a worker.
func (b *Balancer) fallen(led map[string]int, now time.Time) map[string]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	fallen := make(map[string]bool)
	for worker, shards := range led {
		switch {
		case worker == b.Holder:
		case shards > 0:
			delete(b.fell, worker)
		case b.led[worker] > 0:
			b.fell[worker] = now
		}
		fallen[worker] = shards == 0 && now.Sub(b.fell[worker]) < aliveWithin
	}
	maps.DeleteFunc(b.fell, func(worker string, _ time.Time) bool { _, seen := led[worker]; return !seen })
	b.led = led
	return fallen
}

// decide returns the shard to release, if any. While a released shard has no leader nothing
// moves, because no worker would be counted for it.
func (b *Balancer) decide(seen view, now time.Time) (shard int, give bool) {
	b.learn(seen, now)
	if !seen.settled || now.Before(b.resting) || !seen.passed && !ShouldRelease(b.Holder, seen.shares) {
		return 0, false
	}
	for shard := b.Shards - 1; shard >= 0; shard-- {
		if row := seen.rows[shard]; row.Holder == b.Holder && !row.Expired {
			b.given[shard] = row.Term
			return shard, true
		}
	}
	return 0, false
}

// learn checks released shards. If one came back, the worker with fewer shards lives but
// cannot lead, for instance because of a wrong clock. Then nothing is released for a while,
// longer each time.
func (b *Balancer) learn(seen view, now time.Time) {
	const first, most = 10 * time.Second, 5 * time.Minute
	for shard, term := range b.given {
		row := seen.rows[shard]
		if row.Expired || row.Epoch == term.Epoch {
			continue // no new leader yet
		}
		delete(b.given, shard)
		if row.Holder != b.Holder {
			b.rest = 0
			continue
		}
		b.rest = min(max(first, 2*b.rest), most)
		b.resting = now.Add(b.rest)
	}
}
