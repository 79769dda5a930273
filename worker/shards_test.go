package worker_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	rules "github.com/carillon/carillon/internal/ledger" // ledger is the store of the rig
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
)

// shares is how many of the rig's shards each worker leads.
func (r *rig) shares() map[string]int {
	r.Helper()
	rows, err := r.store.Leaders(r.Context(), r.store.Now())
	if err != nil {
		r.Fatal(err)
	}
	led := make(map[string]int)
	for _, row := range rows {
		if !row.Expired {
			led[row.Holder]++
		}
	}
	return led
}

// fairly holds n workers to a fair share of the shards each.
func (r *rig) fairly(n int) {
	r.Helper()
	led, all := r.shares(), 0
	for holder, shards := range led {
		if all += shards; shards < r.shards/n || shards > (r.shards+n-1)/n {
			r.Errorf("%s leads %d of %d shards; %d workers share them", holder, shards, r.shards, n)
		}
	}
	if all != r.shards || len(led) != n {
		r.Errorf("the shards are led by %v, want %d by %d", led, r.shards, n)
	}
}

func TestWorkersThatComeAndGoLoseDoubleAndDelayNoSlot(t *testing.T) {
	const until = 24
	inBubble(t, func(r *rig) {
		r.shards = 4
		if _, err := r.store.RecordShards(r.Context(), r.shards); err != nil {
			r.Fatal(err)
		}
		const schedules = 12
		for i := range schedules {
			policy := []schedule.OverlapPolicy{schedule.OverlapAllow, schedule.OverlapSkip}[i%2]
			r.every(fmt.Sprint("s", i), time.Second, overlap(policy))
		}
		stores := make([]*sqlite.Store, 3)
		for i := range stores {
			stores[i] = r.open()
			defer r.close(stores[i])
		}
		stopA := r.startOn(stores[0])
		r.until(2500 * time.Millisecond)
		r.fairly(1)
		stopB := r.startOn(stores[1])
		r.until(8500 * time.Millisecond)
		r.fairly(2)
		stopC := r.startOn(stores[2])
		r.until(15500 * time.Millisecond)
		r.fairly(3)
		stopA()
		r.until(18500 * time.Millisecond)
		r.fairly(2)
		stopC()
		stopB()
		r.until(19200 * time.Millisecond)
		stopB = r.startOn(stores[1])
		r.until(until*time.Second + 500*time.Millisecond)
		r.fairly(1)
		stopB()
		for i := range schedules {
			id := fmt.Sprint("s", i)
			r.onceEach(id, time.Second, until*time.Second)
			r.onTime(id, 2*time.Second, until)
		}
	})
}

// alarm wakes once, at an instant, for some hash buckets.
type alarm struct {
	at          time.Time
	first, last int
}

func (a alarm) Listen(ctx context.Context, wake func(first, last int)) error {
	time.Sleep(time.Until(a.at))
	wake(a.first, a.last)
	<-ctx.Done()
	return nil
}

// lookers are the shards that claimed at an instant.
type lookers struct {
	ledger
	at     time.Time
	mu     *sync.Mutex
	shards map[int]bool
}

func (l lookers) Claim(ctx context.Context, req rules.ClaimRequest, claim *rules.Claim) (rules.Claimed, error) {
	if req.Now.Equal(l.at) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.shards[req.Term.Shard] = true
	}
	return l.ledger.Claim(ctx, req, claim)
}

func TestAWakeConcernsTheShardsThatHaveItsBuckets(t *testing.T) {
	for _, tc := range []struct {
		name        string
		first, last int
		want        []int
	}{
		{"one bucket", 300, 300, []int{1}},
		{"the last of a shard and the first of the next", 511, 512, []int{1, 2}},
		{"all", 0, schedule.Buckets - 1, []int{0, 1, 2, 3}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const at = 2350 * time.Millisecond // between the ticks
			woken := make(map[int]bool)
			inBubble(t, func(r *rig) {
				r.work(3 * time.Second)
				if got := slices.Sorted(maps.Keys(woken)); !slices.Equal(got, tc.want) {
					r.Errorf("shards %v of 256 buckets each looked when they were woken, want %v", got, tc.want)
				}
			}, func(r *rig) {
				r.shards = 4
				r.waker = alarm{r.at(at), tc.first, tc.last}
				r.over = func(s *sqlite.Store) ledger {
					return lookers{ledger: s, at: r.at(at), mu: new(sync.Mutex), shards: woken}
				}
			})
		})
	}
}

func TestAShardThatIsAskedToResignIsHandedOver(t *testing.T) {
	inBubble(t, func(r *rig) {
		second := r.open()
		defer r.close(second)
		r.every("s", time.Second, overlap(schedule.OverlapAllow))
		stopFirst, stopSecond := r.start(), r.startOn(second)
		defer stopSecond()
		defer stopFirst()
		r.until(1500 * time.Millisecond)
		was, err := r.store.AskToResign(r.Context(), 0, r.store.Now())
		if err != nil {
			r.Fatal(err)
		}
		took := r.ledAfter(was.Epoch, 3*time.Second)
		r.until(4500 * time.Millisecond)
		if led := r.shares(); led[was.Holder] != 0 || len(led) != 1 {
			r.Errorf("%s after it was asked, the shard is led by %v; it was %s", took, led, was.Holder)
		}
		if took > 1500*time.Millisecond {
			r.Errorf("the shard was handed over %s after it was asked for", took)
		}
		r.onceEach("s", time.Second, 4*time.Second)
		r.onTime("s", 500*time.Millisecond, 4)
	})
}
