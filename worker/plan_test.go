package worker_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/registrar"
)

// planned counts what plans put down.
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
