package storetest

import (
	"errors"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// mixed stores one row of every kind that an edit, a pause or a deletion meets.
type mixed struct {
	s, other                                          schedule.Schedule
	future, futureCatchup, edge, due, waiting, caught schedule.Run // of the schedule's own rule
	byHand, futureByHand, retry, backfill             schedule.Run // asked for
	flying, ended                                     schedule.Run // claimed before
	otherFuture                                       schedule.Run // of another schedule
}

func (r *rig) mixed() mixed {
	r.Helper()
	m := mixed{s: r.create("mixed"), other: r.create("other")}
	trigger := func(t schedule.Trigger) func(*schedule.Run) { return func(run *schedule.Run) { run.Trigger = t } }
	m.flying = r.bring(r.due(m.s, 100), schedule.StatusStarted)
	m.ended = r.bring(r.due(m.s, 90), schedule.StatusSuccess)

	m.future = r.slot(m.s, r.at(time.Second))
	m.futureCatchup = r.slot(m.s, r.at(2*time.Second), trigger(schedule.TriggerCatchup))
	m.edge = r.slot(m.s, r.now)
	m.due = r.due(m.s, 1)
	m.waiting = r.slot(m.s, r.at(-2*time.Second), func(run *schedule.Run) { run.WaitingSince = r.at(-time.Second) })
	m.caught = r.slot(m.s, r.at(-3*time.Second), trigger(schedule.TriggerCatchup))
	m.byHand = r.manual(m.s, "now", r.at(-time.Second))
	m.futureByHand = r.manual(m.s, "later", r.at(time.Second))
	m.retry = r.manual(m.s, "retry", r.at(time.Second), trigger(schedule.TriggerRetry))
	m.backfill = r.manual(m.s, "backfill", r.at(-time.Hour), trigger(schedule.TriggerBackfill))
	m.otherFuture = r.slot(m.other, r.at(time.Second))
	r.add(m.future, m.futureCatchup, m.edge, m.due, m.waiting, m.caught, m.byHand, m.futureByHand, m.retry, m.backfill, m.otherFuture)
	return m
}

func (r *rig) untouched(runs ...schedule.Run) {
	r.Helper()
	for _, run := range runs {
		equal(r, "runs that stay", r.ledger(run.Key), run)
	}
}

func changeDropsPlan(r *rig) {
	m := r.mixed()
	r.change(schedule.Change{ScheduleID: m.s.ScheduleID, DropPlannedAfter: r.now})
	r.gone(m.future)
	r.gone(m.futureCatchup)
	r.untouched(m.edge, m.due, m.waiting, m.caught, m.byHand, m.futureByHand, m.retry, m.backfill, m.flying, m.ended, m.otherFuture)

	again := r.slot(r.revise(m.s), r.at(time.Second))
	r.add(again) // what was only a plan left no trace that could be in the way
	r.untouched(again)
}

func changePauses(r *rig) {
	m := r.mixed()
	paused := m.s
	paused.Pause = schedule.Pause{Paused: true, Note: "hold", By: "op"}
	c := schedule.Change{Row: &paused, DropPlannedAfter: r.now}
	c.EndDue.To, c.EndDue.Reason = schedule.StatusSkipped, schedule.ReasonPaused
	r.change(c)
	equal(r, "schedules", r.row(m.s), paused)
	r.gone(m.future)
	r.gone(m.futureCatchup)
	r.stand([]schedule.Run{m.edge, m.due, m.waiting, m.caught}, "SKIPPED(paused)", "SKIPPED(paused)", "SKIPPED(paused)", "SKIPPED(paused)")
	r.hold(r.ledger(m.waiting.Key).WaitingSince.IsZero(), "what waited waits no more")
	r.untouched(m.byHand, m.futureByHand, m.retry, m.backfill, m.flying, m.ended, m.otherFuture)
}

func changeDeletes(r *rig) {
	m := r.mixed()
	deleted := m.s
	deleted.DeletedAt, deleted.NextRunAt, deleted.PlanAt = r.now, time.Time{}, time.Time{}
	c := schedule.Change{Row: &deleted, DropPlannedAfter: r.now, EndRest: true}
	c.EndDue.To, c.EndDue.Reason = schedule.StatusCancelled, schedule.ReasonDeleted
	r.change(c)
	equal(r, "tombstones", r.row(m.s), deleted)
	r.gone(m.future)
	r.gone(m.futureCatchup)
	for _, run := range []schedule.Run{m.edge, m.due, m.waiting, m.caught, m.byHand, m.futureByHand, m.retry, m.backfill} {
		r.stand([]schedule.Run{run}, "CANCELLED(deleted)")
	}
	r.untouched(m.flying, m.ended, m.otherFuture)
	listed, err := r.ListSchedules(r.ctx, schedule.ScheduleFilter{UserID: r.user, Now: r.now, Limit: 10})
	r.ok(err, "list schedules")
	equal(r, "listed schedules", listed, []schedule.Schedule{m.other})
}

func changeRevives(r *rig) {
	s := r.create("again")
	tombstone := r.rewrite(s, func(s *schedule.Schedule) { s.DeletedAt = r.now })
	equal(r, "tombstones", r.row(s), tombstone)
	alive := r.revise(tombstone, func(s *schedule.Schedule) {
		s.UserID, s.DeletedAt, s.CreatedAt = r.id("heir"), time.Time{}, r.now
	})
	equal(r, "revived schedules", r.row(s), alive)
	revisions, err := r.ListRevisions(r.ctx, s.ScheduleID, 0, 10)
	r.ok(err, "list revisions")
	r.hold(len(revisions) == 2, "its revisions go on, got %d", len(revisions))
	listed, err := r.ListSchedules(r.ctx, schedule.ScheduleFilter{UserID: r.id("heir"), Now: r.now, Limit: 10})
	r.ok(err, "list schedules")
	equal(r, "listed schedules", listed, []schedule.Schedule{alive})
}

func changeRespectsKeys(r *rig) {
	s := r.create("offered")
	claimed := r.bring(r.slot(s, r.now), schedule.StatusStarted)
	planned := r.slot(s, r.at(time.Second))
	r.add(planned)
	r.add(
		r.slot(s, r.now, func(run *schedule.Run) { run.Priority = 9 }),
		r.slot(s, r.at(time.Second), func(run *schedule.Run) { run.Revision = 2 }),
	)
	r.untouched(claimed, planned)
}

func changeCountsInFlight(r *rig) {
	shared := func(s *schedule.Schedule) { s.OverlapKey = "shared" }
	a, b := r.create("a", shared), r.create("b", shared)
	stranger := r.create("stranger", shared, func(s *schedule.Schedule) { s.UserID = r.id("stranger") })
	own := r.create("own")
	r.bring(r.due(a, 4), schedule.StatusLaunching)
	r.bring(r.due(a, 3), schedule.StatusStarted)
	r.bring(r.due(b, 4), schedule.StatusEnqueued)
	r.bring(r.due(b, 3), schedule.StatusSuccess)
	r.bring(r.due(stranger, 4), schedule.StatusStarted)
	r.add(r.slot(a, r.at(time.Hour)))

	count := func(asked bool) (counts []int) {
		req := schedule.ChangeRequest{ScheduleIDs: []string{a.ScheduleID, b.ScheduleID, stranger.ScheduleID, own.ScheduleID, r.id("new")}, CountInFlight: asked}
		err := r.ChangeSchedules(r.ctx, req, func(in []schedule.ChangeInput) ([]schedule.Change, error) {
			counts = nil
			for _, input := range in {
				counts = append(counts, input.InFlight)
			}
			return nil, nil
		})
		r.ok(err, "count")
		return counts
	}
	equal(r, "runs in flight", count(true), []int{3, 3, 1, 0, 0})
	equal(r, "runs in flight, not asked for", count(false), []int{0, 0, 0, 0, 0})
}

func changeNotFound(r *rig) {
	r.missing("nobody")
	_, err := r.GetRun(r.ctx, schedule.ManualKey("no", "run"))
	r.hold(errors.Is(err, schedule.ErrNotFound), "GetRun: ErrNotFound, got %v", err)
	events, err := r.ListEvents(r.ctx, r.id("nobody"), 0, 10)
	r.ok(err, "list events of nobody")
	revisions, err := r.ListRevisions(r.ctx, r.id("nobody"), 0, 10)
	r.ok(err, "list revisions of nobody")
	r.hold(len(events) == 0 && len(revisions) == 0, "nobody has neither")
}
