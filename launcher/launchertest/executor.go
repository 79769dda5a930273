package launchertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
)

// ErrReplyLost is the caller's error for a dropped reply: the outcome is unknown.
var ErrReplyLost = errors.New("the reply was lost")

// Behavior is the behavior of one call. The zero value takes effect and answers
// SUCCESS.
type Behavior struct {
	Delay time.Duration // before anything happens

	// At most one; the call takes no effect.
	NotSent bool              // ErrNotSent
	Refuse  *launcher.Refusal // a definite refusal
	Hang    bool              // nothing until the caller gives up
	Fail    error             // this error, outcome unknown

	// What happens once it took effect.
	DropReply  bool             // it ran, and the answer is lost
	AcceptOnly bool             // ENQUEUED; it goes on until End or Cancel
	Outcome    schedule.Outcome // the answer otherwise; zero: SUCCESS
}

// Executor records every call and keeps the contract: a repeated key gets the first
// answer. It is safe for concurrent use; make it with New.
type Executor struct {
	Effects Effects

	mu           sync.Mutex
	behavior     Behavior
	byKey        map[schedule.Key][]Behavior
	forgetful    bool
	noCancel     bool
	noGetByKey   bool
	outcomes     map[schedule.Key]schedule.Outcome
	calls        []launcher.Call
	cancels      []schedule.CancelRequest
	somethingNew chan struct{} // closed and replaced at every call
}

var _ launcher.Executor = (*Executor)(nil)

// New returns an executor that lets each run take effect and succeed.
func New() *Executor {
	return &Executor{
		byKey: make(map[schedule.Key][]Behavior), outcomes: make(map[schedule.Key]schedule.Outcome),
		somethingNew: make(chan struct{}),
	}
}

// Behave sets the behavior of calls from now on.
func (e *Executor) Behave(b Behavior) { e.set(func() { e.behavior = b }) }

// BehaveFor sets the behavior of the next calls of one key, in order; after them the
// general behavior applies again.
func (e *Executor) BehaveFor(key schedule.Key, next ...Behavior) {
	e.set(func() { e.byKey[key] = slices.Clone(next) })
}

// Forget makes the executor break the contract: a repeated key takes effect again.
func (e *Executor) Forget() { e.set(func() { e.forgetful = true }) }

// WithoutCancel makes Cancel answer ErrUnsupported.
func (e *Executor) WithoutCancel() { e.set(func() { e.noCancel = true }) }

// WithoutGetByKey makes GetByKey answer ErrUnsupported.
func (e *Executor) WithoutGetByKey() { e.set(func() { e.noGetByKey = true }) }

func (e *Executor) set(change func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change()
}

// Run behaves as Behave and BehaveFor have set.
func (e *Executor) Run(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
	b := e.record(call)
	if b.Delay > 0 {
		timer := time.NewTimer(b.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return schedule.Outcome{}, ctx.Err()
		}
	}
	switch {
	case b.NotSent:
		return schedule.Outcome{}, fmt.Errorf("test: %w", launcher.ErrNotSent)
	case b.Refuse != nil:
		return schedule.Outcome{}, b.Refuse
	case b.Hang:
		<-ctx.Done()
		return schedule.Outcome{}, ctx.Err()
	case b.Fail != nil:
		return schedule.Outcome{}, b.Fail
	}
	outcome := e.takeEffect(call.Key, b)
	if b.DropReply {
		return schedule.Outcome{}, ErrReplyLost
	}
	return outcome, nil
}

// record records the call and returns its behavior.
func (e *Executor) record(call launcher.Call) Behavior {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls = append(e.calls, call)
	e.tell()
	if next := e.byKey[call.Key]; len(next) > 0 {
		e.byKey[call.Key] = next[1:]
		return next[0]
	}
	return e.behavior
}

// tell wakes callers of Await; e.mu is held.
func (e *Executor) tell() {
	close(e.somethingNew)
	e.somethingNew = make(chan struct{})
}

// takeEffect keeps the contract: a key has one effect and one outcome.
func (e *Executor) takeEffect(key schedule.Key, b Behavior) schedule.Outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	if outcome, known := e.outcomes[key]; known && !e.forgetful {
		return outcome
	}
	outcome := b.Outcome
	switch {
	case b.AcceptOnly:
		outcome = schedule.Outcome{Status: schedule.StatusEnqueued}
	case outcome.Status == "":
		outcome.Status = schedule.StatusSuccess
	}
	if outcome.RunID == "" {
		outcome.RunID = "run-" + key.String()[:8]
	}
	e.Effects.Add(key)
	e.outcomes[key] = outcome
	return outcome
}

// End ends a run that was only accepted, for GetByKey and repeats.
func (e *Executor) End(key schedule.Key, outcome schedule.Outcome) {
	e.set(func() {
		outcome.RunID = e.outcomes[key].RunID
		e.outcomes[key] = outcome
	})
}

// Cancel ends a run that goes on.
func (e *Executor) Cancel(_ context.Context, ref schedule.CancelRequest) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cancels = append(e.cancels, ref)
	e.tell()
	if e.noCancel {
		return launcher.ErrUnsupported
	}
	outcome, known := e.outcomes[ref.Key]
	if !known {
		return schedule.ErrNotFound
	}
	if outcome.Status == schedule.StatusEnqueued {
		e.outcomes[ref.Key] = schedule.Outcome{Status: schedule.StatusFailed, RunID: outcome.RunID, ErrorCode: "cancelled"}
	}
	return nil
}

// GetByKey answers with the state of a key.
func (e *Executor) GetByKey(_ context.Context, ref schedule.RunRef) (schedule.Outcome, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.noGetByKey {
		return schedule.Outcome{}, launcher.ErrUnsupported
	}
	outcome, known := e.outcomes[ref.Key]
	if !known {
		return schedule.Outcome{}, schedule.ErrNotFound
	}
	return outcome, nil
}

// Calls lists the calls of Run in order, repeats included.
func (e *Executor) Calls() []launcher.Call {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.calls)
}

// Deliveries is how often Run was called for a key.
func (e *Executor) Deliveries(key schedule.Key) int {
	n := 0
	for _, call := range e.Calls() {
		if call.Key == key {
			n++
		}
	}
	return n
}

// Cancels lists the calls of Cancel in order.
func (e *Executor) Cancels() []schedule.CancelRequest {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.cancels)
}

// Await waits until done returns true; it asks at once and after every call of Run
// and Cancel.
func (e *Executor) Await(ctx context.Context, done func(*Executor) bool) error {
	for {
		e.mu.Lock()
		next := e.somethingNew
		e.mu.Unlock()
		if done(e) {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return fmt.Errorf("await the executor: %w", ctx.Err())
		}
	}
}
