package backoff_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/internal/backoff"
)

func TestWaitsGrowByHalfUpToTheLast(t *testing.T) {
	d := backoff.Delays{First: 100 * time.Millisecond, Last: time.Second}
	middle := []time.Duration{100, 150, 225, 337, 505, 757, 1000, 1000, 1000}
	for round := range 2 {
		for i, m := range middle {
			m *= time.Millisecond
			if wait := d.Next(); wait < m/2-time.Millisecond || wait > m+m/2+3*time.Millisecond {
				t.Errorf("round %d, wait %d is %s, want half to one and a half of %s", round, i, wait, m)
			}
		}
		d.Reset()
	}
}

func TestAttemptsEndWithSuccessARefusalOrTheContext(t *testing.T) {
	busy, broken := errors.New("busy"), errors.New("broken")
	isBusy := func(err error) bool { return errors.Is(err, busy) }
	for _, c := range []struct {
		name    string
		answers []error
		want    error
		tried   int
		gone    time.Duration // when the context ends; 0: it does not
	}{
		{name: "the first attempt succeeds", answers: []error{nil}, tried: 1},
		{name: "a later attempt succeeds", answers: []error{busy, busy, nil}, tried: 3},
		{name: "an error is not to be retried", answers: []error{busy, broken, nil}, want: broken, tried: 2},
		{name: "the context ends during a wait", answers: []error{busy, busy, busy, busy, busy, nil}, want: context.DeadlineExceeded, tried: 1, gone: time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				if c.gone > 0 {
					ctx, cancel = context.WithTimeout(t.Context(), c.gone)
				}
				defer cancel()
				tried := 0
				err := backoff.Retry(ctx, backoff.Delays{First: time.Second, Last: time.Minute}, func() error {
					tried++
					return c.answers[tried-1]
				}, isBusy)
				if !errors.Is(err, c.want) || tried != c.tried {
					t.Errorf("%v after %d attempts, want %v after %d", err, tried, c.want, c.tried)
				}
			})
		})
	}
}
