// Package batch gathers concurrent calls into one: while one batch is being
// written the next gathers. It gives single calls the latency of a single
// call, and a thousand at once the cost of two.
package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Batcher turns calls of Do into calls of flush with many inputs. It owns no
// goroutine: a caller flushes for those that came while another was flushing.
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
	turn chan turn // holds one
}

// turn is what a caller is told; one channel for both, since in a herd ten
// thousand callers wait at once.
type turn bool

const (
	lead turn = false // flush the next batch
	done turn = true  // out and err are set
)

// New makes a Batcher of at most limit inputs a flush. flush answers one
// output for each input, in order, or an error for all of them. Its context
// carries the values of one of the callers' but not its cancellation: the
// others must not fail with it, so flush sets a deadline of its own.
func New[In, Out any](limit int, flush func(ctx context.Context, ins []In) ([]Out, error)) *Batcher[In, Out] {
	return &Batcher[In, Out]{limit: limit, flush: flush}
}

// Do hands in one input and returns its output. It does not end early with
// ctx: what has been handed in is written, and the caller is to know of it.
func (b *Batcher[In, Out]) Do(ctx context.Context, in In) (Out, error) {
	return b.do(ctx, in, nil)
}

// DoUntil is Do for a caller that does not wait for its turn longer than ctx: it
// takes its input back, and the error is that of ctx. What a flush has begun with
// is not taken back.
func (b *Batcher[In, Out]) DoUntil(ctx context.Context, in In) (Out, error) {
	if err := ctx.Err(); err != nil {
		var none Out
		return none, err
	}
	return b.do(ctx, in, ctx.Done())
}

func (b *Batcher[In, Out]) do(ctx context.Context, in In, enough <-chan struct{}) (Out, error) {
	c := &call[In, Out]{in: in, turn: make(chan turn, 1)}
	b.mu.Lock()
	b.pending = append(b.pending, c)
	first := !b.flushing
	b.flushing = true
	b.mu.Unlock()
	told := lead
	switch {
	case first:
	case enough == nil:
		told = <-c.turn
	default:
		select {
		case told = <-c.turn:
		case <-enough:
			if b.takeBack(c) {
				return c.out, ctx.Err()
			}
			told = <-c.turn // it is being flushed
		}
	}
	if told == done {
		return c.out, c.err
	}
	// Also where ctx has ended: nobody else would flush for the others.
	b.flushNext(context.WithoutCancel(ctx))
	return c.out, c.err
}

// Waiting is how many inputs wait for the flush after the present one.
func (b *Batcher[In, Out]) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.pending)
}

// takeBack removes what waits for its turn, and names who flushes if that was
// its caller.
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
	case <-c.turn: // to lead
		b.handOver()
	default:
	}
	return true
}

// flushNext flushes the oldest of what is pending, the caller's own input
// among it, and names who flushes the rest, also when flush panics: the others
// must not wait for ever.
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
		b.pending[0].turn <- lead
		return
	}
	b.flushing = false
	b.pending = nil
}

// errPanicked is what the others of a batch get when flush panics.
var errPanicked = errors.New("flush panicked")

func (b *Batcher[In, Out]) run(ctx context.Context, calls []*call[In, Out]) {
	outs, err := []Out(nil), errPanicked
	defer func() {
		for i, c := range calls {
			if c.err = err; err == nil {
				c.out = outs[i]
			}
			c.turn <- done
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
