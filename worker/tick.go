package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/failpoint"
	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/tracing"
)

// planBatch is how many schedules one plan transaction takes, or so many fewer
// that it puts down about Config.PlanAim slots: what else would be written waits
// for it meanwhile. More than planRows it never puts down: it has five seconds.
const (
	planBatch = 1000
	planRows  = 10_000
)

// sweepBatch is how many runs one sweep transaction ends.
const sweepBatch = 1000

// The pace of pruning: chunk by chunk for a part of a tick, so that it delays
// neither launches nor the next plan; when nothing is left, it rests.
const (
	pruneBatch = 1000
	prunePart  = 4 // of a tick, one in so many
	pruneEvery = 10 * time.Minute
)

// planLoop ticks: plans what falls due inside the lookahead, sweeps what is
// past its bound, prunes what is older than retention. The term has planned and
// swept already when it begins.
func (t *term) planLoop(ctx context.Context) {
	ticker := time.NewTicker(t.cfg.Tick)
	defer ticker.Stop()
	var nextPrune time.Time // the first tick: a worker may never get old
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
		t.wakeUp() // whatever a lost wake-up left behind
		if now := time.Now(); t.Shard == 0 && !now.Before(nextPrune) && t.prune(ctx) {
			nextPrune = now.Add(pruneEvery)
		}
	}
}

// plan plans batch after batch until nothing more is due, or until it has taken
// so long: what else a tick does must not wait for a plan that is behind.
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

// planRest is how often a plan looks whether it may begin.
const planRest = 5 * time.Millisecond

// planYield is for how many times as long as it takes a plan waits that has time.
const planYield = 4

// letFire has a plan begin between claims and settlements, which are about what
// is due now, but no later than the last plan took: so planning has half of the
// time at least, however much is to be fired. While half of the lookahead is
// planned it waits four times as long, and has a fifth: what lies ahead is there
// so that a crowded minute need not plan, too.
func (t *term) letFire(ctx context.Context) {
	wait := t.lastPlan
	if t.planLag < t.cfg.Lookahead/2 {
		// After a plan that hung, too, it comes in time.
		wait = max(wait, min(planYield*wait, t.cfg.Lookahead/8))
	}
	for began := time.Now(); t.firing.Load() > 0 && time.Since(began) < wait && ctx.Err() == nil; {
		time.Sleep(planRest)
	}
}

// aim says how many schedules the next plan takes.
func (t *term) aim(last *schedule.PlanResult) {
	switch {
	case last.Inserted > t.cfg.PlanAim:
		t.planLimit = max(1, last.Candidates*t.cfg.PlanAim/last.Inserted)
	case last.Candidates >= t.planLimit:
		t.planLimit = min(2*t.planLimit, planBatch)
	}
}

// planPass is one plan transaction: what was decided in it, and what it did.
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
	// The store may ask again, so what is decided is only logged once it is done.
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

// decide isolates a schedule that cannot be planned: an error or a panic of
// one must not stop the tick of all.
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

// panicPlace is where the code that panicked stands, without the whole stack.
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

// sweep ends what is past its bound, until nothing is or until it has taken so long.
func (t *term) sweep(ctx context.Context, long time.Duration) {
	for start := time.Now(); ctx.Err() == nil && time.Since(start) < long; {
		began := time.Now()
		storeCtx, cancel := t.storeContext()
		ended, err := t.Fires.Sweep(storeCtx, schedule.SweepRequest{
			Term: t.Term, Now: t.now(), CancelWait: t.cfg.CancelWait, RetryFor: t.cfg.RetryFor, Limit: sweepBatch,
		})
		cancel()
		t.Metrics.step("sweep", began, err)
		failpoint.Hit(failpoint.Swept)
		if err != nil {
			t.failed(ctx, "sweep", err)
			return
		}
		for i := range ended {
			run := &ended[i].Run
			t.Metrics.ended(run.Status, run.Reason, ended[i].Before == schedule.StatusLaunching)
			t.log.Warn("run ended by its time limit", "schedule_id", run.ScheduleID, "run_at", run.RunAt, "key", run.Key.String(),
				"before", string(ended[i].Before), "status", string(run.Status), "reason", string(run.Reason), "error_code", run.ErrorCode, "error_message", run.ErrorMessage)
		}
		if len(ended) > 0 {
			t.wakeUp() // overlap keys are free
		}
		if len(ended) < sweepBatch {
			return
		}
	}
}

// prune deletes some of what retention no longer keeps, and reports whether
// nothing is left to delete. It stops for this time when a chunk fails.
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
