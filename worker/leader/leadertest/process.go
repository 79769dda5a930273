package leadertest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/worker/leader"
)

// gate stops a process: nothing that it asks for gets through or comes back
// while it is frozen, and no context helps.
type gate struct {
	mu   sync.Mutex
	shut chan struct{} // nil: open
}

func (g *gate) freeze() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil {
		g.shut = make(chan struct{})
	}
}

func (g *gate) thaw() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

func (g *gate) pass() {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut != nil {
		<-shut
	}
}

// lock is a Lock as one candidate reaches it.
type lock struct {
	leader.Lock
	*gate
	keepFails atomic.Bool
}

func (l *lock) Acquire(ctx context.Context) error {
	l.pass()
	defer l.pass()
	return l.Lock.Acquire(ctx)
}

func (l *lock) Keep(ctx context.Context) error {
	l.pass()
	defer l.pass()
	if l.keepFails.Load() {
		return errors.New("the lock is gone")
	}
	return l.Lock.Keep(ctx)
}

func (l *lock) Release(ctx context.Context) error {
	l.pass()
	defer l.pass()
	return l.Lock.Release(ctx)
}

// lease is a leaders row as one candidate reaches it.
type lease struct {
	leader.LeaseStore
	*gate
	slow      time.Duration // how long the answer of a takeover is on its way
	barred    atomic.Bool
	refused   atomic.Bool // takeovers: another number of shards is recorded
	mute      atomic.Bool // resigning fails
	loses     atomic.Bool // the answer of the next takeover
	takeovers atomic.Int64

	mu       sync.Mutex
	renewing func(context.Context) error // nil: as it should be
}

// renew sets the result of the renewals from now on: an error of f, or with nil the real
// one.
func (l *lease) renew(f func(context.Context) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewing = f
}

// hang answers nothing as long as the caller waits.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

type barredError struct{}

func (barredError) Error() string { return "must not lead" }

func (l *lease) mayLead() error {
	if l.barred.Load() {
		return barredError{}
	}
	return nil
}

func (l *lease) Takeover(ctx context.Context, req schedule.TakeoverRequest) (schedule.Term, bool, error) {
	l.pass()
	defer l.pass()
	l.takeovers.Add(1)
	if l.refused.Load() {
		return schedule.Term{}, false, schedule.Explain(schedule.ErrShardCount, "SHARDS is 1, and 2 is recorded")
	}
	term, won, err := l.LeaseStore.Takeover(ctx, req)
	if l.slow > 0 {
		pause(l.slow)
	}
	if l.loses.Swap(false) {
		return schedule.Term{}, false, errors.New("the connection is gone")
	}
	return term, won, err
}

func (l *lease) Renew(ctx context.Context, term schedule.Term, req schedule.RenewRequest) (askedToResign bool, err error) {
	l.pass()
	defer l.pass()
	l.mu.Lock()
	f := l.renewing
	l.mu.Unlock()
	if f != nil {
		if err := f(ctx); err != nil {
			return false, err
		}
	}
	return l.LeaseStore.Renew(ctx, term, req)
}

func (l *lease) Resign(ctx context.Context, term schedule.Term, r schedule.Resignation) error {
	l.pass()
	defer l.pass()
	if l.mute.Load() {
		return errors.New("the store is down")
	}
	return l.LeaseStore.Resign(ctx, term, r)
}
