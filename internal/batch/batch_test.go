package batch_test

import (
	"context"
	"errors"
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
