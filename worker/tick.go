package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/failpoint"
	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/tracing"
)

// planBatch caps the schedules in one plan transaction. It takes fewer when it would
// insert more than about Config.PlanAim slots: other writers wait for it meanwhile.
// planRows caps the slots that it inserts.
const (
	planBatch = 1000
	planRows  = 10_000
)

// sweepBatch is how many runs one sweep transaction looks at.
const sweepBatch = 1000

// Pruning deletes pruneBatch rows at a time for 1/prunePart of a tick, so that it delays
// neither launches nor the next plan. When nothing is left, it rests for pruneEvery.
const (
	pruneBatch = 1000
	prunePart  = 4
	pruneEvery = 10 * time.Minute
)

// planLoop plans the slots inside the lookahead, sweeps runs past their bound and prunes
// rows older than retention, each tick. The term has already planned and swept once.
func (t *term) planLoop(ctx context.Context) {
	ticker := time.NewTicker(t.cfg.Tick)
	defer ticker.Stop()
	var overlaps violations
	var nextPrune time.Time // zero: the first tick prunes, for a worker may restart often
	for {
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
		if ctx.Err() != nil {
			return
		}
		t.plan(ctx, t.cfg.Tick)
		t.sweep(ctx, t.cfg.Tick)
		overlaps.check(ctx, t)
		t.wakeUp() // in case a wake-up was lost
		if now := time.Now(); t.Shard == 0 && !now.Before(nextPrune) && t.prune(ctx) {
			nextPrune = now.Add(pruneEvery)
		}
	}
}

// plan plans batch after batch until nothing more is due or long has passed: the sweep
// of the tick must not wait for a plan that is behind.
func (t *term) plan(ctx context.Context, long time.Duration) {
	due := 0
	for start := time.Now(); ctx.Err() == nil && time.Since(start) < long; {
		t.letFire(ctx)
		limit := t.planLimit
		began := time.Now()
		pass, err := t.planOnce()
		t.lastPlan, t.planLag = time.Since(began), pass.lag
		t.Metrics.step("plan", began, err)
		if err != nil {
			t.failed(ctx, "plan", err)
			return
		}
		due += pass.result.Candidates
		t.planned(pass)
		t.Tracer.Planned(tracing.Pass{Term: t.Term, Began: began, End: time.Now()}, pass.decisions, &pass.result)
		t.aim(&pass.result)
		if pass.result.Candidates < limit && !pass.cut {
			break
		}
	}
	t.Metrics.looked(t.Term, due)
}

const (
	// planRest is how often a waiting plan checks whether it may begin.
	planRest = 5 * time.Millisecond
	// planYield: when planning is not behind, wait up to planYield times the last
	// plan's duration.
	planYield = 4
)

// letFire delays a plan while claims and settlements are under way: they concern slots
// that are due now. It waits at most as long as the last plan took, so planning gets at
// least half of the time. While half of the lookahead is planned it waits up to planYield
// times as long: a busy minute uses what was planned before it.
func (t *term) letFire(ctx context.Context) {
	wait := t.lastPlan
	if t.planLag < t.cfg.Lookahead/2 {
		// The cap by the lookahead is for a last plan that hung.
		wait = max(wait, min(planYield*wait, t.cfg.Lookahead/8))
	}
	for began := time.Now(); t.firing.Load() > 0 && time.Since(began) < wait && ctx.Err() == nil; {
		time.Sleep(planRest)
	}
}

// aim adjusts the number of schedules in the next plan to Config.PlanAim.
func (t *term) aim(last *schedule.PlanResult) {
	switch {
	case last.Inserted > t.cfg.PlanAim:
		t.planLimit = max(1, last.Candidates*t.cfg.PlanAim/last.Inserted)
	case last.Candidates >= t.planLimit:
		t.planLimit = min(2*t.planLimit, planBatch)
	}
}

// planPass is one plan transaction: its decisions and its result.
type planPass struct {
	decisions []schedule.PlanDecision
	result    schedule.PlanResult
	cut       bool          // a schedule had more slots than its share
	lag       time.Duration // how late it was for its first schedule
}

func (t *term) planOnce() (pass planPass, err error) {
	ctx, cancel := t.storeContext()
	defer cancel()
	now := t.now()
	req := schedule.PlanRequest{Term: t.Term, Now: now, Horizon: now, Grace: t.cfg.Grace, Limit: t.planLimit}
	// The store may call this again in a repeated transaction, so the decisions are logged
	// only after the commit.
	pass.result, err = t.Plans.Plan(ctx, req, func(candidates []schedule.PlanCandidate) []schedule.PlanDecision {
		pass.decisions, pass.cut = make([]schedule.PlanDecision, len(candidates)), false
		cfg := t.cfg.plan(len(candidates))
		pass.lag = lag(candidates, now)
		for i := range candidates {
			pass.decisions[i] = decide(&candidates[i], now, cfg)
			pass.cut = pass.cut || len(pass.decisions[i].Rows) >= cfg.MaxRows
		}
		failpoint.Hit(failpoint.Planning)
		return pass.decisions
	})
	failpoint.Hit(failpoint.Planned)
	return pass, err
}

// lag is how long the first of the candidates has been due to be planned.
func lag(candidates []schedule.PlanCandidate, now time.Time) time.Duration {
	if len(candidates) == 0 || candidates[0].Schedule.PlanAt.IsZero() {
		return 0
	}
	return now.Sub(candidates[0].Schedule.PlanAt)
}

// decide plans one schedule. It puts a schedule that fails or panics into quarantine:
// one schedule must not stop the tick of all.
func decide(c *schedule.PlanCandidate, now time.Time, cfg plan.Config) (d schedule.PlanDecision) {
	defer func() {
		if p := recover(); p != nil {
			d = plan.Quarantine(c, now, fmt.Errorf("the planner panicked: %v at %s", p, panicPlace()))
		}
	}()
	d, err := plan.Decide(c, now, cfg)
	if err != nil {
		return plan.Quarantine(c, now, err)
	}
	return d
}

// panicPlace is the file and line that panicked, without the whole stack.
func panicPlace() string {
	pc := make([]uintptr, 16)
	frames := runtime.CallersFrames(pc[:runtime.Callers(3, pc)])
	for {
		frame, more := frames.Next()
		if !strings.HasPrefix(frame.Function, "runtime.") || !more {
			return fmt.Sprintf("%s:%d", frame.File, frame.Line)
		}
	}
}

// planned logs and counts what a plan transaction did.
func (t *term) planned(pass planPass) {
	for i := range pass.decisions {
		for _, e := range pass.decisions[i].Events {
			level := slog.LevelInfo
			if e.Kind == schedule.EventPlanFailed {
				level = slog.LevelWarn
			}
			t.log.Log(context.Background(), level, "schedule event", "schedule_id", e.ScheduleID, "kind", string(e.Kind),
				"reason", string(e.Reason), "count", e.Count, "from", e.From, "to", e.To, "note", e.Note)
			if e.Reason == schedule.ReasonMissed || e.Reason == schedule.ReasonCoalesced {
				t.Metrics.missed.Add(float64(e.Count))
			}
		}
	}
	t.Metrics.planned.Add(float64(pass.result.Inserted))
	t.Metrics.planFailures.Add(float64(len(pass.result.Failed)))
	for i := range pass.result.Skipped {
		t.skipped(&pass.result.Skipped[i])
	}
	if pass.result.Inserted > 0 {
		t.wakeUp() // the next instant may have come nearer
	}
}

// sweep ends runs that are past their bound, until none is left or long has passed.
func (t *term) sweep(ctx context.Context, long time.Duration) {
	for start := time.Now(); ctx.Err() == nil && time.Since(start) < long; {
		began := time.Now()
		storeCtx, cancel := t.storeContext()
		swept, err := t.Fires.Sweep(storeCtx, schedule.SweepRequest{
			Term: t.Term, Now: t.now(), CancelWait: t.cfg.CancelWait, RetryFor: t.cfg.RetryFor, Limit: sweepBatch,
		})
		cancel()
		t.Metrics.step("sweep", began, err)
		failpoint.Hit(failpoint.Swept)
		if err != nil {
			t.failed(ctx, "sweep", err)
			return
		}
		t.swept.note(swept.Open)
		for i := range swept.Ended {
			run := &swept.Ended[i].Run
			t.Metrics.ended(run.Status, run.Reason, swept.Ended[i].Before == schedule.StatusLaunching)
			t.log.Warn("run ended by its time limit", "schedule_id", run.ScheduleID, "run_at", run.RunAt, "key", run.Key.String(),
				"before", string(swept.Ended[i].Before), "status", string(run.Status), "reason", string(run.Reason), "error_code", run.ErrorCode, "error_message", run.ErrorMessage)
		}
		t.cancelOverdue(swept.Ended)
		if len(swept.Ended) > 0 {
			t.wakeUp() // overlap keys are free
		}
		if !swept.More {
			return
		}
	}
}

// sweptLog collects runs that sweeps have left open, for the fire loop: its state must
// know them.
type sweptLog struct {
	mu   sync.Mutex
	keys []schedule.Key
}

func (l *sweptLog) note(keys []schedule.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys = append(l.keys, keys...)
}

func (l *sweptLog) take() []schedule.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := l.keys
	l.keys = nil
	return keys
}

// prune deletes rows that are older than retention, for a part of a tick. done: none is
// left, or a batch failed and the next try waits for pruneEvery.
func (t *term) prune(ctx context.Context) (done bool) {
	began := time.Now()
	before := t.now().Add(-t.cfg.Retention)
	total := 0
	for !done && ctx.Err() == nil && time.Since(began) < t.cfg.Tick/prunePart {
		storeCtx, cancel := t.storeContext()
		n, err := t.Plans.Prune(storeCtx, t.Term, before, pruneBatch)
		cancel()
		failpoint.Hit(failpoint.Pruned)
		if err != nil {
			t.failed(ctx, "prune", err)
			return true
		}
		total += n
		done = n == 0
	}
	if total > 0 {
		t.log.Info("rows pruned", "rows", total, "before", before)
	}
	return done
}

// failed reports a pass that failed. The next tick tries again; if the reason
// is a lost term, the elector ends this one.
func (t *term) failed(ctx context.Context, step string, err error) {
	if ctx.Err() != nil || t.trusted.Err() != nil || errors.Is(err, schedule.ErrFenced) {
		return // the elector says it
	}
	t.log.Warn("pass failed", "step", step, "err", err)
}
