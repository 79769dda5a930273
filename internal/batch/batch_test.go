package batch_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/internal/batch"
)

func TestEveryCallerGetsTheOutputOfItsOwnInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		b := batch.New(100, func(_ context.Context, ins []int) ([]int, error) {
			sizes = append(sizes, len(ins))
			time.Sleep(time.Second) // virtual: the others gather meanwhile
			outs := make([]int, len(ins))
			for i, in := range ins {
				outs[i] = 2 * in
			}
			return outs, nil
		})
		var wg sync.WaitGroup
		for i := range 250 {
			wg.Go(func() {
				if out, err := b.Do(t.Context(), i); err != nil || out != 2*i {
					t.Errorf("Do(%d) = %d, %v; want %d", i, out, err, 2*i)
				}
			})
		}
		wg.Wait()
		total := 0
		for _, n := range sizes {
			total += n
		}
		if total != 250 || len(sizes) > 5 {
			t.Errorf("250 inputs were flushed as %v; want all of them in at most 5 batches of at most 100", sizes)
		}
	})
}

func TestAFailedFlushFailsItsCallersAndNoOthers(t *testing.T) {
	boom := errors.New("boom")
	b := batch.New(1, func(_ context.Context, ins []int) ([]int, error) {
		if ins[0] == 13 {
			return nil, boom
		}
		return ins, nil
	})
	for _, in := range []int{12, 13, 14} {
		_, err := b.Do(t.Context(), in)
		if (in == 13) != errors.Is(err, boom) {
			t.Errorf("Do(%d): %v", in, err)
		}
	}
}

func TestACallerWhoseContextEndsStillLearnsWhatBecameOfItsInput(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := batch.New(10, func(ctx context.Context, ins []int) ([]int, error) { return ins, ctx.Err() })
	if out, err := b.Do(ctx, 7); out != 7 || err != nil {
		t.Errorf("Do = %d, %v; want 7 and no error", out, err)
	}
}

func TestAFlushThatPanicsLeavesNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := batch.New(10, func(_ context.Context, ins []int) ([]int, error) {
			time.Sleep(time.Second) // virtual: the others gather meanwhile
			if ins[0] == 13 {
				panic("13")
			}
			return ins, nil
		})
		var wg sync.WaitGroup
		wg.Go(func() {
			defer func() { _ = recover() }()
			_, _ = b.Do(t.Context(), 13)
		})
		synctest.Wait()
		wg.Go(func() {
			if out, err := b.Do(t.Context(), 7); out != 7 || err != nil {
				t.Errorf("Do = %d, %v after another batch panicked", out, err)
			}
		})
		wg.Wait()
	})
}

func TestWhoWaitsForATurnLongerThanItsContextTakesItsInputBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var flushed []int
		b := batch.New(1, func(_ context.Context, ins []int) ([]int, error) {
			time.Sleep(time.Minute) // virtual
			flushed = append(flushed, ins...)
			return ins, nil
		})
		var wg sync.WaitGroup
		do := func(in int, wait time.Duration, want error) {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), wait)
				defer cancel()
				if out, err := b.DoUntil(ctx, in); !errors.Is(err, want) || err == nil && out != in {
					t.Errorf("DoUntil(%d) = %d, %v; want %v", in, out, err, want)
				}
			})
			synctest.Wait()
		}
		do(1, time.Second, nil) // it has begun: its end is waited for
		do(2, time.Second, context.DeadlineExceeded)
		do(3, time.Hour, nil)
		do(4, 90*time.Second, context.DeadlineExceeded)
		do(5, time.Hour, nil)
		do(6, 0, context.DeadlineExceeded)
		wg.Wait()
		if !slices.Equal(flushed, []int{1, 3, 5}) {
			t.Errorf("%v were flushed, want 1, 3 and 5", flushed)
		}
	})
}

// Inputs come and are taken back at the same instants as turns are handed over.
func TestNobodyIsLeftWaitingWhereInputsAreTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flushed := make(map[int]bool)
		b := batch.New(2, func(_ context.Context, ins []int) ([]int, error) {
			time.Sleep(3 * time.Millisecond) // virtual
			for _, in := range ins {
				flushed[in] = true
			}
			return ins, nil
		})
		answered := make([]bool, 1000)
		var wg sync.WaitGroup
		for i := range answered {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%10)*time.Millisecond)
				defer cancel()
				_, err := b.DoUntil(ctx, i)
				answered[i] = err == nil
			})
		}
		wg.Wait()
		for i, ok := range answered {
			if ok != flushed[i] {
				t.Errorf("input %d: answered %t, flushed %t", i, ok, flushed[i])
			}
		}
	})
}
