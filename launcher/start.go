package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon/carillon/internal/failpoint"
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

// renewals bounds the checks of one start. A check is repeated if it expired while
// the DAG was loaded or the executor was asked by key.
const renewals = 3

// busyWait is how long a start waits for another open call of its key. The pauses
// are short because the key is free as soon as its holder is proven to be gone.
const (
	busyWait     = 5 * time.Second
	minBusyPause = 20 * time.Millisecond
	maxBusyPause = 100 * time.Millisecond
)

// start is one run that is being started.
type start struct {
	*Launcher
	req       schedule.StartRequest
	hash      [32]byte
	invalid   error           // the request cannot be sent
	sender    context.Context // the start gives up when it ends
	answer    func(schedule.StartReply, error)
	checks    int           // answers of Begin that were not Busy
	busy      time.Time     // since when the key is busy; zero: it is not
	pause     time.Duration // before it is begun again
	lease     *lease        // of the key while this process holds it
	before    int32         // calls of the key that may have reached the executor earlier
	slotHeld  bool          // the start has one of the MaxCalls calls
	slotOwner string        // owner for which it has it: a repeated check may change that of a graph run
	asked     bool          // the executor was asked by key and does not know it or cannot answer
	graph     *GraphRun     // nil: a run in the ledger
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
	if err := s.guard(step); err != nil {
		s.end(schedule.StartReply{}, err)
	}
}

func (s *start) begin() { s.begins.Add(s) }

// beginRequest asks for the key; beginAll sets the lease.
func (s *start) beginRequest() schedule.BeginRequest {
	return schedule.BeginRequest{
		Key: s.req.Key, RequestHash: s.hash, ScheduleID: s.req.ScheduleID, ScheduledFor: s.req.ScheduledFor, Trigger: s.req.Trigger,
		Version: s.req.Version, Input: s.req.Input, Grant: s.grantUse(), FireAt: s.req.FireAt,
	}
}

// begun continues with the answer of Begin.
func (s *start) begun(b *begun) {
	if b.Permission == schedule.Busy {
		s.beginLater()
		return
	}
	s.busy = time.Time{}
	s.checks++
	switch {
	case b.granted():
		s.granted(b)
	case b.Permission == schedule.Recorded, b.Permission == schedule.Refused:
		s.end(schedule.StartReply{Outcome: b.Request.Outcome, Deliveries: b.Request.Calls, Settled: b.Settled}, nil)
	case b.Permission == schedule.Conflict:
		s.refuse(schedule.CodeKeyConflict, schedule.ReasonKeyConflict, "the key is that of another request")
	default:
		if !s.now().Before(s.req.FireAt) {
			s.withheld(b)
			return
		}
		// A check before fire_at is not final: repeat it then.
		s.at(s.req.FireAt, s.checkAgain)
	}
}

// checkAgain begins the key once more: the check was too old, or not final.
func (s *start) checkAgain() {
	if s.checks == renewals {
		s.end(schedule.StartReply{}, fmt.Errorf("%w: the check of pause and cancel was too old %d times", ErrWithheld, renewals))
		return
	}
	s.begin()
}

// beginLater waits, up to busyWait, for another open call of the key.
func (s *start) beginLater() {
	now := s.now()
	if s.busy.IsZero() {
		s.busy, s.pause = now, minBusyPause/2
	}
	if now.Sub(s.busy) >= busyWait {
		s.end(schedule.StartReply{}, ErrBusy)
		return
	}
	s.pause = min(2*s.pause, maxBusyPause)
	// The random part separates two starts of one key that waited for one batch.
	s.at(now.Add(s.pause+s.renewer.spread(s.req.Key, maxBusyPause/4)), s.begin)
}

// grantUse is the grant that Begin checks. For a graph run, permitted checks it
// later, because the owner is not known yet.
func (s *start) grantUse() schedule.GrantUse {
	if s.graph != nil {
		return schedule.GrantUse{}
	}
	return s.req.GrantUse(s.cfg.RequireGrant)
}

// granted continues with a key that this process holds. If an earlier call may
// have arrived it asks the executor by key. Then it loads the DAG and calls the
// executor.
//
// Crash before the call: the run names this process as holder, so the next sender
// asks or sends the same key when the lease is over. Crash between the call and
// Finish: the executor knows the key and honours it.
func (s *start) granted(b *begun) {
	failpoint.Hit(failpoint.KeyRecorded)
	s.lease, s.before, s.checkedAt = b.lease, b.Request.Calls-1, b.checkedAt
	switch {
	case b.Sent && !s.asked && s.ask():
	case s.overdue():
		s.release(fmt.Errorf("%w: the time to launch it ended at %s", ErrWithheld, s.req.SendUntil.Format(time.RFC3339)))
	case s.graph != nil && !s.permitted(b.Sent):
	default:
		s.load(b.Sent)
	}
}

// release ends the start without an outcome; its key may be sent again at once.
func (s *start) release(err error) {
	s.releaseKey(s.before)
	s.end(schedule.StartReply{}, err)
}

// overdue reports whether the run may no longer be sent.
func (s *start) overdue() bool {
	return !s.req.SendUntil.IsZero() && s.now().After(s.req.SendUntil)
}

// ask asks the executor for the outcome of the key. over = false: the executor
// does not know the key or cannot answer.
func (s *start) ask() (over bool) {
	outcome, err := s.getByKey()
	switch {
	case err == nil:
		s.finish(outcome, time.Time{})
		return true
	case errors.Is(err, schedule.ErrNotFound), errors.Is(err, ErrUnsupported):
		s.asked = true
		return false
	}
	s.release(s.failed(fmt.Errorf("%w: ask by key: %w", ErrOutcomeUnknown, err)))
	return true
}

func (s *start) getByKey() (schedule.Outcome, error) {
	ctx, cancel := context.WithTimeout(s.sender, s.cfg.CallTimeout)
	defer cancel()
	return s.executor.GetByKey(ctx, schedule.RunRef{
		Key: s.req.Key, ScheduleID: s.req.ScheduleID, ScheduledFor: s.req.ScheduledFor,
	})
}

// withheld answers for a key that may not be sent. If the key was sent before, it
// asks the executor by key first.
func (s *start) withheld(b *begun) {
	if b.Sent {
		if outcome, err := s.getByKey(); err == nil {
			s.finish(outcome, time.Time{})
			return
		}
	}
	s.end(schedule.StartReply{}, fmt.Errorf("%w: %s", ErrWithheld, b.Reason))
}

// load loads the DAG, once for each check, and has the call made at fire_at. sent: an
// earlier call may have reached the executor. A missing DAG is final only from fire_at
// on, because it may be deployed until then.
func (s *start) load(sent bool) {
	if s.loaded {
		s.at(s.req.FireAt, s.due)
		return
	}
	early := s.now().Before(s.req.FireAt)
	dag, err := s.workflows.LoadDAG(s.loads.from(time.Now()), s.req.UserID, s.req.WorkflowID, s.req.Version)
	if err == nil {
		s.loaded = true
		s.prepare(dag)
		s.at(s.req.FireAt, s.due)
		return
	}
	verdict, definite := s.unloadable(err)
	switch {
	case definite && early:
		s.at(s.req.FireAt, func() { s.load(sent) })
	case definite && !sent && s.renewer.held(s.lease):
		s.finish(verdict.Outcome, time.Time{})
	default:
		s.release(&schedule.LaunchError{
			Code: schedule.CodeWorkflowUnavailable, Err: fmt.Errorf("load workflow %s version %d: %w", s.req.WorkflowID, s.req.Version, err),
		})
	}
}

// prepare builds the call before its instant.
func (s *start) prepare(dag []byte) {
	s.prepared = Call{StartRequest: s.req, DAG: dag}
	// Not that of the sender.
	s.prepared.TraceParent = s.tracer.NotSampled(s.req.Key)
	if s.graph != nil {
		s.prepared.ClientKey = s.graph.Key // the ledger has no row of it: no report_url
	} else if s.cfg.PublicURL != "" {
		s.prepared.ReportURL = strings.TrimRight(s.cfg.PublicURL, "/") + "/v1/runs/" + s.req.Key.String() + ":report"
		s.prepared.ReportToken = schedule.ReportToken(s.cfg.ReportSecret, s.req.Key)
	}
}

// unloadable returns the outcome of a run whose DAG cannot be loaded. Not
// definite: the workflow store is unavailable.
func (s *start) unloadable(err error) (verdict schedule.StartReply, definite bool) {
	if invalid, ok := errors.AsType[*schedule.InvalidError](err); ok {
		return refusal(schedule.ReasonLaunchRefused, schedule.CodeWorkflowInvalid, schedule.Storable(invalid.Error(), schedule.MaxErrorMessage)), true
	}
	// The text must not reveal whether the workflow exists for another owner.
	message := fmt.Sprintf("the workflow store holds no version %d of %q for owner %q", s.req.Version, s.req.WorkflowID, s.req.UserID)
	return refusal(schedule.ReasonWorkflowNotFound, schedule.CodeWorkflowNotFound, message), errors.Is(err, schedule.ErrNotFound)
}

// callFailed handles an executor's error. A refusal is recorded; any other error
// leaves the key open. After the last attempt it asks the executor by key.
func (s *start) callFailed(err error) {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		s.called.unsent = refusal.Unsent
		s.finish(schedule.Outcome{
			Status: schedule.StatusFailed, Reason: cmp.Or(refusal.Reason, schedule.ReasonLaunchRefused),
			ErrorCode: refusal.Code, ErrorMessage: refusal.Message,
		}, time.Time{})
		return
	}
	notSent := errors.Is(err, ErrNotSent)
	if !notSent && s.overdue() {
		if outcome, err := s.getByKey(); err == nil {
			s.finish(outcome, s.called.at)
			return
		}
	}
	e := s.failed(err)
	s.releaseKey(e.Deliveries)
	s.log.Warn("executor call failed", "schedule_id", s.req.ScheduleID, "run_at", s.req.ScheduledFor,
		"key", s.req.Key.String(), "error_code", string(e.Code), "sent", !notSent, "err", err)
	s.end(schedule.StartReply{}, e)
}

// failed returns the error of an attempt whose call failed, or whose executor
// could not be asked by key.
func (s *start) failed(err error) *schedule.LaunchError {
	code := CallCode(err)
	e := &schedule.LaunchError{Code: code, Deliveries: s.before, At: s.called.at, Took: s.called.took, Err: err}
	if !s.called.at.IsZero() && !errors.Is(err, ErrNotSent) {
		e.Reached, e.Deliveries, e.Err = true, s.before+1, outcomeUnknown{err}
	}
	return e
}

// outcomeUnknown marks an error as ErrOutcomeUnknown. It keeps the text, which
// becomes the error of the run.
type outcomeUnknown struct{ error }

func (e outcomeUnknown) Unwrap() []error { return []error{ErrOutcomeUnknown, e.error} }

// finish settles the run by a definite outcome. The one that counts is answered, which
// can be an earlier one of the key. Every repeat gets the same outcome.
func (s *start) finish(outcome schedule.Outcome, launchedAt time.Time) {
	switch {
	case outcome.Status == schedule.StatusEnqueued && !s.cfg.Feedback:
		outcome.Status, outcome.Reason = schedule.StatusSuccess, schedule.ReasonAccepted
	case outcome.Status == schedule.StatusFailed && outcome.Reason == "":
		outcome.Reason = schedule.ReasonWorkflowFailed
	}
	outcome.ErrorCode = schedule.ExecutorErrorCode(outcome.ErrorCode)
	sent := !s.called.at.IsZero() && !s.called.unsent
	deliveries := s.before
	if sent {
		deliveries++
	}
	s.done = schedule.FinishRequest{
		Key: s.req.Key, Outcome: outcome, LaunchedAt: launchedAt, Deliveries: deliveries, RunTimeout: s.req.RunTimeout,
		Unsent: s.lease != nil && !sent, WakeLeader: s.req.WakeLeader,
	}
	s.finishes.Add(s)
}

func (s *start) finished(f *schedule.Finished) {
	failpoint.Hit(failpoint.OutcomeRecorded)
	s.end(schedule.StartReply{Outcome: f.Outcome, LaunchedAt: s.done.LaunchedAt, Deliveries: s.done.Deliveries, Settled: f.Settled}, nil)
}

// releaseKey ends the lease early if this process still holds the key. calls is
// how many calls of the key may have reached the executor. If the statement fails,
// the lease ends by itself.
func (s *start) releaseKey(calls int32) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.sender), storeTimeout)
	defer cancel()
	for _, until := range s.renewer.remove(s.lease) {
		if err := s.store.Release(ctx, s.req.Key, until, calls, s.now()); err != nil {
			s.log.Warn("cannot release the key", "key", s.req.Key.String(), "err", err)
		}
	}
	s.lease = nil
}

func refusal(reason schedule.Reason, code schedule.ErrorCode, message string) schedule.StartReply {
	return schedule.StartReply{Outcome: schedule.Outcome{
		Status: schedule.StatusFailed, Reason: reason, ErrorCode: string(code), ErrorMessage: message,
	}}
}
