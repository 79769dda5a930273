package leadertest

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/worker/leader"
)

func failedRenewalEndsTerm(t *testing.T, s Setting) {
	stage := newStage(t, s)
	first := stage.enterAndLead(nil)
	second := stage.enter(nil)
	stage.nobodyFor(300*time.Millisecond, "the first leads")
	first.candidate.lease.renew(func(context.Context) error { return errors.New("the store is down") })
	if cause := stage.ends(first, TTL/4+s.Soon); !errors.Is(cause, leader.ErrTermLost) {
		t.Errorf("its cause is %v, want ErrTermLost", cause)
	}
	stage.limit = s.Soon
	if again := stage.next(); again.candidate != second || again.term.Epoch <= first.term.Epoch {
		t.Errorf("epoch %d came after %d", again.term.Epoch, first.term.Epoch)
	}
	if _, err := s.Lease.Renew(t.Context(), first.term, schedule.RenewRequest{TTL: TTL, Now: s.Now()}); !errors.Is(err, schedule.ErrFenced) {
		t.Errorf("the old term is renewed: %v, want ErrFenced", err)
	}
}

func failedKeepEndsTerm(t *testing.T, s Setting) {
	stage := newStage(t, s)
	first := stage.enterAndLead(nil)
	second := stage.enter(nil)
	stage.nobodyFor(300*time.Millisecond, "the first leads")
	first.candidate.lock.keepFails.Store(true)
	if cause := stage.ends(first, TTL/4+s.Soon); !errors.Is(cause, leader.ErrTermLost) {
		t.Errorf("its cause is %v, want ErrTermLost", cause)
	}
	stage.limit = s.Soon
	if again := stage.next(); again.candidate != second {
		t.Error("whoever lost the lock leads again")
	}
}

func replacedTermEnds(t *testing.T, s Setting) {
	stage := newStage(t, s)
	stage.overlap.Store(true)
	first := stage.enterAndLead(nil)
	other, won, err := s.Lease.Takeover(t.Context(), schedule.TakeoverRequest{Holder: "other", TTL: 2 * TTL, LockHeld: true, Now: s.Now()})
	if err != nil || !won {
		t.Fatalf("take over: %t, %v", won, err)
	}
	if cause := stage.ends(first, TTL/4+s.Soon); !errors.Is(cause, schedule.ErrFenced) {
		t.Errorf("its cause is %v, want ErrFenced", cause)
	}
	// The other one renews without the lock: the holder of the lock must not lead.
	for range 4 {
		_, err := s.Lease.Renew(t.Context(), other, schedule.RenewRequest{TTL: 2 * TTL, Now: s.Now()})
		ok(t, err, "renew the term that replaced it")
		stage.nobodyFor(300*time.Millisecond, "the other leads")
	}
}

func unknownTermIsResigned(t *testing.T, s Setting) {
	stage := newStage(t, s)
	stage.limit = 2*time.Second + s.Soon // and not an hour
	stage.enterAndLead(func(c *candidate, o *leader.Options) {
		o.TTL = time.Hour
		c.lease.loses.Store(true)
	})
}

func unresignedRowIsResigned(t *testing.T, s Setting) {
	stage := newStage(t, s)
	first := stage.enterAndLead(func(_ *candidate, o *leader.Options) { o.TTL = time.Hour })
	first.candidate.lease.mute.Store(true)
	first.candidate.lock.keepFails.Store(true)
	if cause := stage.ends(first, 2*time.Second+s.Soon); !errors.Is(cause, leader.ErrTermLost) {
		t.Errorf("its cause is %v, want ErrTermLost", cause)
	}
	stage.nobodyFor(time.Second, "the store is down")
	first.candidate.lock.keepFails.Store(false)
	first.candidate.lease.mute.Store(false)
	stage.limit = 2*time.Second + s.Soon // a second of pause at most, not an hour
	stage.next()
}

func trustCountsFromTheStart(t *testing.T, s Setting) {
	stage := newStage(t, s)
	const took = 700 * time.Millisecond
	leads := stage.enterAndLead(func(c *candidate, _ *leader.Options) {
		c.lease.slow = took // the answer of the takeover is long on its way
		c.lease.renew(hang)
	})
	<-leads.trusted.Done()
	if trusted := time.Since(leads.at); trusted > trust-took+s.slack() {
		t.Errorf("trusted for %s after an answer that took %s; the row may have been extended right at the start", trusted, took)
	}
}

func slowRenewalAddsNothing(t *testing.T, s Setting) {
	stage := newStage(t, s)
	began := make(chan time.Time, 2)
	var times int
	leads := stage.enterAndLead(func(c *candidate, _ *leader.Options) {
		c.lease.renew(func(ctx context.Context) error {
			began <- time.Now()
			if times++; times > 1 {
				return hang(ctx)
			}
			pause(trust / 2)
			return nil
		})
	})
	<-leads.trusted.Done()
	if trusted := time.Since(<-began); trusted > trust+s.slack() {
		t.Errorf("trusted for %s from the start of the only good renewal, want %s", trusted, trust)
	}
}

func trustEndsThoughRenewalHangs(t *testing.T, s Setting) {
	stage := newStage(t, s)
	over := make(chan struct{})
	leads := stage.enterAndLead(func(c *candidate, _ *leader.Options) {
		c.lease.renew(func(context.Context) error { <-over; return errors.New("at last") })
	})
	<-leads.trusted.Done()
	if trusted := time.Since(leads.at); trusted > trust+s.slack() {
		t.Errorf("trusted for %s, want no longer than the term less its margin", trusted)
	}
	close(over)
}

func stoppedIsReplaced(t *testing.T, s Setting) {
	stage := newStage(t, s)
	first := stage.enterAndLead(nil)
	second := stage.enter(nil)
	third := stage.enter(nil)
	stage.nobodyFor(300*time.Millisecond, "the first leads")
	first.candidate.freeze()
	expires := time.Until(stage.row().ExpiresAt)
	frozen := time.Now()
	stage.limit = TTL + 2*time.Second
	leads := stage.next()
	if leads.candidate != second && leads.candidate != third || leads.term.Epoch != first.term.Epoch+1 {
		t.Errorf("epoch %d came after %d", leads.term.Epoch, first.term.Epoch)
	}
	took := leads.at.Sub(frozen)
	if took < expires-200*time.Millisecond {
		t.Errorf("replaced %s after it stood still, %s before its row had expired", took, expires-took)
	}
	if took > expires+s.Soon {
		t.Errorf("replaced %s after its row had expired", took-expires)
	}
	stage.nobodyFor(time.Second, "the new one leads, with or without the lock")
	first.candidate.thaw()
	stage.nobodyFor(TTL, "the old one has woken up and leaves the new one alone")
	if cause := context.Cause(leads.trusted); cause != nil {
		t.Errorf("the new term was lost: %v", cause)
	}
	stage.waitForLock(2 * TTL)
	stage.nobodyFor(TTL/2, "the new one leads, now with the lock")
}

func freedLockSaysNothing(t *testing.T, s Setting) {
	outside := s.Lock()
	ok(t, outside.Acquire(t.Context()), "acquire")
	stage := newStage(t, s)
	first := stage.enterAndLead(nil) // no leader yet, and the lock is unavailable
	if stage.row().LockHeld {
		t.Error("the row says that the leader has the lock")
	}
	for range 2 {
		stage.enter(nil)
	}
	stage.nobodyFor(300*time.Millisecond, "the first leads")
	ok(t, outside.Release(t.Context()), "release")
	stage.waitForLock(TTL + 2*time.Second)
	stage.nobodyFor(time.Second, "the first leads")
	if row := stage.row(); row.Epoch != first.term.Epoch || context.Cause(first.trusted) != nil {
		t.Errorf("epoch %d leads, want %d undisturbed", row.Epoch, first.term.Epoch)
	}
	first.candidate.leave()
	stage.limit = s.Soon
	stage.next()
}

// noLock is a lock that cannot be had.
type noLock struct{}

func (noLock) Acquire(context.Context) error { return errors.New("no connection is left") }
func (noLock) Keep(context.Context) error    { return errors.New("no connection is left") }
func (noLock) Release(context.Context) error { return nil }

func rowDecidesWithoutLock(t *testing.T, s Setting) {
	s.Lock = func() leader.Lock { return noLock{} }
	stage := newStage(t, s)
	first := stage.enterAndLead(nil)
	stage.enter(nil)
	stage.nobodyFor(2*time.Second, "another term runs")
	first.candidate.leave()
	stage.next()
}

// otherLock is a lock that no other process has.
type otherLock struct{}

func (otherLock) Acquire(context.Context) error { return nil }
func (otherLock) Keep(context.Context) error    { return nil }
func (otherLock) Release(context.Context) error { return nil }

func otherLockWaits(t *testing.T, s Setting) {
	stage := newStage(t, s)
	first := stage.enterAndLead(func(_ *candidate, o *leader.Options) { o.LockKind = "this" })
	log := &lines{}
	second := stage.enter(func(_ *candidate, o *leader.Options) {
		o.Lock, o.LockKind, o.Logger = otherLock{}, "that", slog.New(slog.NewTextHandler(log, nil))
	})
	stage.nobodyFor(TTL+s.Soon, "the first lives")
	if n := log.count("the leader uses another lock"); n != 1 || log.count("leader_lock=this") != 1 {
		t.Errorf("that the leader uses another lock was said %d times, want once with its kind:\n%s", n, log.text.String())
	}
	first.candidate.freeze()
	expires := time.Until(stage.row().ExpiresAt)
	frozen := time.Now()
	stage.limit = TTL + 2*time.Second
	leads := stage.next()
	if took := leads.at.Sub(frozen); leads.candidate != second || took < expires-200*time.Millisecond {
		t.Errorf("the first was replaced %s after it stood still, its row expired after %s", took, expires)
	}
	first.candidate.thaw()
	stage.nobodyFor(TTL, "the second leads, and the first has its own lock again")
	second.leave()
	stage.limit = 2 * s.Soon
	if leads := stage.next(); leads.candidate != first.candidate {
		t.Error("another leads")
	}
}

// lines keeps what was logged.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(word string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), word)
}

func refusedAsksAgain(t *testing.T, s Setting) {
	stage := newStage(t, s)
	log := &lines{}
	refused := stage.enter(func(c *candidate, o *leader.Options) {
		c.lease.refused.Store(true)
		o.Logger = slog.New(slog.NewTextHandler(log, nil))
	})
	stage.nobodyFor(4*time.Second, "the number of shards is another")
	if n := refused.lease.takeovers.Load(); n < 1 || n > 6 {
		t.Errorf("it asked %d times in four seconds", n)
	}
	if n := log.count("2 is recorded"); n != 1 {
		t.Errorf("it was said %d times, want once", n)
	}
	stage.limit = s.Soon
	other := stage.enterAndLead(nil) // the lock is free for it
	other.candidate.leave()
	refused.lease.refused.Store(false)
	stage.limit = 4 * time.Second
	if leads := stage.next(); leads.candidate != refused {
		t.Error("another leads")
	}
}
