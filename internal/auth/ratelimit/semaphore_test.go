package ratelimit_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/internal/auth/ratelimit"
)

// desk takes permits in a synctest bubble and records the order of the owners.
type desk struct {
	semaphore *ratelimit.Semaphore
	calls     sync.WaitGroup
	mu        sync.Mutex
	began     []string
	most      int
	now       int
}

// call takes the owner's permit for one second of the bubble's time.
func (d *desk) call(ctx context.Context, t *testing.T, owner string, want error) {
	d.calls.Go(func() {
		release, err := d.semaphore.Take(ctx, owner)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", owner, err, want)
		}
		if err != nil {
			return
		}
		d.mu.Lock()
		d.began = append(d.began, owner)
		d.now++
		d.most = max(d.most, d.now)
		d.mu.Unlock()
		time.Sleep(time.Second)
		d.mu.Lock()
		d.now--
		d.mu.Unlock()
		release()
	})
	synctest.Wait()
}

func TestOwnersAreServedRoundRobin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{semaphore: ratelimit.NewSemaphore(ratelimit.SemaphoreLimits{Running: 1, Waiting: 100, PerOwner: 50, MaxWait: time.Hour})}
		for range 30 {
			d.call(t.Context(), t, "ada", nil)
		}
		for _, owner := range []string{"bob", "eve", "bob"} {
			d.call(t.Context(), t, owner, nil)
		}
		if running, waiting := d.semaphore.Open(); running != 1 || waiting != 32 {
			t.Errorf("%d run and %d wait, want 1 and 32", running, waiting)
		}
		d.calls.Wait()
		if want := []string{"ada", "bob", "eve", "ada", "bob", "ada"}; !slices.Equal(d.began[:6], want) || len(d.began) != 33 || d.most != 1 {
			t.Errorf("turns %v (%d, %d at once), want %v first, 33 in all, one at once", d.began, len(d.began), d.most, want)
		}
	})
}

func TestAnOwnerRunsOneCallEvenIfPermitsAreFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{semaphore: ratelimit.NewSemaphore(ratelimit.SemaphoreLimits{Running: 4, Waiting: 100, PerOwner: 50, MaxWait: time.Hour})}
		for range 5 {
			d.call(t.Context(), t, "ada", nil)
		}
		if running, _ := d.semaphore.Open(); running != 1 {
			t.Errorf("%d of ada's calls run at once, want 1", running)
		}
		d.call(t.Context(), t, "bob", nil)
		if running, _ := d.semaphore.Open(); running != 2 {
			t.Errorf("%d run, want ada's and bob's", running)
		}
		d.calls.Wait()
	})
}

func TestCallsThatCannotWaitAreRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits ratelimit.SemaphoreLimits
		owners []string // the last is refused at once
	}{
		{"an owner has too many waiting", ratelimit.SemaphoreLimits{Running: 1, Waiting: 100, PerOwner: 2, MaxWait: time.Hour}, []string{"ada", "ada", "ada", "ada"}},
		{"all owners have", ratelimit.SemaphoreLimits{Running: 1, Waiting: 2, PerOwner: 2, MaxWait: time.Hour}, []string{"ada", "bob", "eve", "joe"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &desk{semaphore: ratelimit.NewSemaphore(c.limits)}
				for i, owner := range c.owners {
					want := error(nil)
					if i == len(c.owners)-1 {
						want = ratelimit.ErrTooManyWaiting
					}
					d.call(t.Context(), t, owner, want)
				}
				d.calls.Wait()
			})
		})
	}
}

func TestACallThatTimesOutFreesItsPlaceInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{semaphore: ratelimit.NewSemaphore(ratelimit.SemaphoreLimits{Running: 1, Waiting: 100, PerOwner: 10, MaxWait: 500 * time.Millisecond})}
		d.call(t.Context(), t, "ada", nil)
		d.call(t.Context(), t, "bob", ratelimit.ErrTooManyWaiting) // after half a second
		ctx, cancel := context.WithCancel(t.Context())
		d.call(ctx, t, "eve", context.Canceled)
		cancel()
		d.calls.Wait()
		if running, waiting := d.semaphore.Open(); running != 0 || waiting != 0 {
			t.Errorf("%d run and %d wait at the end", running, waiting)
		}
		d.call(t.Context(), t, "bob", nil)
		d.calls.Wait()
	})
}
