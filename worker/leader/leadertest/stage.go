package leadertest

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/worker/leader"
)

// stage is where candidates come and go. It watches that no two terms are
// trusted together, and ends everything with the test.
type stage struct {
	*testing.T
	setting Setting
	leads   chan leads
	over    chan struct{} // closed at the end of the test
	trusted atomic.Int64
	limit   time.Duration

	mu  sync.Mutex
	all []*candidate
}

// leads is a term that has begun.
type leads struct {
	candidate    *candidate
	term         schedule.Term
	ctx, trusted context.Context
	at           time.Time
}

// candidate is one process.
type candidate struct {
	lease *lease
	leave func() // ends it, and waits for it
}

func newStage(t *testing.T, s Setting) *stage {
	st := &stage{T: t, setting: s, leads: make(chan leads, 100), over: make(chan struct{}), limit: 5 * time.Second}
	t.Cleanup(func() {
		close(st.over)
		for _, c := range st.all {
			c.leave()
		}
	})
	return st
}

// enter starts a candidate; prepare says what is special about it.
func (st *stage) enter(prepare func(*lease)) *candidate {
	l := &lease{LeaseStore: st.setting.Lease}
	if prepare != nil {
		prepare(l)
	}
	elector := leader.New(leader.Options{
		Lease: l, Lock: st.setting.Lock(), TTL: TTL, Now: st.setting.Now, Fit: l.fit, Logger: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(st.Context()))
	done := make(chan struct{})
	c := &candidate{lease: l, leave: sync.OnceFunc(func() { cancel(); <-done })}
	st.mu.Lock()
	st.all = append(st.all, c)
	st.mu.Unlock()
	go func() {
		defer close(done)
		_ = elector.Run(ctx, func(ctx, trusted context.Context, term schedule.Term) error {
			if n := st.trusted.Add(1); n > 1 {
				st.Errorf("%d lead at a time", n)
			}
			st.leads <- leads{c, term, ctx, trusted, time.Now()}
			<-ctx.Done()
			st.trusted.Add(-1)
			return nil
		})
	}()
	return c
}

// waitFor says how long next may take.
func (st *stage) waitFor(d time.Duration) { st.limit = d }

// next is the next term that begins.
func (st *stage) next() leads {
	st.Helper()
	select {
	case l := <-st.leads:
		return l
	case <-time.After(st.limit):
		st.Fatalf("nobody leads after %s", st.limit)
		return leads{}
	}
}

// lease is a leaders row as one candidate reaches it.
type lease struct {
	leader.LeaseStore
	slow  time.Duration // how long the answer of a takeover is on its way
	unfit atomic.Bool

	mu       sync.Mutex
	renewing func(context.Context) error // nil: as it should be
}

// renew changes what becomes of the renewals from now on.
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

type unfitError struct{}

func (unfitError) Error() string { return "not fit to lead" }

func (l *lease) fit() error {
	if l.unfit.Load() {
		return unfitError{}
	}
	return nil
}

func (l *lease) Takeover(ctx context.Context, req schedule.TakeoverRequest) (schedule.Term, bool, error) {
	term, won, err := l.LeaseStore.Takeover(ctx, req)
	if l.slow > 0 {
		timer := time.NewTimer(l.slow)
		<-timer.C
	}
	return term, won, err
}

func (l *lease) Renew(ctx context.Context, term schedule.Term, req schedule.RenewRequest) (askedToResign bool, err error) {
	l.mu.Lock()
	f := l.renewing
	l.mu.Unlock()
	if f != nil {
		return false, f(ctx)
	}
	return l.LeaseStore.Renew(ctx, term, req)
}
