package storetest

import (
	"errors"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

func planLateRows(r *rig) {
	r.lead()
	s := r.create("late", planAt(r.now))
	other := r.create("other", planAt(r.at(time.Microsecond)))
	late := func(minutes int) time.Time { return r.at(-time.Duration(minutes) * time.Minute) }

	waiting := r.slot(s, late(9), func(run *schedule.Run) { run.WaitingSince = late(8) })
	byHand := r.manual(s, "m", late(7))
	caughtUp := r.slot(s, late(6), func(run *schedule.Run) { run.Trigger = schedule.TriggerCatchup })
	ahead := r.slot(s, r.at(time.Minute), func(run *schedule.Run) { run.FireAt = late(5) }) // jitter drew it before its run_at
	jittered := r.slot(s, late(4), func(run *schedule.Run) { run.FireAt = r.at(-time.Second) })
	r.add(waiting, byHand, caughtUp, ahead, jittered, r.slot(s, r.at(-time.Second)), r.slot(s, r.now))
	young := r.slot(s, late(2))
	early := r.slot(s, late(3), func(run *schedule.Run) { run.FireAt = r.at(-3*time.Minute - time.Second) })
	old := r.slot(s, late(30))
	r.add(young, old, early, r.slot(other, late(20)))

	seen := r.look()
	equal(r, "candidates", idsOf(seen), []string{s.ScheduleID, other.ScheduleID})
	equal(r, "late rows", keysOf(seen[0].Late), keysOf([]schedule.Run{old, early, young}))
	equal(r, "late rows of the other", keysOf(seen[1].Late), []schedule.Key{schedule.SlotKey(other.ScheduleID, late(20))})
	equal(r, "a late row", bodily(seen[0].Late[1]), bodily(r.ledger(early.Key)))
}

func planLateRowsAlone(r *rig) {
	r.lead()
	for name, at := range map[string]time.Time{"exhausted": {}, "far": r.at(time.Hour)} {
		s := r.create(name, planAt(at))
		r.add(r.slot(s, r.at(-2*time.Minute)))
	}
	deleted := r.create("deleted", planAt(time.Time{}))
	r.add(r.slot(deleted, r.at(-2*time.Minute)))
	r.rewrite(deleted, func(s *schedule.Schedule) { s.DeletedAt = r.now })

	found := map[string]int{}
	for _, c := range r.look() {
		found[c.Schedule.ScheduleID] = len(c.Late)
	}
	equal(r, "late rows by schedule", found, map[string]int{r.id("exhausted"): 1, r.id("far"): 1})
}

// planLateRowsInQuarantine: otherwise a schedule that cannot be planned would
// fail again at every tick, whatever its backoff.
func planLateRowsInQuarantine(r *rig) {
	r.lead()
	s := r.create("broken", planAt(r.at(time.Hour)), func(s *schedule.Schedule) { s.PlanFailures = 4 })
	late := r.slot(s, r.at(-2*time.Minute))
	r.add(late)
	equal(r, "candidates", idsOf(r.look()), nil)
	r.now = r.at(time.Hour)
	seen := r.look()
	equal(r, "candidates once its time has come", idsOf(seen), []string{s.ScheduleID})
	equal(r, "late rows", keysOf(seen[0].Late), []schedule.Key{late.Key})
}

func planLateBoundary(r *rig) {
	r.lead()
	s := r.create("boundary", planAt(r.now))
	r.add(r.slot(s, r.at(-grace)))
	seen := r.look()
	r.hold(len(seen) == 1 && len(seen[0].Late) == 0, "late by exactly the grace is in time")
	r.now = r.at(time.Microsecond)
	seen = r.look()
	r.hold(len(seen) == 1 && len(seen[0].Late) == 1, "late by a microsecond more is late")
}

func planJudges(r *rig) {
	r.lead()
	s := r.create("late", planAt(r.now))
	skipped, fired := r.slot(s, r.at(-time.Hour)), r.slot(s, r.at(-30*time.Minute))
	r.add(skipped, fired)
	result, _ := r.plan(func(c schedule.PlanCandidate) *schedule.PlanDecision {
		d := keep(c)
		d.LateVerdicts = []schedule.LateVerdict{
			{Key: skipped.Key, Reason: schedule.ReasonMissed},
			{Key: fired.Key, Fire: true, FireAt: r.at(500 * time.Millisecond), Trigger: schedule.TriggerCatchup},
		}
		return d
	})
	r.hold(len(result.Skipped) == 1 && result.Skipped[0].Key == skipped.Key && result.Skipped[0].To == schedule.StatusSkipped &&
		result.Skipped[0].Reason == schedule.ReasonMissed, "the row that ended is reported, got %+v", result.Skipped)

	got := r.ledger(skipped.Key)
	r.hold(result.Skipped[0].ScheduleID == got.ScheduleID && result.Skipped[0].RunAt.Equal(got.RunAt), "it is reported with its name, got %+v", result.Skipped)
	r.hold(got.Status == schedule.StatusSkipped && got.Reason == schedule.ReasonMissed, "it is SKIPPED(missed), got %s(%s)", got.Status, got.Reason)
	want := fired
	want.FireAt, want.Trigger, want.UpdatedAt = r.at(500*time.Millisecond), schedule.TriggerCatchup, r.now
	equal(r, "rows that fire after all", r.ledger(fired.Key), want)
	equal(r, "late rows left", keysOf(r.look()[0].Late), nil)
}

// planJudgesOnlyPlanned names rows of every other status in a decision; a plan
// that has read them before cannot move them.
func planJudgesOnlyPlanned(r *rig) {
	r.lead()
	s := r.create("late", planAt(r.now))
	var rows []schedule.Run
	for i, status := range schedule.Statuses[1:] {
		run := r.slot(s, r.at(-time.Duration(i)*time.Second))
		rows = append(rows, r.bring(run, status))
	}
	result, _ := r.plan(func(c schedule.PlanCandidate) *schedule.PlanDecision {
		d := keep(c)
		for i, run := range rows {
			d.LateVerdicts = append(d.LateVerdicts, schedule.LateVerdict{
				Key: run.Key, Fire: i%2 == 0, FireAt: r.at(time.Hour), Trigger: schedule.TriggerCatchup, Reason: schedule.ReasonMissed,
			})
		}
		return d
	})
	r.hold(len(result.Skipped) == 0, "nothing ended, got %+v", result.Skipped)
	for _, run := range rows {
		equal(r, string(run.Status)+" rows", r.ledger(run.Key), run)
	}
}

func planPoison(r *rig) {
	poisoner, offers := r.Store.(Poisoner)
	if !offers {
		r.Skip("this store's adapter offers no way to spoil a row")
	}
	r.lead()
	r.create("a-sound", planAt(r.now))
	bad := r.create("b-poisoned", planAt(r.at(time.Microsecond)))
	r.create("c-sound", planAt(r.at(2*time.Microsecond)))
	r.ok(poisoner.Poison(r.ctx, bad.ScheduleID), "spoil a row")

	later := r.at(time.Hour)
	decide := func(c schedule.PlanCandidate) *schedule.PlanDecision {
		if c.Unreadable != nil {
			return &schedule.PlanDecision{
				ScheduleID: c.Schedule.ScheduleID, Failures: c.Schedule.PlanFailures + 1, PlanAt: later,
				Events: []schedule.Event{{ScheduleID: c.Schedule.ScheduleID, Time: r.now, Kind: schedule.EventPlanFailed, Note: c.Unreadable.Error()}},
			}
		}
		d := keep(c)
		d.Rows = []schedule.Run{r.slot(c.Schedule, r.at(time.Second))}
		d.PlanAt = later
		return d
	}
	result, seen := r.plan(decide)
	equal(r, "candidates", idsOf(seen), []string{r.id("a-sound"), r.id("b-poisoned"), r.id("c-sound")})
	r.hold(seen[0].Unreadable == nil && seen[2].Unreadable == nil, "sound rows are readable")
	r.hold(seen[1].Unreadable != nil, "the poisoned row is unreadable")
	r.hold(result.Inserted == 2, "the others are planned, got %d rows", result.Inserted)
	equal(r, "schedules that could not be planned", result.Failed, []string{bad.ScheduleID})
	equal(r, "candidates after the quarantine", idsOf(r.look()), nil)
	r.hold(len(r.eventsOf(bad)) == 1, "the failure is in its log")

	r.now = later
	_, seen = r.plan(decide)
	r.hold(len(seen) == 3, "all come again, got %d", len(seen))
	for _, c := range seen {
		if c.Unreadable != nil {
			r.hold(c.Schedule.PlanFailures == 1, "the failures are counted, got %d", c.Schedule.PlanFailures)
		}
	}
}

func listPoison(r *rig) {
	poisoner, offers := r.Store.(Poisoner)
	if !offers {
		r.Skip("this store's adapter offers no way to spoil a row")
	}
	r.create("a-sound")
	bad := r.create("b-poisoned")
	r.create("c-sound")
	r.create("d-sound")
	r.add(r.slot(bad, r.at(time.Second)))
	r.ok(poisoner.Poison(r.ctx, bad.ScheduleID), "spoil a row")

	sound := []string{"a-sound", "c-sound", "d-sound"}
	listed, err := r.ListSchedules(r.ctx, schedule.ScheduleFilter{UserID: r.user, Now: r.now, Limit: 3})
	r.ok(err, "list schedules")
	equal(r, "a page", r.names(listed), sound)
	upcoming, _ := r.upcoming(schedule.ScheduleFilter{UserID: r.user, Limit: 3})
	equal(r, "a page of what is upcoming", upcoming, sound)
	_, err = r.GetSchedule(r.ctx, bad.ScheduleID)
	r.hold(err != nil && !errors.Is(err, schedule.ErrNotFound), "it cannot be read, got %v", err)

	var seen []schedule.ChangeInput
	err = r.ChangeSchedules(r.ctx, schedule.ChangeRequest{ScheduleIDs: []string{bad.ScheduleID}}, func(in []schedule.ChangeInput) ([]schedule.Change, error) {
		seen = in
		return []schedule.Change{{ScheduleID: bad.ScheduleID, Row: &bad, Now: r.now}}, nil
	})
	r.ok(err, "replace it")
	r.hold(len(seen) == 1 && seen[0].Schedule != nil && seen[0].Schedule.Revision == bad.Revision, "a change sees its revision, got %v", seen)
	equal(r, "replaced", r.row(bad), stored(bad))
}
