package leadertest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon/carillon/worker/leader"
)

func oneLeadsAtATime(t *testing.T, s Setting) {
	stage := newStage(t, s)
	for range 3 {
		stage.enter(nil)
	}
	var last leads
	for n := range 3 {
		leads := stage.next()
		if leads.term.Epoch <= last.term.Epoch {
			t.Errorf("epoch %d came after %d", leads.term.Epoch, last.term.Epoch)
		}
		last = leads
		left := time.Now()
		leads.candidate.leave()
		if cause := context.Cause(leads.trusted); cause != nil && !errors.Is(cause, context.Canceled) {
			t.Errorf("a term that was given back was lost: %v", cause)
		}
		if n < 2 {
			stage.limit = time.Since(left) + s.Soon
		}
	}
}

func resignedComesLast(t *testing.T, s Setting) {
	stage := newStage(t, s)
	first := stage.enterAndLead(nil)
	second := stage.enter(nil)
	stage.nobodyFor(300*time.Millisecond, "the first leads") // and the second waits for the lock
	stage.limit = s.Soon
	first.candidate.Resign()
	leads := stage.next()
	if leads.candidate != second {
		t.Error("whoever resigned came before the one that waited")
	}
	stage.nobodyFor(time.Second, "the second leads")
	second.Resign()
	if again := stage.next(); again.candidate != first.candidate {
		t.Error("whoever resigned came before the one that had rejoined")
	}
}

func askedHandsOver(t *testing.T, s Setting) {
	stage := newStage(t, s)
	first := stage.enterAndLead(nil)
	second := stage.enter(nil)
	stage.nobodyFor(300*time.Millisecond, "the first leads")
	stage.waitForLock(TTL)
	asked, err := s.Lease.AskToResign(t.Context(), 0, s.Now())
	ok(t, err, "ask to resign")
	if asked.Epoch != first.term.Epoch {
		t.Errorf("epoch %d was asked, want %d", asked.Epoch, first.term.Epoch)
	}
	stage.limit = TTL/4 + s.Soon
	if leads := stage.next(); leads.candidate != second {
		t.Error("whoever was asked to resign leads on")
	}
	stage.nobodyFor(TTL/2, "only one term was asked to end")
}

func resignStress(t *testing.T, s Setting) {
	stage := newStage(t, s)
	for range 4 {
		stage.enter(nil)
	}
	var last int64
	stage.limit = TTL + 2*time.Second
	for n := range 40 {
		leads := stage.next()
		if leads.term.Epoch <= last {
			t.Errorf("epoch %d came after %d", leads.term.Epoch, last)
		}
		last = leads.term.Epoch
		for range n%3 + 1 { // once more is as good as once
			leads.candidate.Resign()
		}
		if cause := stage.ends(leads, s.Soon); errors.Is(cause, leader.ErrTermLost) {
			t.Errorf("a term that was given back was lost: %v", cause)
		}
	}
}

func smallestTTLHolds(t *testing.T, s Setting) {
	smallest := 2 * time.Second
	if !s.exact() {
		smallest = 5 * time.Second // a busy machine may stand still for longer than it leaves
	}
	stage := newStage(t, s)
	leads := stage.enterAndLead(func(_ *candidate, o *leader.Options) { o.TTL = smallest })
	stage.enter(func(_ *candidate, o *leader.Options) { o.TTL = smallest })
	stage.nobodyFor(3*smallest/2, "the first leads")
	if cause := context.Cause(leads.trusted); cause != nil {
		t.Errorf("the term was lost: %v", cause)
	}
}

func defersToOthers(t *testing.T, s Setting) {
	stage := newStage(t, s)
	first := stage.enterAndLead(nil)
	var asked atomic.Int64
	rich := stage.enter(func(_ *candidate, o *leader.Options) {
		o.Defer = func(context.Context) bool {
			asked.Add(1)
			return stage.row().Expired
		}
	})
	stage.nobodyFor(300*time.Millisecond, "the first leads")
	poor := stage.enter(nil)
	stage.nobodyFor(300*time.Millisecond, "the first leads")
	first.candidate.leave()
	leads := stage.next()
	if leads.candidate != poor && s.exact() { // else it may have been too slow for one chance
		t.Error("the worker that has its share was faster")
	}
	if leads.candidate != poor {
		return
	}
	poor.leave()
	stage.limit = TTL
	if leads := stage.next(); leads.candidate != rich {
		t.Error("nobody else is there, but the worker that has its share does not lead")
	}
	if asked.Load() == 0 {
		t.Error("it was never asked")
	}
}

func barredDoesNotLead(t *testing.T, s Setting) {
	stage := newStage(t, s)
	barred := stage.enter(func(c *candidate, _ *leader.Options) { c.lease.barred.Store(true) })
	stage.nobodyFor(s.Soon, "the process must not lead")
	stage.limit = 2 * s.Soon
	other := stage.enterAndLead(nil)
	barred.lease.barred.Store(false)
	stage.nobodyFor(s.Soon, "another leads")
	other.candidate.lease.barred.Store(true)
	if again := stage.next(); again.candidate != barred {
		t.Error("a process that must not lead any more still leads")
	}
}
