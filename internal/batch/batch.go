// Package batch combines concurrent calls into one: while one batch is written, the next
// one fills. A single call keeps its latency, and a thousand concurrent calls cost about
// two.
package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Batcher combines calls of Do into calls of flush with many inputs. It has no goroutine:
// a waiting caller flushes for all that came during the last flush.
type Batcher[In, Out any] struct {
	limit int
	flush func(ctx context.Context, ins []In) ([]Out, error)

	mu       sync.Mutex
	pending  []*call[In, Out]
	flushing bool
}

type call[In, Out any] struct {
	in   In
	out  Out
	err  error
	told chan role // holds one
}

// role is what a waiting caller is told. One channel serves both roles, because ten
// thousand callers may wait in a burst.
type role bool

const (
	lead role = false // flush the next batch
	done role = true  // out and err are set
)

// New returns a Batcher with at most limit inputs in a flush. flush returns one output
// for each input, in order, or an error for all. Its context has the values of one
// caller's context and not its cancellation, so that the other callers do not fail with
// it; flush must set its own deadline.
func New[In, Out any](limit int, flush func(ctx context.Context, ins []In) ([]Out, error)) *Batcher[In, Out] {
	return &Batcher[In, Out]{limit: limit, flush: flush}
}

// Do adds one input and returns its output. It does not end early with ctx: the input is
// written, and the caller must know the result.
func (b *Batcher[In, Out]) Do(ctx context.Context, in In) (Out, error) {
	return b.do(ctx, in, nil)
}

// DoUntil is Do, but removes its input when ctx ends before a flush has begun with it,
// and returns the error of ctx.
func (b *Batcher[In, Out]) DoUntil(ctx context.Context, in In) (Out, error) {
	if err := ctx.Err(); err != nil {
		var none Out
		return none, err
	}
	return b.do(ctx, in, ctx.Done())
}

func (b *Batcher[In, Out]) do(ctx context.Context, in In, enough <-chan struct{}) (Out, error) {
	c := &call[In, Out]{in: in, told: make(chan role, 1)}
	b.mu.Lock()
	b.pending = append(b.pending, c)
	first := !b.flushing
	b.flushing = true
	b.mu.Unlock()
	told := lead
	switch {
	case first:
	case enough == nil:
		told = <-c.told
	default:
		select {
		case told = <-c.told:
		case <-enough:
			if b.takeBack(c) {
				return c.out, ctx.Err()
			}
			told = <-c.told // it is being flushed
		}
	}
	if told == done {
		return c.out, c.err
	}
	// Also if ctx has ended: no one else would flush for the others.
	b.flushNext(context.WithoutCancel(ctx))
	return c.out, c.err
}

// Waiting returns the number of inputs that wait for the next flush.
func (b *Batcher[In, Out]) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.pending)
}

// takeBack removes a waiting input, and makes another caller flush if this one should
// have.
func (b *Batcher[In, Out]) takeBack(c *call[In, Out]) bool {
	b.mu.Lock()
	at := slices.Index(b.pending, c)
	if at >= 0 {
		b.pending = slices.Delete(b.pending, at, at+1)
	}
	b.mu.Unlock()
	if at < 0 {
		return false
	}
	select {
	case <-c.told: // to lead
		b.handOver()
	default:
	}
	return true
}

// flushNext flushes the oldest pending inputs, the caller's among them, and makes another
// caller flush the rest, also if flush panics: the others must not wait forever.
func (b *Batcher[In, Out]) flushNext(ctx context.Context) {
	b.mu.Lock()
	n := min(len(b.pending), b.limit)
	calls := b.pending[:n:n]
	b.pending = b.pending[n:]
	b.mu.Unlock()

	defer b.handOver()
	b.run(ctx, calls)
}

func (b *Batcher[In, Out]) handOver() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pending) > 0 {
		b.pending[0].told <- lead
		return
	}
	b.flushing = false
	b.pending = nil
}

// errPanicked is the error of the other calls of a batch if flush panics.
var errPanicked = errors.New("flush panicked")

func (b *Batcher[In, Out]) run(ctx context.Context, calls []*call[In, Out]) {
	outs, err := []Out(nil), errPanicked
	defer func() {
		for i, c := range calls {
			if c.err = err; err == nil {
				c.out = outs[i]
			}
			c.told <- done
		}
	}()
	ins := make([]In, len(calls))
	for i, c := range calls {
		ins[i] = c.in
	}
	outs, err = b.flush(ctx, ins)
	if err == nil && len(outs) != len(ins) {
		err = fmt.Errorf("flush of %d inputs gave %d outputs", len(ins), len(outs))
	}
}
