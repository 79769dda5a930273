// Package work limits the cost of one call by counting its steps. Unlike time, a count does not depend
// on the load of the machine, so the same request is always refused or always served.
//
// It keeps simulations, forecasts, previews and dry runs from delaying launches.
package work

import (
	"context"
	"errors"
	"runtime"
)

// A Step is about 50 ns of processor time on the machine of the benchmarks.
// Callers of Spend define the steps of their units of work.
const (
	PerMicrosecond = 20
	// PerCall is the limit of one call: 0.9 s. The rest of a second is for reading the request and
	// writing the answer.
	PerCall = 18_000_000
	// between is the number of steps between two checks of the context. Each check also yields the
	// processor: otherwise a timer of the worker may wait 10 ms until the runtime preempts this
	// goroutine.
	between = 500 * PerMicrosecond
)

// ErrSpent ends work whose budget is spent.
var ErrSpent = errors.New("the work of one call is spent")

// Budget counts the steps of a call. It is for one goroutine.
type Budget struct {
	limit, spent, since int
	err                 error
}

// New makes a budget of limit steps.
func New(limit int) *Budget { return &Budget{limit: limit} }

// Spend counts steps. The work must stop on an error: ErrSpent, or that of ctx. Later calls return the
// same error.
func (b *Budget) Spend(ctx context.Context, steps int) error {
	if b.err != nil {
		return b.err
	}
	if b.spent += steps; b.spent > b.limit {
		b.err = ErrSpent
		return b.err
	}
	if b.since += steps; b.since >= between {
		b.since = 0
		runtime.Gosched()
		b.err = ctx.Err()
	}
	return b.err
}

// Meter is Spend for code without a context. The work must stop on false; Err has the reason.
func (b *Budget) Meter(ctx context.Context) func(steps int) bool {
	return func(steps int) bool { return b.Spend(ctx, steps) == nil }
}

// Err is why the work ended early, otherwise nil.
func (b *Budget) Err() error { return b.err }

// Left is the number of remaining steps.
func (b *Budget) Left() int { return max(0, b.limit-b.spent) }

// Spent is the number of counted steps.
func (b *Budget) Spent() int { return b.spent }
