package api

import (
	"context"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// promises says of each promise of a queue whether it is kept.
func (s *queueServer) promises(ctx context.Context, q *schedule.Queue, c schedule.QueueCounts) ([]*carillonv1.QueuePromise, error) {
	found, err := s.queues.QueuePromises(ctx, q, c)
	if err != nil {
		return nil, err
	}
	out := make([]*carillonv1.QueuePromise, 0, len(found))
	for _, p := range found {
		out = append(out, &carillonv1.QueuePromise{Field: p.Field, Kept: p.Kept, Says: p.Says})
	}
	return out, nil
}

func queueExpectIn(e *carillonv1.QueueExpectation) (out schedule.QueueExpect) {
	if e != nil {
		out.WaitWithinMS, out.DeadAtMost = e.GetWaitWithinMs(), e.DeadAtMost
	}
	return out
}

// queueExpectOut is nil where nothing is promised.
func queueExpectOut(e schedule.QueueExpect) *carillonv1.QueueExpectation {
	if e.Equal(schedule.QueueExpect{}) {
		return nil
	}
	out := &carillonv1.QueueExpectation{DeadAtMost: e.DeadAtMost}
	if e.WaitWithinMS > 0 {
		out.WaitWithinMs = &e.WaitWithinMS
	}
	return out
}

func rateFrom(r *carillonv1.Rate) schedule.RateDefinition {
	return schedule.RateDefinition{Starts: r.GetStarts(), PerMS: r.GetPerMs(), Burst: r.GetBurst()}
}

func rateOf(r schedule.RateDefinition) *carillonv1.Rate {
	if !r.Set() {
		return nil
	}
	return &carillonv1.Rate{Starts: r.Starts, PerMs: r.PerMS, Burst: r.Burst}
}
