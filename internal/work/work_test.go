package work_test

import (
	"context"
	"errors"
	"testing"

	"github.com/carillon/carillon/internal/work"
)

func TestABudgetEndsTheWorkWhenItIsSpent(t *testing.T) {
	t.Parallel()
	b := work.New(100)
	for range 100 {
		if err := b.Spend(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Spend(t.Context(), 1); !errors.Is(err, work.ErrSpent) {
		t.Errorf("got %v beyond the limit, want ErrSpent", err)
	}
	if b.Meter(t.Context())(1) || !errors.Is(b.Err(), work.ErrSpent) {
		t.Errorf("the work goes on after the limit: %v", b.Err())
	}
	if b.Spent() != 101 {
		t.Errorf("%d steps counted, want 101", b.Spent())
	}
}

func TestACancelledCallEndsWithinAMillisecondOfWork(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := work.New(work.PerCall)
	for steps := 0; b.Meter(ctx)(work.PerMicrosecond); steps++ {
		if steps > 1000 {
			t.Fatal("still at work after a millisecond")
		}
	}
	if !errors.Is(b.Err(), context.Canceled) {
		t.Errorf("got %v, want that the context was cancelled", b.Err())
	}
}
