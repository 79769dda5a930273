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
	trusted atomic.Int64
	limit   time.Duration
	// overlap allows two to trust their term: where the lock was taken from a
	// leader behind its back, only the fence is left until it notices.
	overlap atomic.Bool

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
	*leader.Elector
	gate
	lease *lease
	lock  *lock
	leave func() // ends it, and waits for it
}

func newStage(t *testing.T, s Setting) *stage {
	st := &stage{T: t, setting: s, leads: make(chan leads, 1000), limit: 5 * time.Second}
	t.Cleanup(func() {
		st.mu.Lock()
		defer st.mu.Unlock()
		for _, c := range st.all {
			c.thaw()
			c.lease.renew(nil)
		}
		for _, c := range st.all {
			c.leave()
		}
	})
	return st
}

// enter starts a candidate; prepare changes its options.
func (st *stage) enter(prepare func(*candidate, *leader.Options)) *candidate {
	c := &candidate{}
	c.lease = &lease{LeaseStore: st.setting.Lease, gate: &c.gate}
	c.lock = &lock{Lock: st.setting.Lock(), gate: &c.gate}
	o := leader.Options{
		Lease: c.lease, Lock: c.lock, TTL: TTL, Now: st.setting.Now, MayLead: c.lease.mayLead, Logger: slog.New(slog.DiscardHandler),
	}
	if breaker, ok := c.lock.Lock.(leader.Breaker); ok {
		o.Lock = struct {
			*lock
			leader.Breaker
		}{c.lock, breaker}
	}
	if prepare != nil {
		prepare(c, &o)
	}
	c.Elector = leader.New(o)
	ctx, cancel := context.WithCancel(context.WithoutCancel(st.Context()))
	done := make(chan struct{})
	c.leave = sync.OnceFunc(func() { cancel(); <-done })
	st.mu.Lock()
	st.all = append(st.all, c)
	st.mu.Unlock()
	go func() {
		defer close(done)
		_ = c.Run(ctx, func(ctx, trusted context.Context, term schedule.Term) error {
			if n := st.trusted.Add(1); n > 1 && !st.overlap.Load() {
				st.Errorf("%d lead at a time", n)
			}
			defer st.trusted.Add(-1)
			st.leads <- leads{c, term, ctx, trusted, time.Now()}
			<-ctx.Done()
			return nil
		})
	}()
	return c
}

// enterAndLead starts a candidate and waits until it leads.
func (st *stage) enterAndLead(prepare func(*candidate, *leader.Options)) leads {
	st.Helper()
	c := st.enter(prepare)
	leads := st.next()
	if leads.candidate != c {
		st.Fatal("another leads")
	}
	return leads
}

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

// nobodyFor watches that no term begins.
func (st *stage) nobodyFor(d time.Duration, why string) {
	st.Helper()
	select {
	case l := <-st.leads:
		st.Errorf("%s, but epoch %d began", why, l.term.Epoch)
	case <-time.After(d):
	}
}

// ends waits until a term has ended, and says why.
func (st *stage) ends(l leads, within time.Duration) (cause error) {
	st.Helper()
	select {
	case <-l.ctx.Done():
	case <-time.After(within):
		st.Errorf("epoch %d goes on after %s", l.term.Epoch, within)
	}
	return context.Cause(l.trusted)
}

// row is the current leaders row.
func (st *stage) row() schedule.Leadership {
	st.Helper()
	rows, err := st.setting.Lease.Leaders(st.Context(), st.setting.Now())
	if err != nil || len(rows) != 1 {
		st.Fatalf("read the leaders: %d rows, %v", len(rows), err)
	}
	return rows[0]
}

// waitForLock waits until the row says that its leader has the lock as well.
func (st *stage) waitForLock(within time.Duration) {
	st.Helper()
	for end := time.Now().Add(within); !st.row().LockHeld; pause(50 * time.Millisecond) {
		if time.Now().After(end) {
			st.Fatalf("the leader has no lock after %s", within)
		}
	}
}

// pause is for polling state that sends no notification.
func pause(d time.Duration) { <-time.After(d) }
