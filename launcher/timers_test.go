package launcher_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/launcher"
)

func TestATimerFiresAtItsInstantAndNotBefore(t *testing.T) {
	for _, tc := range []struct {
		name  string
		ahead time.Duration
		set   time.Duration // what the clock is set by, half a second after the beginning
		waits time.Duration
	}{
		{name: "what is due does not wait", ahead: 0},
		{name: "what is late does not wait", ahead: -time.Minute},
		{name: "a moment ahead", ahead: 300 * time.Millisecond, waits: 300 * time.Millisecond},
		{name: "far ahead", ahead: time.Hour, waits: time.Hour},
		{name: "the clock set back makes it wait longer", ahead: 900 * time.Millisecond, set: -10 * time.Second, waits: 10900 * time.Millisecond},
		{name: "the clock set forward is seen within a second", ahead: time.Hour, set: time.Hour, waits: time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				offset := time.Duration(0)
				now := func() time.Time {
					mu.Lock()
					defer mu.Unlock()
					return time.Now().Add(offset)
				}
				timer := time.AfterFunc(500*time.Millisecond, func() {
					mu.Lock()
					defer mu.Unlock()
					offset = tc.set
				})
				defer timer.Stop()
				timers := launcher.NewTimers(now)
				began, at := time.Now(), time.Now().Add(tc.ahead)
				var waiters sync.WaitGroup
				for range 100 {
					waiters.Go(func() {
						if err := timers.Wait(t.Context(), at); err != nil {
							t.Error(err)
						}
						if took := time.Since(began); took != tc.waits {
							t.Errorf("waited for %s, want %s", took, tc.waits)
						}
					})
				}
				waiters.Wait()
				if n := timers.Len(); n != 0 {
					t.Errorf("%d timers are left after all have fired", n)
				}
			})
		})
	}
}

func TestOneWaiterThatGivesUpDoesNotStopTheTimerOfTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timers := launcher.NewTimers(time.Now)
		at := time.Now().Add(time.Second)
		patient := make(chan error, 1)
		go func() { patient <- timers.Wait(t.Context(), at) }()
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		defer cancel()
		if err := timers.Wait(ctx, at); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error", err)
		}
		if err := <-patient; err != nil || time.Now().Before(at) {
			t.Errorf("the other waited until %s with %v, want until %s", time.Now(), err, at)
		}

		alone, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		defer cancel()
		if err := timers.Wait(alone, at.Add(time.Hour)); err == nil || timers.Len() != 0 {
			t.Errorf("got %v with %d timers left, want an error and none", err, timers.Len())
		}
	})
}

func TestDeadlinesEndInTimeAndAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := launcher.NewDeadlines(10 * time.Second)
		began := time.Now()
		first := d.From(began)
		if again := d.From(began.Add(9 * time.Millisecond)); again != first {
			t.Error("a call 9 ms later has a context of its own")
		}
		time.Sleep(10 * time.Millisecond) // virtual
		later := d.From(time.Now())
		if until, _ := later.Deadline(); time.Until(until) != 10*time.Second {
			t.Errorf("a call 10 ms later ends after %s, want 10s", time.Until(until))
		}
		<-first.Done()
		if took := time.Since(began); took != 10*time.Second || !errors.Is(first.Err(), context.DeadlineExceeded) || later.Err() != nil {
			t.Errorf("ended after %s with %v, the later one with %v", took, first.Err(), later.Err())
		}
	})
}
