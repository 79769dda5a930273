package launcher_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/launcher"
)

func TestAHerdIsCalledAtItsInstantEachOnceHoweverLongCallsTake(t *testing.T) {
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
				gates, at := launcher.NewGates(time.Now), time.Now().Add(time.Second)
				var made [calls]atomic.Int32
				var herd sync.WaitGroup
				for i := range calls {
					herd.Go(func() {
						err := gates.Fire(t.Context(), at, func() {
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
				herd.Wait()
				if n := gates.Standing(); n != 0 {
					t.Errorf("%d gates stand after all have passed", n)
				}
			})
		})
	}
}

func TestWhoHasGivenUpIsNotCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gates, at := launcher.NewGates(time.Now), time.Now().Add(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		defer cancel()
		var called, over atomic.Int32
		var herd sync.WaitGroup
		for range 10 {
			herd.Go(func() {
				if err := gates.Fire(ctx, at, func() { called.Add(1) }); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, want the context's error", err)
				}
			})
			herd.Go(func() {
				if err := gates.Fire(t.Context(), at, func() { over.Add(1) }); err != nil {
					t.Error(err)
				}
			})
		}
		herd.Wait()
		if called.Load() != 0 || over.Load() != 10 {
			t.Errorf("called %d who had given up and %d of 10 others", called.Load(), over.Load())
		}
	})
}

func TestACallThatHasBegunIsWaitedForByWhoGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gates, at := launcher.NewGates(time.Now), time.Now().Add(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := gates.Fire(ctx, at, func() { time.Sleep(time.Minute) }); err != nil || time.Since(at) != time.Minute {
			t.Errorf("it is over after %s with %v, want after a minute", time.Since(at), err)
		}
		late := func() { t.Error("called after its instant has passed") }
		if err := gates.Fire(t.Context(), at, late); err != nil {
			t.Error(err)
		}
	})
}

func TestAPanicIsThatOfItsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gates, at := launcher.NewGates(time.Now), time.Now().Add(time.Second)
		var herd sync.WaitGroup
		for i := range 10 {
			herd.Go(func() {
				defer func() {
					said, _ := recover().(string)
					if got, want := strings.HasPrefix(said, "a bug\n"), i == 3; got != want {
						t.Errorf("start %d: panicked with %q", i, said)
					}
				}()
				_ = gates.Fire(t.Context(), at, func() {
					if i == 3 {
						panic("a bug")
					}
				})
			})
		}
		herd.Wait()
	})
}

// Nothing but the processors is waited for here: no start is told that its call
// is over while they are wanted for the calls of the others.
func TestStartsAreToldOnceTheCallsOfTheirInstantHaveBegun(t *testing.T) {
	const calls = 2000
	gates, at := launcher.NewGates(time.Now), time.Now().Add(50*time.Millisecond)
	var begun, early atomic.Int64
	var herd sync.WaitGroup
	for range calls {
		herd.Go(func() {
			fired := false
			if err := gates.Fire(t.Context(), at, func() { fired = true; begun.Add(1) }); err != nil {
				t.Error(err)
			}
			some := int64(4 * runtime.GOMAXPROCS(0)) // that others are about to call
			if fired && begun.Load() < calls-some && time.Since(at) < launcher.HoldFor {
				early.Add(1)
			}
		})
	}
	herd.Wait()
	if early.Load() > 0 {
		t.Errorf("%d starts were told before the calls had begun", early.Load())
	}
}

func TestOutcomesWaitForTheCallsOfTheirInstant(t *testing.T) {
	for _, tc := range []struct {
		name  string
		calls int64
		begin time.Duration // after which they begin
		waits time.Duration
	}{
		{name: "until they have begun", calls: launcher.Crowd, begin: 30 * time.Millisecond, waits: 30 * time.Millisecond},
		{name: "not for long", calls: launcher.Crowd, begin: time.Minute, waits: launcher.HoldFor},
		{name: "not for a few", calls: launcher.Crowd - 1, begin: time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				gates, began := launcher.NewGates(time.Now), time.Now()
				gates.Expect(tc.calls)
				time.AfterFunc(tc.begin, func() { gates.Expect(-tc.calls) })
				gates.Pass()
				if took := time.Since(began); took < tc.waits || took > tc.waits+5*time.Millisecond {
					t.Errorf("outcomes wait for %s, want %s", took, tc.waits)
				}
			})
		})
	}
}
