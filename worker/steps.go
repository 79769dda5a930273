package worker

import (
	"context"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Steps are the passes of one term, made by hand, one after the other, by whoever
// keeps the time: a simulation. They are the same passes that the loops of Run
// make at their instants. What a pass would hand to the launcher is held until it
// is called for, so that nothing runs beside anything else.
type Steps struct {
	term *term
	ctx  context.Context // of a simulation, as long as the term lasts
	held []heldCall
}

// heldCall is one call of the launcher, which holds it until at.
type heldCall struct {
	at   time.Time
	call func()
}

// NewSteps begins the term. Electors, balancer and waker are not asked.
func NewSteps(ctx context.Context, o Options, t schedule.Term) *Steps {
	w := New(o)
	w.calls, w.ending = ctx, ctx
	s := &Steps{term: w.newTerm(t, ctx, ctx), ctx: ctx}
	s.term.hold = func(at time.Time, call func()) {
		s.held = append(s.held, heldCall{at, call})
	}
	w.begins(s.term)
	return s
}

// Config is what the worker goes by, defaults filled in.
func (s *Steps) Config() Config { return s.term.cfg }

// Woken reports, once, whether a pass or a call has left something to Fire.
func (s *Steps) Woken() bool {
	select {
	case <-s.term.wake:
		return true
	default:
		return false
	}
}

// Tick plans what falls due inside the lookahead and ends what is past its
// bound.
func (s *Steps) Tick() {
	s.term.plan(s.ctx, never)
	s.term.sweep(s.ctx, never)
}

// Fire claims what is due or can be armed, sends again what has no answer, and
// sends cancels. next is when the next slot wants a pass; zero: none does.
func (s *Steps) Fire() (next time.Time, err error) {
	ahead := s.term.firePass(s.ctx, never)
	now := s.term.now()
	wait := s.term.untilArmed(now, ahead)
	if wait > never/2 {
		return time.Time{}, nil
	}
	return now.Add(max(0, wait)), nil
}

// LoadedUntil is the end of the window: a planned run that fires later is not in memory.
func (s *Steps) LoadedUntil() time.Time { return s.term.memory.loaded }

// Held is when the first of the calls that are held wants to be made.
func (s *Steps) Held() (at time.Time, ok bool) {
	i := s.first()
	if i < 0 {
		return time.Time{}, false
	}
	return s.held[i].at, true
}

// Call makes that call, and settles what it came to.
func (s *Steps) Call() {
	if i := s.first(); i >= 0 {
		call := s.held[i].call
		s.held = slices.Delete(s.held, i, i+1)
		call()
	}
}

// first is the earliest held call, of several the one that came first.
func (s *Steps) first() int {
	if len(s.held) == 0 {
		return -1
	}
	first := 0
	for i := range s.held {
		if s.held[i].at.Before(s.held[first].at) {
			first = i
		}
	}
	return first
}
