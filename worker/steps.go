package worker

import (
	"context"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Steps runs the passes of one term one after the other, for a simulation that keeps its
// own time. They are the passes of Run's loops. A call of the launcher is held until Call,
// so that nothing runs concurrently.
type Steps struct {
	term *term
	ctx  context.Context // of a simulation, as long as the term lasts
	held []heldCall
}

// heldCall is one call of the launcher, made at at.
type heldCall struct {
	at   time.Time
	call func()
}

// NewSteps begins the term. Electors, balancer and waker are not used.
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

// Config returns the configuration with its defaults.
func (s *Steps) Config() Config { return s.term.cfg }

// Woken reports whether a pass or call has asked for another Fire, and clears that.
func (s *Steps) Woken() bool {
	select {
	case <-s.term.wake:
		return true
	default:
		return false
	}
}

// Tick plans the slots inside the lookahead and ends runs that are past their bound.
func (s *Steps) Tick() {
	s.term.plan(s.ctx, never)
	s.term.sweep(s.ctx, never)
}

// Fire claims due and early slots, sends runs without an answer again, and sends cancels.
// next is when the next slot needs a pass; zero: none does.
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

// Held returns the instant of the earliest held call.
func (s *Steps) Held() (at time.Time, ok bool) {
	i := s.first()
	if i < 0 {
		return time.Time{}, false
	}
	return s.held[i].at, true
}

// Call makes the earliest held call and settles its run.
func (s *Steps) Call() {
	if i := s.first(); i >= 0 {
		call := s.held[i].call
		s.held = slices.Delete(s.held, i, i+1)
		call()
	}
}

// first is the index of the earliest held call; of equal ones, of the oldest.
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
