package leader_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/internal/test/services/leaks"
	"github.com/carillon/carillon/internal/test/services/migrated"
	"github.com/carillon/carillon/worker/leader"
	"github.com/carillon/carillon/worker/leader/solo"
)

func TestMain(m *testing.M) { leaks.Main(m) }

var quiet = slog.New(slog.DiscardHandler)

// town is a store with several processes that share its shards out.
type town struct {
	*testing.T
	store   *sqlite.Store
	path    string
	shards  int
	trusted []atomic.Int64 // how many trust a term of each shard

	mu   sync.Mutex
	free map[int]time.Time // since when nobody leads a shard
	gap  time.Duration     // the longest that anyone had to wait for a leader
	all  []*process
}

func inTown(t *testing.T, shards int, test func(*town)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := migrated.SQLite(t, filepath.Join(t.TempDir(), "carillon.db"))
		store, err := sqlite.Open(t.Context(), "sqlite:"+path, sqlite.Options{Logger: quiet, MaxConns: 1})
		if err != nil {
			t.Fatal(err)
		}
		town := &town{T: t, store: store, path: path, shards: shards, trusted: make([]atomic.Int64, shards), free: make(map[int]time.Time)}
		// Also after t.Fatal: a bubble that ends before its goroutines panics.
		defer func() {
			for _, p := range town.all {
				p.stop()
			}
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}()
		test(town)
	})
}

// process is one worker: an elector for each shard, a balancer, a heartbeat.
type process struct {
	leader.LeaseStore
	id        string
	led       atomic.Int64
	terms     atomic.Int64 // won so far
	ill       atomic.Bool  // lives, but cannot lead
	unhealthy atomic.Bool  // could lead, but its launches would fail
	dead      atomic.Bool
	stop      func()
}

// Resign is where a killed process does nothing.
func (p *process) Resign(ctx context.Context, term schedule.Term, r schedule.Resignation) error {
	if p.dead.Load() {
		return errors.New("killed")
	}
	return p.LeaseStore.Resign(ctx, term, r)
}

func (p *process) mayLead() error {
	if p.ill.Load() {
		return errors.New("must not lead")
	}
	return nil
}

func (p *process) why() string {
	if p.unhealthy.Load() {
		return "no launcher"
	}
	return ""
}

func (t *town) start(ill bool) *process {
	p := &process{LeaseStore: t.store, id: fmt.Sprint("p", len(t.all))}
	p.ill.Store(ill)
	return t.run(p)
}

func (t *town) startUnhealthy() *process {
	p := &process{LeaseStore: t.store, id: fmt.Sprint("p", len(t.all))}
	p.unhealthy.Store(true)
	return t.run(p)
}

func (t *town) run(p *process) *process {
	electors := make([]*leader.Elector, t.shards)
	balancer := leader.NewBalancer(leader.BalancerOptions{
		Store: t.store, Holder: p.id, Shards: t.shards, Now: t.store.Now, Logger: quiet,
		Resign: func(shard int, why schedule.TermEnd) { electors[shard].ResignBecause(why) }, Unhealthy: p.why,
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var g sync.WaitGroup
	for shard := range electors {
		electors[shard] = leader.New(leader.Options{
			Lease: p, Lock: solo.New(fmt.Sprint(t.path, ".lock.", shard), quiet), Shard: shard, Shards: t.shards, Holder: p.id,
			Now: t.store.Now, Logger: quiet, MayLead: p.mayLead, Defer: balancer.Defer(shard),
		})
		g.Go(func() {
			_ = electors[shard].Run(ctx, func(ctx, _ context.Context, term schedule.Term) error { return t.lead(ctx, p, term) })
		})
	}
	g.Go(func() { _ = balancer.Run(ctx) })
	g.Go(func() {
		for ctx.Err() == nil {
			if err := t.store.Heartbeat(ctx, schedule.Instance{ID: p.id, Roles: []string{"worker"}, Unhealthy: p.why(), StartedAt: t.store.Now()}); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	})
	p.stop = sync.OnceFunc(func() { cancel(); g.Wait() })
	t.all = append(t.all, p)
	return p
}

// end is a graceful one.
func (t *town) end(p *process) {
	p.stop()
	if err := t.store.Leave(t.Context(), p.id); err != nil {
		t.Error(err)
	}
}

// kill frees its locks, and nothing else.
func (t *town) kill(p *process) {
	p.dead.Store(true)
	p.stop()
}

func (t *town) lead(ctx context.Context, p *process, term schedule.Term) error {
	if n := t.trusted[term.Shard].Add(1); n > 1 {
		t.Errorf("%d lead shard %d", n, term.Shard)
	}
	p.led.Add(1)
	p.terms.Add(1)
	t.mu.Lock()
	if since, ok := t.free[term.Shard]; ok {
		t.gap = max(t.gap, time.Since(since))
	}
	t.mu.Unlock()
	<-ctx.Done()
	t.mu.Lock()
	t.free[term.Shard] = time.Now()
	t.mu.Unlock()
	p.led.Add(-1)
	t.trusted[term.Shard].Add(-1)
	return nil
}

// becomes waits until each process leads so many shards, and then looks
// whether it stays so.
func (t *town) becomes(within time.Duration, why string, min, max int64, of ...*process) {
	t.Helper()
	fair := func() bool {
		var sum int64
		for _, p := range of {
			n := p.led.Load()
			if n < min || n > max {
				return false
			}
			sum += n
		}
		return sum == int64(t.shards)
	}
	began := time.Now()
	for !fair() {
		if time.Since(began) > within {
			t.Fatalf("%s: not fair after %s: %s", why, within, t.led())
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("%s: %s after %s, longest without a leader %s", why, t.led(), time.Since(began), t.longestGap())
	for range 100 {
		time.Sleep(100 * time.Millisecond)
		if !fair() {
			t.Fatalf("%s: it was fair and is no more: %s", why, t.led())
		}
	}
}

func (t *town) longestGap() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.gap
}

func (t *town) led() (text string) {
	for _, p := range t.all {
		text += fmt.Sprintf("%s=%d ", p.id, p.led.Load())
	}
	return text
}

func TestShardsAreSharedOutAsWorkersComeAndGo(t *testing.T) {
	inTown(t, 8, func(town *town) {
		first := town.start(false)
		town.becomes(2*time.Second, "one starts", 8, 8, first)
		second := town.start(false)
		town.becomes(5*time.Second, "a second one joins", 4, 4, first, second)
		third := town.start(false)
		town.becomes(5*time.Second, "a third one joins", 2, 3, first, second, third)
		town.end(first)
		town.becomes(5*time.Second, "one ends", 4, 4, second, third)
		fourth := town.start(false)
		town.becomes(5*time.Second, "a fourth one joins", 2, 3, second, third, fourth)
		town.kill(second)
		town.becomes(12*time.Second, "one is killed", 4, 4, third, fourth)
		if gap := town.longestGap(); gap > time.Second {
			t.Errorf("a shard had no leader for %s, and each was handed over or freed", gap)
		}
	})
}

func TestAWorkerThatCannotLeadIsLeftAlone(t *testing.T) {
	inTown(t, 4, func(town *town) {
		well := town.start(false)
		town.becomes(2*time.Second, "one starts", 4, 4, well)
		ill := town.start(true)
		began := time.Now()
		var without time.Duration // shards that nobody led, in sum
		for time.Since(began) < 3*time.Minute {
			time.Sleep(100 * time.Millisecond)
			without += time.Duration(4-well.led.Load()) * 100 * time.Millisecond
		}
		t.Logf("shards were without a leader for %s in sum, in three minutes", without)
		if without > 15*time.Second {
			t.Errorf("shards were without a leader for %s in three minutes, for a worker that cannot lead", without)
		}
		ill.ill.Store(false)
		town.becomes(6*time.Minute, "it can lead again", 2, 2, well, ill)
	})
}

func TestOneShardNeverMoves(t *testing.T) {
	inTown(t, 1, func(town *town) {
		first := town.start(false)
		town.becomes(2*time.Second, "one starts", 1, 1, first)
		second := town.start(false)
		town.becomes(time.Second, "another one follows", 0, 1, first, second)
		if first.led.Load() != 1 {
			t.Error("the shard has moved")
		}
	})
}
