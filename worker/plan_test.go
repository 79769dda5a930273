package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	rules "github.com/carillon/carillon/internal/ledger" // ledger is the store of the rig
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/registrar"
)

// planned counts the rows that plans insert.
type planned struct {
	ledger
	most, all *atomic.Int64
}

func (p planned) Plan(ctx context.Context, req schedule.PlanRequest, decide func([]schedule.PlanCandidate) []schedule.PlanDecision) (schedule.PlanResult, error) {
	result, err := p.ledger.Plan(ctx, req, decide)
	p.all.Add(int64(result.Inserted))
	p.most.Store(max(p.most.Load(), int64(result.Inserted)))
	return result, err
}

// A store call has five seconds. A thousand schedules with a slot each second and
// ten minutes of lookahead would else be 900,000 rows in one, which no attempt
// would ever end.
func TestOnePlanPutsDownNoMoreThanAStoreBears(t *testing.T) {
	const schedules, lookahead = 25, 10 * time.Minute
	var most, all atomic.Int64
	inBubble(t, func(r *rig) {
		for i := range schedules {
			r.every(fmt.Sprintf("s-%d", i), time.Second, func(in *registrar.UpsertInput) {
				in.Definition.StartAt = r.at(time.Minute)
			})
		}
		r.work(5 * time.Second)
		if want := int64(schedules * (lookahead - time.Minute) / time.Second); all.Load() < want {
			r.Errorf("%d slots were planned, want the %d of the lookahead", all.Load(), want)
		}
		if most.Load() > 10_000 {
			r.Errorf("%d slots were planned at once, want 10,000 at most", most.Load())
		}
	}, func(r *rig) {
		r.config.Lookahead = lookahead
		r.over = func(s *sqlite.Store) ledger { return planned{ledger: s, most: &most, all: &all} }
	})
}

// limited notes how many schedules each plan was to take.
type limited struct {
	ledger
	limits *[]int
}

func (l limited) Plan(ctx context.Context, req schedule.PlanRequest, decide func([]schedule.PlanCandidate) []schedule.PlanDecision) (schedule.PlanResult, error) {
	*l.limits = append(*l.limits, req.Limit)
	return l.ledger.Plan(ctx, req, decide)
}

func TestAfterAPlanOfManySlotsTheNextTakesFewerSchedules(t *testing.T) {
	var limits []int
	inBubble(t, func(r *rig) {
		for i := range 10 {
			r.every(fmt.Sprintf("s-%d", i), time.Second, func(in *registrar.UpsertInput) {
				in.Definition.StartAt = r.at(time.Minute)
			})
		}
		stop := r.start()
		r.until(2 * time.Second)
		for i := range 40 {
			r.every(fmt.Sprintf("rare-%d", i), 5*time.Minute)
		}
		r.until(4 * time.Second)
		stop()
		few := slices.IndexFunc(limits, func(n int) bool { return n < 1000 })
		if few < 0 || limits[few] > 8 {
			r.Fatalf("plans took up to %v schedules, want 8 of 10 at most after the first, which put down 5,400 slots", limits)
		}
		if last := limits[len(limits)-1]; last < 4*limits[few] {
			r.Errorf("plans took up to %v schedules, want more and more of the 40 that have few slots", limits)
		}
	}, func(r *rig) {
		r.config.Lookahead = 10 * time.Minute
		r.over = func(s *sqlite.Store) ledger { return limited{ledger: s, limits: &limits} }
	})
}

// A store with one writer is told to plan less at once, and less far.
func TestPlansGoByTheAimAndTheStrideOfTheirStore(t *testing.T) {
	const aim, stride, lookahead, schedules = 50, 2 * time.Second, 10 * time.Second, 40
	var most, all atomic.Int64
	inBubble(t, func(r *rig) {
		for i := range schedules {
			r.every(fmt.Sprintf("s-%02d", i), time.Second)
		}
		stop := r.start()
		r.until(2 * time.Second)
		most.Store(0) // the first plan does not know yet
		r.until(8 * time.Second)
		for i := range schedules {
			runs, err := r.store.ListRuns(r.Context(), schedule.RunFilter{
				ScheduleID: fmt.Sprintf("s-%02d", i), Statuses: []schedule.Status{schedule.StatusPlanned}, Now: r.store.Now(), Limit: 1,
			})
			if err != nil || len(runs) != 1 {
				r.Fatal(len(runs), err)
			}
			if ahead := runs[0].RunAt.Sub(r.store.Now()); ahead > lookahead+stride || ahead < lookahead-2*time.Second {
				r.Errorf("%s is planned for %s, want %s and %s more at the most", runs[0].ScheduleID, ahead, lookahead, stride)
			}
		}
		stop()
		if most.Load() == 0 || most.Load() > 2*aim {
			r.Errorf("%d slots were planned at once, want about %d", most.Load(), aim)
		}
	}, func(r *rig) {
		r.config.Lookahead, r.config.PlanStride, r.config.PlanAim = lookahead, stride, aim
		r.over = func(s *sqlite.Store) ledger { return planned{ledger: s, most: &most, all: &all} }
	})
}

// slow takes its time for what it writes, and counts plans that begin while a
// settlement is under way.
type slow struct {
	ledger
	settle, plan            time.Duration
	settling, plans, beside *atomic.Int64
}

func (s slow) Settle(ctx context.Context, term schedule.Term, now time.Time, settlements []schedule.Settlement) ([]schedule.Moved, error) {
	s.settling.Add(1)
	defer s.settling.Add(-1)
	time.Sleep(s.settle)
	return s.ledger.Settle(ctx, term, now, settlements)
}

func (s slow) Plan(ctx context.Context, req schedule.PlanRequest, decide func([]schedule.PlanCandidate) []schedule.PlanDecision) (schedule.PlanResult, error) {
	s.plans.Add(1)
	if s.settling.Load() > 0 {
		s.beside.Add(1)
	}
	time.Sleep(s.plan)
	return s.ledger.Plan(ctx, req, decide)
}

// A store with one writer, whose settlements take longer than its plans.
func TestAPlanThatHasTimeWaitsForMoreThanOneOfItsKind(t *testing.T) {
	var settling, plans, beside atomic.Int64
	inBubble(t, func(r *rig) {
		r.every("s", time.Second)
		r.work(10 * time.Second)
		if beside.Load() > 0 || plans.Load() < 15 {
			r.Errorf("%d of %d plans began beside a settlement, want none of 15 at least", beside.Load(), plans.Load())
		}
	}, func(r *rig) {
		r.config.Tick = 130 * time.Millisecond
		r.over = func(s *sqlite.Store) ledger {
			return slow{ledger: s, settle: 300 * time.Millisecond, plan: 100 * time.Millisecond, settling: &settling, plans: &plans, beside: &beside}
		}
	})
}

// behind makes every plan except the first of a term report more to do, and counts
// sweeps.
type behind struct {
	ledger
	plans, sweeps *atomic.Int64
}

func (b behind) Plan(ctx context.Context, req schedule.PlanRequest, decide func([]schedule.PlanCandidate) []schedule.PlanDecision) (schedule.PlanResult, error) {
	result, err := b.ledger.Plan(ctx, req, decide)
	if b.plans.Add(1) > 1 {
		time.Sleep(300 * time.Millisecond)
		result.Candidates = req.Limit
	}
	return result, err
}

func (b behind) Sweep(ctx context.Context, req schedule.SweepRequest) (rules.Swept, error) {
	b.sweeps.Add(1)
	return b.ledger.Sweep(ctx, req)
}

func TestPlanningThatIsBehindDoesNotKeepTheOtherPassesFromTheirTurn(t *testing.T) {
	var plans, sweeps atomic.Int64
	inBubble(t, func(r *rig) {
		r.every("s", time.Second)
		r.work(20 * time.Second)
		if sweeps.Load() < 10 || plans.Load() < 40 {
			r.Errorf("%d sweeps and %d plans in 20 s, want 10 and 40 at least", sweeps.Load(), plans.Load())
		}
	}, func(r *rig) {
		r.over = func(s *sqlite.Store) ledger { return behind{ledger: s, plans: &plans, sweeps: &sweeps} }
	})
}

// overrun makes every sweep except the first of a term report more to end, and counts
// plans.
type overrun struct {
	ledger
	plans, sweeps *atomic.Int64
}

func (o overrun) Plan(ctx context.Context, req schedule.PlanRequest, decide func([]schedule.PlanCandidate) []schedule.PlanDecision) (schedule.PlanResult, error) {
	o.plans.Add(1)
	return o.ledger.Plan(ctx, req, decide)
}

func (o overrun) Sweep(ctx context.Context, req schedule.SweepRequest) (rules.Swept, error) {
	if o.sweeps.Add(1) == 1 {
		return o.ledger.Sweep(ctx, req)
	}
	time.Sleep(100 * time.Millisecond)
	return rules.Swept{Ended: make([]schedule.Ended, req.Limit), More: true}, nil
}

func TestRunsThatTimeOutWithoutEndDoNotKeepPlansFromTheirTurn(t *testing.T) {
	var plans, sweeps atomic.Int64
	inBubble(t, func(r *rig) {
		r.every("s", time.Second)
		r.work(20 * time.Second)
		if plans.Load() < 10 || sweeps.Load() < 100 {
			r.Errorf("%d plans and %d sweeps in 20 s, want 10 and 100 at least", plans.Load(), sweeps.Load())
		}
	}, func(r *rig) {
		r.over = func(s *sqlite.Store) ledger { return overrun{ledger: s, plans: &plans, sweeps: &sweeps} }
	})
}

// flood makes every claim report more to claim, and counts how often the term looks for
// runs to send again.
type flood struct {
	ledger
	claims, reclaims *atomic.Int64
}

func (f flood) Claim(ctx context.Context, req rules.ClaimRequest, claim *rules.Claim) (rules.Claimed, error) {
	time.Sleep(100 * time.Millisecond)
	f.claims.Add(1)
	claimed, err := f.ledger.Claim(ctx, req, claim)
	claimed.Verdicts.Left = true
	claimed.Verdicts.Waits = append(claimed.Verdicts.Waits, rules.Wait{Key: schedule.Key{1}})
	return claimed, err
}

func (f flood) Reclaim(ctx context.Context, req rules.ReclaimRequest) (rules.Reclaimed, error) {
	f.reclaims.Add(1)
	return f.ledger.Reclaim(ctx, req)
}

func TestABacklogWithoutEndDoesNotKeepRunsFromBeingSentAgain(t *testing.T) {
	var claims, reclaims atomic.Int64
	inBubble(t, func(r *rig) {
		r.every("s", time.Second, overlap(schedule.OverlapAllow))
		r.executor.will(lose)
		r.work(20 * time.Second)
		if reclaims.Load() < 10 || claims.Load() < 150 {
			r.Errorf("runs were sent again %d times beside %d claims in 20 s, want 10 and 150 at least", reclaims.Load(), claims.Load())
		}
	}, func(r *rig) {
		r.over = func(s *sqlite.Store) ledger { return flood{ledger: s, claims: &claims, reclaims: &reclaims} }
	})
}

// noClaims is a ledger whose claims fail after their commit, once they are told to:
// what they would have said of open runs never reaches the leader.
type noClaims struct {
	ledger
	fail *atomic.Bool
}

func (n noClaims) Claim(ctx context.Context, req rules.ClaimRequest, claim *rules.Claim) (rules.Claimed, error) {
	claimed, err := n.ledger.Claim(ctx, req, claim)
	if n.fail.Load() {
		return rules.Claimed{}, errors.New("connection reset")
	}
	return claimed, err
}

func TestRunsAreSentAgainAndCancelledThoughClaimsFail(t *testing.T) {
	var fail atomic.Bool
	inBubble(t, func(r *rig) {
		r.every("s", time.Second, byHand)
		r.executor.will(lose)
		stop := r.start()
		defer stop()
		run := r.trigger("s", "one")
		time.Sleep(500 * time.Millisecond)
		fail.Store(true)
		time.Sleep(8 * time.Second)
		if n := len(r.executor.calls("s")); n != 3 && n != 4 {
			r.Errorf("%d sends in 8.5 s, want 1 s, 2 s, 4 s … apart", n)
		}
		cancelled := make(chan struct{}, 10)
		r.executor.cancel = func(schedule.CancelRequest) error { cancelled <- struct{}{}; return nil }
		if _, err := r.registrar.CancelRun(r.Context(), registrar.CancelInput{Key: run.Key}); err != nil {
			r.Fatal(err)
		}
		time.Sleep(2500 * time.Millisecond)
		if len(cancelled) != 1 {
			r.Errorf("%d cancels are sent, want one", len(cancelled))
		}
	}, func(r *rig) {
		r.over = func(s *sqlite.Store) ledger { return noClaims{ledger: s, fail: &fail} }
	})
}

// No tick is at the instant of a slot, and some are near each settlement.
func TestAPlanLetsWhatFiresGoFirst(t *testing.T) {
	var settling, plans, beside atomic.Int64
	inBubble(t, func(r *rig) {
		r.every("s", time.Second)
		r.work(10 * time.Second)
		if calls := len(r.executor.calls("s")); calls < 9 || plans.Load() < 15 {
			r.Errorf("%d calls and %d plans, want 9 and 15 at least: one holds up the other", calls, plans.Load())
		}
		if beside.Load() > 0 {
			r.Errorf("%d of %d plans began beside a settlement", beside.Load(), plans.Load())
		}
	}, func(r *rig) {
		r.config.Tick = 130 * time.Millisecond
		r.over = func(s *sqlite.Store) ledger {
			return slow{ledger: s, settle: 250 * time.Millisecond, plan: 400 * time.Millisecond, settling: &settling, plans: &plans, beside: &beside}
		}
	})
}
