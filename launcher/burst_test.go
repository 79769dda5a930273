package launcher_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/launcher"
)

func TestABurstMakesEachCallOnceAtItsInstant(t *testing.T) {
	for _, tc := range []struct {
		name  string
		takes func(i int) time.Duration
	}{
		{name: "answered at once", takes: func(int) time.Duration { return 0 }},
		{name: "answered after a while", takes: func(int) time.Duration { return 3 * time.Second }},
		{name: "some hang", takes: func(i int) time.Duration { return time.Duration(i%7/6) * time.Hour }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const calls = 1000
				timers, at := launcher.NewTimers(time.Now), time.Now().Add(time.Second)
				var made [calls]atomic.Int32
				var starts sync.WaitGroup
				for i := range calls {
					starts.Go(func() {
						err := timers.CallAt(t.Context(), at, func() {
							made[i].Add(1)
							if !time.Now().Equal(at) {
								t.Errorf("call %d was made at %s, want %s", i, time.Now(), at)
							}
							time.Sleep(tc.takes(i)) // virtual
						})
						if err != nil || made[i].Load() != 1 || time.Since(at) != tc.takes(i) {
							t.Errorf("call %d was made %d times, and over after %s with %v, want once and after %s",
								i, made[i].Load(), time.Since(at), err, tc.takes(i))
						}
					})
				}
				starts.Wait()
				if n := timers.Len(); n != 0 {
					t.Errorf("%d timers are left after all have fired", n)
				}
			})
		})
	}
}

func TestAStartThatHasGivenUpIsNotCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timers, at := launcher.NewTimers(time.Now), time.Now().Add(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		defer cancel()
		var called, over atomic.Int32
		var starts sync.WaitGroup
		for range 10 {
			starts.Go(func() {
				if err := timers.CallAt(ctx, at, func() { called.Add(1) }); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, want the context's error", err)
				}
			})
			starts.Go(func() {
				if err := timers.CallAt(t.Context(), at, func() { over.Add(1) }); err != nil {
					t.Error(err)
				}
			})
		}
		starts.Wait()
		if called.Load() != 0 || over.Load() != 10 {
			t.Errorf("called %d who had given up and %d of 10 others", called.Load(), over.Load())
		}
	})
}

func TestACallThatHasBegunIsNotInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timers, at := launcher.NewTimers(time.Now), time.Now().Add(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := timers.CallAt(ctx, at, func() { time.Sleep(time.Minute) }); err != nil || time.Since(at) != time.Minute {
			t.Errorf("it is over after %s with %v, want after a minute", time.Since(at), err)
		}
		late := func() { t.Error("called after its instant has passed") }
		if err := timers.CallAt(t.Context(), at, late); err != nil {
			t.Error(err)
		}
	})
}

func TestOutcomesWaitForTheCallsOfTheirInstant(t *testing.T) {
	for _, tc := range []struct {
		name  string
		calls int64
		begin time.Duration // after which they begin
		waits time.Duration
	}{
		{name: "until they have begun", calls: launcher.HoldAbove, begin: 30 * time.Millisecond, waits: 30 * time.Millisecond},
		{name: "not for long", calls: launcher.HoldAbove, begin: time.Minute, waits: launcher.MaxHold},
		{name: "not for a few", calls: launcher.HoldAbove - 1, begin: time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				timers, began := launcher.NewTimers(time.Now), time.Now()
				timers.Expect(tc.calls)
				time.AfterFunc(tc.begin, func() { timers.Expect(-tc.calls) })
				timers.WaitForCalls()
				if took := time.Since(began); took < tc.waits || took > tc.waits+5*time.Millisecond {
					t.Errorf("outcomes wait for %s, want %s", took, tc.waits)
				}
			})
		})
	}
}
