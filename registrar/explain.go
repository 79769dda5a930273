package registrar

import (
	"context"
	"errors"
	"time"

	"github.com/carillon/carillon/internal/explain"
	"github.com/carillon/carillon/internal/schedule"
)

// Explain says whether a schedule had a slot at an instant, and what became of
// it or will. It answers of deleted schedules too, as long as they are kept.
func (r *Registrar) Explain(ctx context.Context, scheduleID string, at time.Time) (explain.Answer, error) {
	now := r.now()
	facts, err := r.schedules.ReadSlot(ctx, schedule.SlotQuery{ScheduleID: scheduleID, At: at.UTC().Truncate(time.Second), Now: now})
	if errors.Is(err, schedule.ErrNotFound) {
		return explain.Answer{}, notFound(scheduleID)
	}
	if err != nil {
		return explain.Answer{}, err
	}
	f := explain.Facts{SlotFacts: facts, Asked: at, Now: now, RequireGrant: r.cfg.RequireGrant}
	if r.cfg.Retention > 0 {
		f.KeptSince = now.Add(-r.cfg.Retention)
	}
	if id := facts.Schedule.ExecutionGrantID; id != "" && at.After(now.Add(-time.Hour)) { // what is over needs no grant any more
		f.Grant, err = r.grants.GetGrant(ctx, id)
		if err != nil && !errors.Is(err, schedule.ErrNotFound) {
			return explain.Answer{}, err
		}
	}
	answer := explain.Judge(f)
	return answer, r.outcomes(ctx, answer.Previous, answer.Next)
}

// outcomes fills in what became of the slots around an instant.
func (r *Registrar) outcomes(ctx context.Context, slots ...*explain.Slot) error {
	for _, s := range slots {
		if s == nil {
			continue
		}
		run, err := r.runs.GetRun(ctx, s.Key)
		if err != nil && !errors.Is(err, schedule.ErrNotFound) {
			return err
		}
		if err == nil {
			s.Run = run
		}
	}
	return nil
}
