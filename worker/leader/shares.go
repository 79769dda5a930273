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

// Gives tells whether me is to give one shard up. The richest is paired with
// the poorest, the second richest with the second poorest and so on; who has
// two or more ahead of its counterpart gives one. So no more shards are on
// their way at a time than there are workers that want one, everyone who sees
// the same shares comes to the same answer, and where no two differ by two,
// nobody gives.
func Gives(me string, shares []Share) bool {
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

// Yields tells whether a free shard had better go to another than me: some
// live worker leads fewer.
func Yields(me string, shares []Share) bool {
	mine := 0
	if i := slices.IndexFunc(shares, func(s Share) bool { return s.Worker == me }); i >= 0 {
		mine = shares[i].Shards
	}
	return slices.ContainsFunc(shares, func(s Share) bool { return s.Worker != me && s.Shards < mine })
}

// ShareStore tells who leads what, and who is alive.
type ShareStore interface {
	Leaders(ctx context.Context, now time.Time) ([]schedule.Leadership, error)
	Workers(ctx context.Context, within time.Duration, now time.Time) ([]schedule.WorkerSeen, error)
}

// BalancerOptions are a Balancer's parts.
type BalancerOptions struct {
	Store  ShareStore
	Holder string // of all electors of this process
	Shards int
	// Resign gives the shard up, if this process leads it; Elector.ResignBecause
	// does.
	Resign func(shard int, why schedule.TermEnd)
	// Unfit says why this process had better not lead while another one is fit;
	// empty: it is fit, as without it. What the others are they say in their
	// heartbeats.
	Unfit  func() string
	Now    func() time.Time
	Logger *slog.Logger
}

// Balancer gives every live worker a fair share of the shards: one that leads
// two more than another resigns one, and stands back when that one is free. One
// that is unfit has no share while a fit one lives: it resigns all that it leads,
// one after the other, and stands back. Where nobody is fit all share as if they
// were, for somebody has to plan. With one shard a worker that is fit does
// nothing.
type Balancer struct {
	BalancerOptions
	quiet *logthrottle.Logger

	mu   sync.Mutex
	led  map[string]int       // as last seen
	fell map[string]time.Time // when a worker was first seen without any shard of several

	given   map[int]schedule.Term // what was given up and has no new leader yet
	resting time.Time             // nothing is given up before
	rest    time.Duration
}

const (
	// balanceEvery is how often shares are compared, and so how fast they move.
	balanceEvery = 500 * time.Millisecond
	// aliveWithin is how lately a worker was seen that is counted on, and how long
	// one that has lost all its shards is not: it may have died.
	aliveWithin = 5 * time.Second
	// heardWithin is how lately a worker was seen that a shard is left to: two
	// heartbeats, and a bit. It may have been killed.
	heardWithin = 2500 * time.Millisecond
	// shareLimit bounds one look at the shares.
	shareLimit = 2 * time.Second
)

// NewBalancer makes the Balancer of one process.
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
	if b.neverMoves() {
		<-ctx.Done()
		return ctx.Err()
	}
	for {
		pause(ctx, balanceEvery)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if b.stays() {
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

// neverMoves: one shard has no shares, and fitness is the only other reason to
// give it up.
func (b *Balancer) neverMoves() bool { return b.Shards <= 1 && b.Unfit == nil }

// stays: likewise, at this moment.
func (b *Balancer) stays() bool { return b.Shards <= 1 && b.unfit() == "" }

func (b *Balancer) unfit() string {
	if b.Unfit == nil {
		return ""
	}
	return b.Unfit()
}

func (b *Balancer) why(seen view) schedule.TermEnd {
	if seen.passed {
		return schedule.TermEnd{Reason: schedule.EndUnfit, Detail: b.unfit()}
	}
	return schedule.TermEnd{Reason: schedule.EndBalanced}
}

// Yield is Options.Yield of the elector of a shard: whether a free shard is
// left to a worker that leads fewer, or that is fit where this one is not. One whose leader has died is taken over by
// whoever is first; balance comes later.
func (b *Balancer) Yield(shard int) func(ctx context.Context) bool {
	if b.neverMoves() {
		return nil
	}
	return func(ctx context.Context) bool {
		if b.stays() {
			return false
		}
		ctx, cancel := context.WithTimeout(ctx, shareLimit)
		defer cancel()
		leaders, err := b.Store.Leaders(ctx, b.Now())
		if err != nil { // it will be the same to the others
			return false
		}
		if slices.ContainsFunc(leaders, func(row schedule.Leadership) bool { return row.Shard == shard && !row.Expired }) {
			return false
		}
		seen, err := b.look(ctx)
		return err == nil && (seen.passed || Yields(b.Holder, seen.shares))
	}
}

// view is who leads what at one moment.
type view struct {
	rows    map[int]schedule.Leadership
	shares  []Share
	settled bool // every shard is led by a live worker
	passed  bool // this process has no share: it is unfit, and another is fit
}

func (b *Balancer) look(ctx context.Context) (view, error) {
	ctx, cancel := context.WithTimeout(ctx, shareLimit)
	defer cancel()
	now := b.Now()
	leaders, err := b.Store.Leaders(ctx, now)
	if err != nil {
		return view{}, err
	}
	workers, err := b.Store.Workers(ctx, aliveWithin, now)
	if err != nil {
		return view{}, err
	}
	return b.count(leaders, workers, time.Now()), nil
}

func (b *Balancer) count(leaders []schedule.Leadership, workers []schedule.WorkerSeen, now time.Time) view {
	v := view{rows: make(map[int]schedule.Leadership)}
	led := map[string]int{b.Holder: 0} // alive for certain
	silent, unfit := make(map[string]bool), make(map[string]bool)
	for _, w := range workers {
		led[w.WorkerID] = 0
		silent[w.WorkerID] = w.WorkerID != b.Holder && b.Now().Sub(w.SeenAt) > heardWithin
		unfit[w.WorkerID] = w.Unfit != ""
	}
	unfit[b.Holder] = b.unfit() != ""
	counted := 0
	for _, row := range leaders {
		if row.Shard >= b.Shards { // of a time with more shards
			continue
		}
		v.rows[row.Shard] = row
		if _, alive := led[row.Holder]; alive && !row.Expired {
			led[row.Holder]++
			counted++
		}
	}
	v.settled = counted == b.Shards
	fallen, fit := b.fallen(led, now), false
	for worker, shards := range led {
		if !fallen[worker] && (shards > 0 || !silent[worker]) {
			v.shares = append(v.shares, Share{worker, shards})
			fit = fit || !unfit[worker] && !silent[worker]
		}
	}
	if fit {
		v.shares = slices.DeleteFunc(v.shares, func(s Share) bool { return unfit[s.Worker] })
		v.passed = unfit[b.Holder]
	}
	return v
}

// fallen are the workers that led shards a moment ago and lead none: nothing is
// left to one that may be dead. Balance never takes the last shard of a worker.
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

// decide says which shard to give up, if any. While a shard is on its way
// nothing moves: it would be counted nowhere.
func (b *Balancer) decide(seen view, now time.Time) (shard int, give bool) {
	b.learn(seen, now)
	if !seen.settled || now.Before(b.resting) || !seen.passed && !Gives(b.Holder, seen.shares) {
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

// learn sees what became of shards that were given up. One that came back was
// wanted by nobody: the worker with fewer shards lives but cannot lead, for
// instance because its clock is wrong. Then it is left alone, for longer each
// time.
func (b *Balancer) learn(seen view, now time.Time) {
	const first, most = 10 * time.Second, 5 * time.Minute
	for shard, term := range b.given {
		row := seen.rows[shard]
		if row.Expired || row.Epoch == term.Epoch {
			continue // still on its way
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
