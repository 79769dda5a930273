// Package work bounds what one call may cost by counting what it does. Time
// would say how busy the machine is; a count is the same everywhere, so that the
// same request is always refused or always served.
//
// It belongs to no step of a slot's life: it keeps calls that look ahead
// (simulate, forecast, preview, dry runs) from delaying the steps that launch.
package work

import (
	"context"
	"errors"
	"runtime"
)

// A Step is about 50 ns of processor time on the machine of the benchmarks.
// Every place that spends says how many steps its unit of work costs there.
const (
	PerMicrosecond = 20
	// PerCall is what one call may spend: nine tenths of a second. The rest of the
	// second is for reading the request and writing the answer.
	PerCall = 18_000_000
	// between is how many steps pass between two looks at the context. The
	// processor is offered to other goroutines as often: a timer of the worker
	// would otherwise wait up to 10 ms for the runtime to preempt this one.
	between = 500 * PerMicrosecond
)

// ErrSpent ends work whose budget is spent.
var ErrSpent = errors.New("the work of one call is spent")

// Budget is what is left of a call's work. It is for one goroutine.
type Budget struct {
	limit, spent, since int
	err                 error
}

// New makes a budget of so many steps.
func New(limit int) *Budget { return &Budget{limit: limit} }

// Spend counts steps. An error ends the work: ErrSpent, or that of ctx. From
// then on the same error comes back.
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

// Meter is Spend for code that knows no contexts: false ends the work, and Err
// says why.
func (b *Budget) Meter(ctx context.Context) func(steps int) bool {
	return func(steps int) bool { return b.Spend(ctx, steps) == nil }
}

// Err is why the work ended early; nil where it did not.
func (b *Budget) Err() error { return b.err }

// Left is how many steps may still be spent.
func (b *Budget) Left() int { return max(0, b.limit-b.spent) }

// Spent is how many steps were counted.
func (b *Budget) Spent() int { return b.spent }
