package launcher_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
)

// TestTheLimitHoldsAndNoCallIsLost: in whatever order starts acquire, release
// or give up.
func TestTheLimitHoldsAndNoCallIsLost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(1, 12).Draw(rt, "size")
		type visit struct {
			owner            string
			at, stays, waits time.Duration
		}
		span := func(name string) time.Duration {
			return time.Duration(rapid.IntRange(0, 30).Draw(rt, name)) * time.Second
		}
		visits := make([]visit, rapid.IntRange(1, 60).Draw(rt, "visits"))
		for i := range visits {
			visits[i] = visit{owner: strconv.Itoa(rapid.IntRange(0, 3).Draw(rt, "owner")), at: span("at"), stays: span("stays"), waits: span("waits")}
		}
		var report string
		synctest.Test(t, func(t *testing.T) {
			limiter := launcher.NewLimiter(size)
			var (
				mu      sync.Mutex
				open    int
				entered = make(map[string]int)
				wg      sync.WaitGroup
			)
			for _, v := range visits {
				wg.Go(func() {
					time.Sleep(v.at)
					ctx, cancel := context.WithTimeout(t.Context(), v.waits)
					defer cancel()
					if limiter.Acquire(ctx, v.owner) != nil {
						return
					}
					mu.Lock()
					entered[v.owner]++
					if open++; open > size {
						report = fmt.Sprintf("%d calls are open, of %d", open, size)
					}
					mu.Unlock()
					time.Sleep(v.stays)
					mu.Lock()
					open--
					mu.Unlock()
					limiter.Release(v.owner)
				})
			}
			wg.Wait()
			// All have left: each owner finds as many calls as one may have, and no less
			// than one.
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			for i := range size {
				if err := limiter.Acquire(ctx, "new-"+strconv.Itoa(i)); err != nil {
					report = fmt.Sprintf("the call %d of %d is lost: %v", i, size, err)
				}
			}
		})
		if report != "" {
			rt.Fatal(report)
		}
	})
}

func TestAnOwnerWhoseExecutorHangsLeavesCallsToTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limiter := launcher.NewLimiter(100)
		ctx, cancel := context.WithCancel(t.Context())
		hangs := 0
		var mu sync.Mutex
		for range 1000 {
			go func() {
				if limiter.Acquire(ctx, "hangs") == nil {
					mu.Lock()
					hangs++
					mu.Unlock()
				}
			}()
		}
		synctest.Wait()
		if mu.Lock(); hangs != 90 {
			t.Errorf("one owner has %d calls of 100, want 90", hangs)
		}
		mu.Unlock()
		for range 200 {
			soon, stop := context.WithTimeout(t.Context(), time.Millisecond)
			if err := limiter.Acquire(soon, "works"); err != nil {
				t.Fatalf("another owner finds no call: %v", err)
			}
			stop()
			limiter.Release("works")
		}
		cancel()
		synctest.Wait()
	})
}

func TestOwnersWhoWaitTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limiter := launcher.NewLimiter(1)
		if err := limiter.Acquire(t.Context(), "first"); err != nil {
			t.Fatal(err)
		}
		order := make(chan string, 20)
		for _, owner := range []string{"many", "many", "many", "few"} {
			go func() {
				if limiter.Acquire(t.Context(), owner) == nil {
					order <- owner
					limiter.Release(owner)
				}
			}()
			synctest.Wait()
		}
		limiter.Release("first")
		synctest.Wait()
		close(order)
		var got []string
		for owner := range order {
			got = append(got, owner)
		}
		if want := "[many few many many]"; fmt.Sprint(got) != want {
			t.Errorf("the owners call in the order %v, want %s", got, want)
		}
	})
}

// A pause during the wait for a free call takes effect, and no call begins with a
// check older than a second.
func TestARunThatWaitedForItsCallIsCheckedAgain(t *testing.T) {
	config := launcher.Config{Feedback: true, MaxCalls: 1}
	inBubble(t, config, func(r *rig) {
		r.schedule()
		r.executor.run = func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
			time.Sleep(5 * time.Second)
			return accept(ctx, call)
		}
		first, second := r.request(), r.request()
		second.Key = schedule.SlotKey("s", second.ScheduledFor.Add(time.Hour))
		var wg sync.WaitGroup
		wg.Go(func() { r.must(first) })
		synctest.Wait()
		wg.Go(func() { r.isOutcome(r.must(second), schedule.StatusSkipped, schedule.ReasonPaused) })
		time.Sleep(3 * time.Second)
		r.pause()
		wg.Wait()
		r.wantCalls(1, 0)
	})
}

func TestARunWaitsForItsCallAndKeepsItsKey(t *testing.T) {
	config := launcher.Config{Feedback: true, MaxCalls: 1, CallTimeout: time.Minute}
	inBubble(t, config, func(r *rig) {
		r.executor.run = func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
			time.Sleep(40 * time.Second)
			return accept(ctx, call)
		}
		first, second := r.request(), r.request()
		second.Key = schedule.SlotKey("s", second.ScheduledFor.Add(time.Hour))
		var wg sync.WaitGroup
		wg.Go(func() { r.must(first) })
		synctest.Wait()
		wg.Go(func() { r.must(second) })
		time.Sleep(30 * time.Second)
		other, _ := r.another(config)
		if _, err := other.Start(r.Context(), second); err == nil {
			r.Error("another process may send a key that waits for its call here")
		}
		wg.Wait()
		r.wantCalls(2, 0)
		if calls := r.executor.runs(); calls[1].at.Sub(calls[0].at) < 40*time.Second {
			r.Errorf("the second call began %s after the first, which took 40 s", calls[1].at.Sub(calls[0].at))
		}
	})
}
