package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/failpoint"
	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/logthrottle"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/tracing"
)

// launchAll hands claimed runs to the launcher, together; each holds one of the process's
// launches until it is answered. An executor that hangs can use up its owner's share of
// launches, but never stops a tick.
func (t *term) launchAll(launches []schedule.Launch) {
	together := max(1, len(launches))
	if t.hold != nil {
		together = 1 // a simulation makes each call at its instant
	}
	for some := range slices.Chunk(launches, together) {
		t.calling(some[0].Run.FireAt, func() { t.launch(some) })
	}
}

// launch sends runs and settles the answers.
func (t *term) launch(launches []schedule.Launch) {
	reqs := make([]schedule.StartRequest, len(launches))
	spans := make([]tracing.Span, len(launches))
	for i := range launches {
		l := &launches[i]
		t.handingOver(l)
		spans[i] = t.Tracer.Launch(l)
		reqs[i] = l.StartRequest()
		reqs[i].TraceParent = spans[i].TraceParent()
	}
	asked := t.now()
	var waiting sync.WaitGroup
	defer waiting.Wait()
	t.Launcher.StartAll(t.calls, reqs, func(i int, reply schedule.StartReply, err error) {
		spans[i].End(reply.Outcome, err)
		failpoint.Hit(failpoint.HandedOver)
		l := &launches[i]
		end := func() {
			if t.launches.giveBack(owner(l)) {
				t.Wake(0, schedule.Buckets-1) // a due run waits for a free launch
			}
		}
		if rest := t.answer(l, &reqs[i], asked, &reply, err); rest != nil {
			waiting.Go(func() { rest(); end() })
			return
		}
		end()
	})
}

// handingOver counts and logs a run that is about to be sent.
func (t *term) handingOver(l *schedule.Launch) {
	if t.log.Enabled(t.calls, slog.LevelDebug) {
		t.log.Debug("run launched", "schedule_id", l.Run.ScheduleID, "run_at", l.Run.RunAt, "key", l.Run.Key.String(), "again", l.Again)
	}
	if l.Again {
		t.Metrics.redelivered.Inc()
	} else {
		t.Metrics.emitted[l.Run.Trigger].Inc()
	}
	failpoint.Hit(failpoint.HandingOver)
}

// answer handles an answer of the launcher. rest is what it has to write; nil: nothing.
func (t *term) answer(l *schedule.Launch, req *schedule.StartRequest, asked time.Time, reply *schedule.StartReply, err error) (rest func()) {
	if err != nil {
		return func() { t.unknown(l, req, err) }
	}
	now := t.now()
	t.Metrics.answered(l, asked, now)
	t.retries.Answered(l.Run.Key)
	if reply.Queued {
		t.Metrics.queued.Inc()
		return nil // the queue's consumer settles it, or it is sent again when the claim's lease ends
	}
	s := t.settlement(l, reply, now)
	var resends []func()
	if !reply.LaunchedAt.IsZero() {
		t.Metrics.launched(&l.Run, reply.LaunchedAt)
		resends = t.executorAccepted(now)
	}
	if reply.Settled {
		failpoint.Hit(failpoint.Settled)
		t.settled(l, &s)
		t.heard([]schedule.Settlement{s}, []schedule.Moved{{To: s.To, Reason: s.Reason}})
	}
	if reply.Settled && len(resends) == 0 {
		return nil
	}
	return func() {
		if !reply.Settled {
			t.settle(l, s)
		}
		for _, resend := range resends {
			resend()
		}
	}
}

// settlement is how an answer settles its run, unless the launcher has done so: then the
// leader's memory reads the end as a change.
func (t *term) settlement(l *schedule.Launch, reply *schedule.StartReply, now time.Time) schedule.Settlement {
	run := &l.Run
	if reason := t.cancels.reason(run.Key); reason != "" { // sent in this term, after run was read
		run.CancelRequestedAt, run.CancelReason = now, reason
	}
	return ledger.SettlementOf(run, &schedule.FinishRequest{
		Key: run.Key, Outcome: reply.Outcome, LaunchedAt: reply.LaunchedAt, Deliveries: reply.Deliveries,
		RunTimeout: l.Definition.RunTimeout(), MaxRun: schedule.MaxRun(nil, l.Definition),
	}, now)
}

// executorAccepted returns what makes the waiting retries of this process due: its terms
// have the same executor. Each term writes those of its own shard.
func (w *Worker) executorAccepted(now time.Time) (resends []func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, term := range w.terms {
		if retries := term.retries.Recovered(now); len(retries) > 0 {
			resends = append(resends, func() { term.recovered(retries) })
		}
	}
	return resends
}

// recovered makes waiting retries due after the executor has accepted a run.
func (t *term) recovered(retries []schedule.Settlement) {
	t.log.Info("executor accepts runs again; retrying the waiting runs", "runs", len(retries))
	for some := range slices.Chunk(retries, maxBatch) {
		if _, err := t.settleAll(t.trusted, some); err != nil {
			return // each is retried when its backoff is over
		}
	}
	t.Wake(0, schedule.Buckets-1)
}

// unknown leaves the run LAUNCHING: the same key is sent again after a backoff, unless its
// launch time is over.
func (t *term) unknown(l *schedule.Launch, req *schedule.StartRequest, cause error) {
	if t.trusted.Err() != nil {
		return // the next leader sends it again
	}
	s := t.retries.Settlement(req, cause, t.now())
	failed := l.Run.FailedAttempts
	if s.Attempt != nil {
		failed++
	}
	t.log.Warn("launch attempt failed", "schedule_id", l.Run.ScheduleID, "run_at", l.Run.RunAt, "key", l.Run.Key.String(),
		"attempts", failed, "error_code", s.ErrorCode, "next_attempt_at", s.ClaimedUntil, "gives_up_at", req.SendUntil, "err", cause)
	switch moved := t.settle(l, s); {
	case moved.To == schedule.StatusLaunching:
		t.retries.Written(&s, t.now())
	case moved.To.Terminal():
		t.retries.Answered(s.Key)
	}
}

// settle writes one settlement in a batch with others.
func (t *term) settle(l *schedule.Launch, s schedule.Settlement) (moved schedule.Moved) {
	moved, err := t.settles.Do(t.trusted, s)
	if err != nil {
		if t.trusted.Err() == nil && !errors.Is(err, schedule.ErrFenced) {
			t.log.Error("cannot record the run's outcome; it is sent again when its lease ends", "key", s.Key.String(), "to", string(s.To), "err", err)
		}
		return schedule.Moved{}
	}
	if moved.To == "" || moved.To == schedule.StatusLaunching {
		return moved // a report was faster, or the run will be sent again
	}
	s.To, s.Reason = moved.To, moved.Reason
	t.settled(l, &s)
	return moved
}

// settled counts and logs a run that its answer has settled.
func (t *term) settled(l *schedule.Launch, s *schedule.Settlement) {
	t.Metrics.ended(s.To, s.Reason, s.LaunchedAt.IsZero())
	if !t.log.Enabled(t.calls, logthrottle.RunLevel(s.To)) {
		return
	}
	t.log.Log(t.calls, logthrottle.RunLevel(s.To), "run settled", "schedule_id", l.Run.ScheduleID, "run_at", l.Run.RunAt, "key", s.Key.String(),
		"status", string(s.To), "reason", string(s.Reason), "error_code", s.ErrorCode, "error_message", s.ErrorMessage, "run_id", s.RunID)
}

// settleAll writes a batch of settlements in one fenced transaction. After the term it
// writes nothing: the next leader sends the same keys and gets the recorded outcomes.
func (t *term) settleAll(ctx context.Context, settlements []schedule.Settlement) ([]schedule.Moved, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	moved, err := t.settleInTerm(ctx, settlements)
	failpoint.Hit(failpoint.Settled)
	t.Metrics.step("settle", began, err)
	t.heard(settlements, moved)
	return moved, err
}

// heard tells the fire loop of settlements that are written.
func (t *term) heard(settlements []schedule.Settlement, moved []schedule.Moved) {
	t.accepted.note(settlements, moved)
	if schedule.AnyEnded(moved) {
		t.wakeUp() // an overlap key is free, a backfill may go on
	}
}

// acceptedLog collects launches that the executor has accepted, for the fire loop:
// their claim's lease does not matter any more. A run that is missing here is looked
// up when its lease ends.
type acceptedLog struct {
	mu   sync.Mutex
	keys []schedule.Key
}

func (a *acceptedLog) note(settlements []schedule.Settlement, moved []schedule.Moved) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range moved {
		if to := moved[i].To; to != schedule.StatusLaunching && to.InFlight() {
			a.keys = append(a.keys, settlements[i].Key)
		}
	}
}

func (a *acceptedLog) take() []schedule.Key {
	a.mu.Lock()
	defer a.mu.Unlock()
	keys := a.keys
	a.keys = nil
	return keys
}

func (t *term) settleInTerm(ctx context.Context, settlements []schedule.Settlement) ([]schedule.Moved, error) {
	if t.trusted.Err() != nil {
		return nil, errors.Join(schedule.ErrFenced, context.Cause(t.trusted))
	}
	t.firing.Add(1)
	defer t.firing.Add(-1)
	return t.Fires.Settle(ctx, t.Term, t.now(), settlements)
}
