package leadertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/worker/leader"
)

// TTL is how long a term lasts in this suite. Trust ends a second earlier.
const TTL = 3 * time.Second

// soon is how fast a leadership is handed over: far from waiting for an expiry.
const soon = 900 * time.Millisecond

// Setting is what the processes of one test compete for.
type Setting struct {
	Lease leader.LeaseStore
	Now   func() time.Time
	// Lock makes the hold of one more process on the one lock.
	Lock func() leader.Lock
}

// Run runs the suite. in calls a test with a setting of its own; it may do so
// in a synctest bubble.
func Run(t *testing.T, in func(t *testing.T, test func(*testing.T, Setting))) {
	for name, test := range map[string]func(*testing.T, Setting){
		"a lock has one holder, and the next gets it at once":            lockHasOneHolder,
		"whoever waits for a lock ends with its context":                 waitEndsWithContext,
		"of many electors one leads, and its resignation hands over":     oneLeadsAtATime,
		"a renewal that fails ends the term":                             failedRenewalEndsTerm,
		"trust counts from the start of the attempt that was successful": trustCountsFromTheStart,
		"trust ends in time though a renewal hangs for ever":             trustEndsThoughRenewalHangs,
		"a holder that hangs is replaced when its row has expired":       hungHolderIsReplaced,
		"a process that is not fit does not lead":                        unfitDoesNotLead,
		"the row decides where there is no lock to be had":               rowDecidesWithoutLock,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, test)
		})
	}
}

func lockHasOneHolder(t *testing.T, s Setting) {
	first, second := s.Lock(), s.Lock()
	ok(t, second.Release(t.Context()), "release a lock that is not held")
	ok(t, first.Acquire(t.Context()), "acquire")
	acquired := make(chan error, 1)
	go func() { acquired <- second.Acquire(t.Context()) }()
	select {
	case err := <-acquired:
		t.Fatalf("two hold the lock (%v)", err)
	case <-time.After(300 * time.Millisecond):
	}
	ok(t, first.Release(t.Context()), "release")
	select {
	case err := <-acquired:
		ok(t, err, "acquire after the release")
	case <-time.After(soon):
		t.Error("the next did not get the lock")
		ok(t, <-acquired, "acquire in the end")
	}
	ok(t, second.Release(t.Context()), "release")
	ok(t, first.Acquire(t.Context()), "acquire again")
	ok(t, first.Release(t.Context()), "release")
}

func waitEndsWithContext(t *testing.T, s Setting) {
	first, second := s.Lock(), s.Lock()
	ok(t, first.Acquire(t.Context()), "acquire")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := second.Acquire(ctx); err == nil {
		t.Error("two hold the lock")
	}
	if waited := time.Since(began); waited > soon {
		t.Errorf("the wait ended %s after its context", waited)
	}
	ok(t, second.Release(t.Context()), "release what was not acquired")
	ok(t, first.Release(t.Context()), "release")
	ok(t, second.Acquire(t.Context()), "acquire after a wait that was given up")
	ok(t, second.Release(t.Context()), "release")
}

func oneLeadsAtATime(t *testing.T, s Setting) {
	stage := newStage(t, s)
	for range 3 {
		stage.enter(nil)
	}
	var last int64
	for range 3 {
		leads := stage.next()
		if leads.term.Epoch <= last {
			t.Errorf("epoch %d came after %d", leads.term.Epoch, last)
		}
		last = leads.term.Epoch
		resigned := time.Now()
		leads.candidate.leave()
		if cause := context.Cause(leads.trusted); errors.Is(cause, leader.ErrTermLost) {
			t.Errorf("a term that was given back was lost: %v", cause)
		}
		if last == 3 {
			break
		}
		stage.waitFor(time.Since(resigned) + soon)
	}
}

func failedRenewalEndsTerm(t *testing.T, s Setting) {
	stage := newStage(t, s)
	first := stage.enter(nil)
	leads := stage.next()
	second := stage.enter(nil)
	first.lease.renew(func(context.Context) error { return errors.New("the store is down") })
	select {
	case <-leads.trusted.Done():
	case <-time.After(TTL/3 + soon):
		t.Error("the term goes on though it could not be renewed")
	}
	if cause := context.Cause(leads.trusted); !errors.Is(cause, leader.ErrTermLost) {
		t.Errorf("its cause is %v, want ErrTermLost", cause)
	}
	select {
	case <-leads.ctx.Done():
	case <-time.After(soon):
		t.Error("the term is not trusted any more, but was not told to end")
	}
	first.leave()
	if again := stage.next(); again.candidate != second || again.term.Epoch <= leads.term.Epoch {
		t.Errorf("epoch %d came after %d", again.term.Epoch, leads.term.Epoch)
	}
	if _, err := s.Lease.Renew(t.Context(), leads.term, schedule.RenewRequest{TTL: TTL, Now: s.Now()}); !errors.Is(err, schedule.ErrFenced) {
		t.Errorf("the old term is renewed: %v, want ErrFenced", err)
	}
}

func trustCountsFromTheStart(t *testing.T, s Setting) {
	stage := newStage(t, s)
	const took = 700 * time.Millisecond
	stage.enter(func(l *lease) {
		l.slow = took // the answer of the takeover is long on its way
		l.renew(hang)
	})
	leads := stage.next()
	<-leads.trusted.Done()
	if trusted := time.Since(leads.at); trusted > TTL-time.Second-took/2 {
		t.Errorf("trusted for %s after an answer that took %s; the row may have been extended right at the start", trusted, took)
	}
}

func trustEndsThoughRenewalHangs(t *testing.T, s Setting) {
	stage := newStage(t, s)
	stage.enter(func(l *lease) {
		l.renew(func(context.Context) error { <-stage.over; return errors.New("at last") })
	})
	leads := stage.next()
	<-leads.trusted.Done()
	if trusted := time.Since(leads.at); trusted > TTL-time.Second/2 {
		t.Errorf("trusted for %s, want no longer than the term less its margin", trusted)
	}
}

func hungHolderIsReplaced(t *testing.T, s Setting) {
	hung := s.Lock()
	ok(t, hung.Acquire(t.Context()), "acquire")
	term, won, err := s.Lease.Takeover(t.Context(), schedule.TakeoverRequest{Holder: "hung", TTL: TTL, LockHeld: true, Now: s.Now()})
	if err != nil || !won {
		t.Fatalf("take over: %t, %v", won, err)
	}
	expires := time.Now().Add(TTL)
	stage := newStage(t, s)
	stage.enter(nil)
	stage.waitFor(TTL + 2*time.Second)
	leads := stage.next()
	if leads.term.Epoch != term.Epoch+1 {
		t.Errorf("epoch %d came after %d", leads.term.Epoch, term.Epoch)
	}
	if early := expires.Sub(leads.at); early > 200*time.Millisecond {
		t.Errorf("replaced %s before its row had expired", early)
	}
	if _, err := s.Lease.Renew(t.Context(), term, schedule.RenewRequest{TTL: TTL, Now: s.Now()}); !errors.Is(err, schedule.ErrFenced) {
		t.Errorf("the hung holder wakes and renews: %v, want ErrFenced", err)
	}
	ok(t, hung.Release(t.Context()), "release")
}

func unfitDoesNotLead(t *testing.T, s Setting) {
	stage := newStage(t, s)
	unfit := stage.enter(func(l *lease) { l.unfit.Store(true) })
	select {
	case leads := <-stage.leads:
		t.Errorf("an unfit process leads in epoch %d", leads.term.Epoch)
	case <-time.After(soon):
	}
	fit := stage.enter(nil)
	stage.waitFor(2 * soon)
	leads := stage.next()
	if leads.candidate != fit {
		t.Error("an unfit process leads")
	}
	unfit.lease.unfit.Store(false)
	fit.lease.unfit.Store(true)
	if again := stage.next(); again.candidate != unfit {
		t.Error("a process that has become unfit still leads")
	}
}

// noLock is a lock that cannot be had.
type noLock struct{}

func (noLock) Acquire(context.Context) error { return errors.New("no connection is left") }
func (noLock) Release(context.Context) error { return nil }

func rowDecidesWithoutLock(t *testing.T, s Setting) {
	s.Lock = func() leader.Lock { return noLock{} }
	stage := newStage(t, s)
	stage.enter(nil)
	first := stage.next()
	stage.enter(nil)
	select {
	case second := <-stage.leads:
		t.Errorf("epoch %d began while another term ran", second.term.Epoch)
	case <-time.After(2 * time.Second):
	}
	first.candidate.leave()
	stage.next()
}

func ok(t *testing.T, err error, doing string) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", doing, err)
	}
}
