package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/tracing"
)

// Errors of a start without an outcome. The same key may be sent again later.
var (
	// ErrBusy: another call of this key is open.
	ErrBusy = schedule.ErrBusy
	// ErrWithheld: a check failed, but that is not final.
	ErrWithheld = schedule.ErrWithheld
	// ErrOutcomeUnknown: the executor was called and did not answer definitely.
	ErrOutcomeUnknown = errors.New("outcome unknown")
)

// Start starts one run. The outcomes:
//
//   - the key is new: the call is recorded, the DAG loaded, the executor called,
//     its answer recorded and returned;
//   - the key is known and done: the recorded answer, success or error;
//   - the key was used for another request: FAILED(key_conflict);
//   - nothing was sent, and the schedule is paused or deleted, a cancel of the run
//     was requested, or its grant does not allow it: SKIPPED or CANCELLED, final;
//   - anything else is an error, and the same key may be sent again.
func (l *Launcher) Start(ctx context.Context, req schedule.StartRequest) (reply schedule.StartReply, err error) {
	l.StartAll(ctx, []schedule.StartRequest{req}, func(_ int, r schedule.StartReply, e error) { reply, err = r, e })
	return reply, err
}

// StartAll starts runs and returns when each is answered. answer is called once for each,
// as soon as its outcome is known, in any goroutine; it must not wait.
func (l *Launcher) StartAll(ctx context.Context, reqs []schedule.StartRequest, answer func(i int, reply schedule.StartReply, err error)) {
	l.StartBatch(ctx, reqs, nil, answer)
}

// StartBatch is StartAll for runs that can be withdrawn: run i gives up when withdrawn
// has i.
func (l *Launcher) StartBatch(ctx context.Context, reqs []schedule.StartRequest, withdrawn <-chan int, answer func(i int, reply schedule.StartReply, err error)) {
	starts := make([]*start, len(reqs))
	for i := range reqs {
		starts[i] = &start{Launcher: l, req: reqs[i], span: l.tracer.Start(&reqs[i])}
		starts[i].hash, starts[i].invalid = requestHash(reqs[i])
	}
	l.startAll(ctx, starts, withdrawn, answer)
}

// startAll runs starts until all are answered. A start has no goroutine of its own: it
// goes on in that of the batch or the timer that it waited for.
func (l *Launcher) startAll(ctx context.Context, starts []*start, withdrawn <-chan int, answer func(i int, reply schedule.StartReply, err error)) {
	if len(starts) == 0 {
		return
	}
	var open atomic.Int64
	open.Store(int64(len(starts)))
	answered := make(chan struct{})
	var due []*start
	for i, s := range starts {
		s.sender = ctx
		s.answer = func(reply schedule.StartReply, err error) {
			answer(i, reply, err)
			if open.Add(-1) == 0 {
				close(answered)
			}
		}
		if s.arrive() {
			due = append(due, s)
		}
	}
	l.begins.Add(due...)
	for ended := ctx.Done(); ; {
		select {
		case <-answered:
			return
		case i := <-withdrawn:
			starts[i].giveUp()
		case <-ended:
			ended = nil
			for _, s := range starts {
				s.giveUp()
			}
		}
	}
}

// start is one run that is being started.
type start struct {
	*Launcher
	req       schedule.StartRequest
	hash      [32]byte
	invalid   error           // the request cannot be sent
	sender    context.Context // the start gives up when it ends
	answer    func(schedule.StartReply, error)
	checks    int            // answers of Begin that were not Busy
	busy      time.Time      // since when the key is busy; zero: it is not
	pause     time.Duration  // before it is begun again
	lease     *lease         // of the key while this process holds it
	state     schedule.State // of its schedule, when the call was permitted
	before    int32          // calls of the key that may have reached the executor earlier
	slotHeld  bool           // the start has one of the MaxCalls calls
	slotOwner string         // owner for which it has it: a repeated check may change that of a graph run
	asked     bool           // the executor was asked by key and does not know it or cannot answer
	graph     *GraphRun      // nil: a run in the ledger
	span      tracing.Span
	loaded    bool
	prepared  Call      // the call without deadline and trace
	checkedAt time.Time // time of the last check
	called    called
	done      schedule.FinishRequest

	mu     sync.Mutex
	gaveUp bool
	ended  bool
	armed  *armed  // at the instant that it last waited for
	waiter *waiter // for the call that it last waited for
}

// arrive reports whether the key is to be begun now. An early start is checked and
// recorded ahead of fire_at, but so late that the check is still valid at fire_at.
func (s *start) arrive() bool {
	switch {
	case s.sender.Err() != nil:
		s.leave()
	case s.invalid != nil:
		s.refuse(schedule.CodeInvalidInput, schedule.ReasonLaunchRefused, s.invalid.Error())
	default:
		return !s.arm(s.req.FireAt.Add(-CheckAhead), s.begin)
	}
	return false
}

// refuse answers FAILED at fire_at: nothing is final before it.
func (s *start) refuse(code schedule.ErrorCode, reason schedule.Reason, message string) {
	s.at(s.req.FireAt, func() { s.end(refusal(reason, code, message), nil) })
}

// arm has the start go on with next at an instant. false: the instant has passed.
func (s *start) arm(instant time.Time, next func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gaveUp {
		instant = time.Time{}
	}
	s.armed = s.timers.arm(instant, func() { s.safely(next) })
	return s.armed != nil
}

// at is arm that goes on at once if the instant has passed.
func (s *start) at(instant time.Time, next func()) {
	if s.arm(instant, next) {
		return
	}
	if s.givenUp() {
		s.leave()
		return
	}
	next()
}

// giveUp ends a start that waits for an instant or for a free call. A call that has begun
// is not interrupted, and its outcome is recorded.
func (s *start) giveUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gaveUp {
		return
	}
	s.gaveUp = true
	if s.armed != nil && s.timers.takeBack(s.armed) || s.waiter != nil && s.limiter.withdraw(s.waiter) {
		go s.safely(s.leave)
	}
}

func (s *start) givenUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gaveUp
}

// leave ends a start that has given up before its call.
func (s *start) leave() {
	err := cmp.Or(context.Cause(s.sender), context.Canceled)
	if s.lease != nil {
		s.releaseKey(s.before)
		err = fmt.Errorf("%w: %w", ErrWithheld, err)
	}
	s.end(schedule.StartReply{}, err)
}

// end answers the start, once.
func (s *start) end(reply schedule.StartReply, err error) {
	s.mu.Lock()
	again := s.ended
	s.ended = true
	s.mu.Unlock()
	if again { // a bug in answer
		return
	}
	if s.lease != nil {
		s.renewer.forget(s)
	}
	s.releaseSlot()
	s.span.End(reply.Outcome, err)
	s.answer(reply, err)
}

// safely makes a step of the start. A panic ends this start and no other.
func (s *start) safely(step func()) {
	if err := s.guard(func() error { step(); return nil }); err != nil {
		s.end(schedule.StartReply{}, err)
	}
}
