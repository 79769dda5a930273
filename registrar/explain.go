package registrar

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/explain"
)

// Explain says whether a schedule had a slot at an instant, and what happened or will happen to
// it. It also answers for deleted schedules until they are pruned.
func (r *Registrar) Explain(ctx context.Context, scheduleID string, at time.Time) (explain.Answer, error) {
	return r.explain(ctx, scheduleID, at, nil)
}

// ExplainReading is Explain for a local time in the schedule's zone, such as 2026-03-08T02:30. If
// the time occurs twice, Answer.Second is the second one; if it does not occur, the DST rule
// decides.
func (r *Registrar) ExplainReading(ctx context.Context, scheduleID, local string) (explain.Answer, error) {
	shown, ok := explain.ParseReading(local)
	if !ok || shown.Year() < 1970 || shown.Year() >= 2100 {
		return explain.Answer{}, schedule.Invalid("local", local, "is not a time from 1970 to 2099 without an offset",
			"write 2026-03-08T02:30, in the schedule's time zone; a time with an offset goes into time")
	}
	facts, err := r.readSlot(ctx, schedule.SlotQuery{ScheduleID: scheduleID, At: shown, Now: r.now()})
	if err != nil {
		return explain.Answer{}, err
	}
	reading := explain.ReadingOf(facts, shown)
	answer, err := r.explain(ctx, scheduleID, reading.First, &reading)
	if err == nil && !reading.Second.IsZero() {
		var second explain.Answer
		second, err = r.explain(ctx, scheduleID, reading.Second, nil)
		answer.Second = &second
	}
	return answer, err
}

// ExplainLast explains the newest slot with a past fire time, whatever its outcome. Without such a
// slot it answers for the newest run; without a run it is ErrPrecondition.
func (r *Registrar) ExplainLast(ctx context.Context, scheduleID string) (explain.Answer, error) {
	now := r.now()
	answer, err := r.explain(ctx, scheduleID, now.Truncate(time.Second), nil)
	if err == nil && !answer.DeletedAt.IsZero() {
		answer, err = r.explain(ctx, scheduleID, answer.DeletedAt.Truncate(time.Second), nil)
	}
	// Jitter may put the fire time of the newest slots after now.
	for err == nil && (answer.Slot == nil || answer.Slot.FireAt.After(now)) {
		if answer.Previous == nil {
			return r.explainNewestRun(ctx, scheduleID)
		}
		answer, err = r.explain(ctx, scheduleID, answer.Previous.RunAt, nil)
	}
	return answer, err
}

func (r *Registrar) explainNewestRun(ctx context.Context, scheduleID string) (explain.Answer, error) {
	runs, err := r.ListRuns(ctx, schedule.RunFilter{ScheduleID: scheduleID, Limit: 1})
	if err == nil && len(runs) == 0 {
		err = schedule.Explain(schedule.ErrPrecondition, "cannot explain: schedule %s has no past slot and no run yet; give a time in the future", schedule.Quote(scheduleID))
	}
	if err != nil {
		return explain.Answer{}, err
	}
	return r.explain(ctx, scheduleID, runs[0].RunAt, nil)
}

func (r *Registrar) readSlot(ctx context.Context, q schedule.SlotQuery) (schedule.SlotFacts, error) {
	facts, err := r.schedules.ReadSlot(ctx, q)
	if errors.Is(err, schedule.ErrNotFound) {
		return facts, notFound(q.ScheduleID)
	}
	return facts, err
}

func (r *Registrar) explain(ctx context.Context, scheduleID string, at time.Time, reading *explain.Reading) (explain.Answer, error) {
	now := r.now()
	facts, err := r.readSlot(ctx, schedule.SlotQuery{ScheduleID: scheduleID, At: at.UTC().Truncate(time.Second), Now: now})
	if err != nil {
		return explain.Answer{}, err
	}
	f := explain.Facts{SlotFacts: facts, Asked: at, Reading: reading, Now: now, RequireGrant: r.cfg.RequireGrant}
	if r.cfg.Retention > 0 {
		f.KeptSince = now.Add(-r.cfg.Retention)
	}
	if ref := facts.Schedule.GrantRef(); ref.GrantID != "" && at.After(now.Add(-time.Hour)) { // past slots need no grant
		f.Grant, err = r.grants.GetGrant(ctx, ref)
		if err != nil && !errors.Is(err, schedule.ErrNotFound) {
			return explain.Answer{}, err
		}
	}
	if f.Terms, err = r.termsAround(ctx, &facts, at, now); err != nil {
		return explain.Answer{}, err
	}
	answer := explain.Derive(f)
	if answer.Run != nil {
		if answer.Attempts, err = r.LaunchAttempts(ctx, answer.Run); err != nil {
			return explain.Answer{}, err
		}
		if answer.Result, err = r.RunResult(ctx, answer.Run); err != nil {
			return explain.Answer{}, err
		}
		if answer.FirstSentAt, err = r.FirstSent(ctx, answer.Run); err != nil {
			return explain.Answer{}, err
		}
		if answer.Run.Queue.In() && answer.Run.Stage() == schedule.StatusPlanned {
			queued, err := r.ExplainRun(ctx, answer.Run.Key)
			if err != nil && !errors.Is(err, schedule.ErrNotFound) {
				return explain.Answer{}, err
			}
			answer.InQueue = queued.Lines
		}
	}
	if answer.WouldStart, err = r.estimateSlot(ctx, facts.Schedule, &answer); err != nil {
		return explain.Answer{}, err
	}
	return answer, r.outcomes(ctx, answer.Previous, answer.Next)
}

// termsAround are the terms of a slot's shard from when it was due until its outcome.
func (r *Registrar) termsAround(ctx context.Context, facts *schedule.SlotFacts, at, now time.Time) ([]schedule.LeaderTerm, error) {
	if r.terms == nil || at.After(now) {
		return nil, nil
	}
	w := schedule.TermWindow{Bucket: schedule.Bucket(facts.Schedule.QualifiedOverlapKey()), From: at, Until: now, Now: now}
	for i := range facts.Events {
		if e := &facts.Events[i]; slices.Contains(schedule.RangeEvents, e.Kind) {
			w.Until = e.Time
		}
	}
	own := schedule.SlotKey(facts.Schedule.ScheduleID, at)
	for i := range facts.Runs {
		run := &facts.Runs[i]
		if run.Key != own {
			continue
		}
		w.Bucket, w.Until = schedule.Bucket(run.OverlapKey), now
		for _, began := range []time.Time{run.FireAt, run.ClaimedAt} {
			if !began.IsZero() && began.Before(w.From) {
				w.From = began
			}
		}
		for _, done := range []time.Time{run.CompletedAt, run.LaunchedAt} {
			if !done.IsZero() {
				w.Until = done
			}
		}
	}
	terms, err := r.terms.WindowTerms(ctx, w)
	if len(terms) > schedule.MaxWindowTerms { // some are missing, and their place would look like a gap
		terms = nil
	}
	return terms, err
}

// outcomes fills in the outcome of the slots around an instant.
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
