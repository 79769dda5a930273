package storetest

import (
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var plans = []check{
	{"schedules that are due to be looked at come by plan_at, up to the horizon", planByPlanAt},
	{"at most Limit schedules come, and the next call goes on", planInBatches},
	{"schedules that stand still, are exhausted or deleted do not come", planPassesOver},
	{"a schedule whose pause has run out comes, and its pause can be ended", planEndsPause},
	{"a decision is written whole, and nothing of the user's is touched", planWritesDecision},
	{"a decision that counts a failure puts off the next look and keeps the rest", planQuarantines},
	{"a schedule runs out of slots", planExhausts},
	{"a key that is there already is respected", planRespectsKeys},
	{"a slot that was planned and has ended is not planned again", planRespectsEnded},
	{"a slot that others inserted and that has ended is not planned again", planRespectsEndedOfOthers},
	{"candidates without a decision stay as they are", planWithoutDecision},
	{"a schedule is shown as it stands", planShowsSchedule},
	{"the definition of an older backlog comes along", planBacklogDefinition},
	{"a backlog whose older definition is gone comes without it", planBacklogAlone},
	{"the slots that have a row since a backlog began come along, to planner and registrar", planBacklogRows},
	{"rows that are late and missable come along, oldest first", planLateRows},
	{"late rows bring their schedule along, even when it has nothing to plan", planLateRowsAlone},
	{"a schedule in quarantine is left alone until its plan_at, late rows or not", planLateRowsInQuarantine},
	{"exactly as late as the grace is not late", planLateBoundary},
	{"late rows are judged: fired as catch-up, or skipped with a reason", planJudges},
	{"a judgement comes too late for a row that is not PLANNED any more", planJudgesOnlyPlanned},
	{"one poisoned row does not stop the others", planPoison},
	{"a poisoned row is left out of lists, and can be replaced", listPoison},
}

// planRequest is one of the rig's term, at its now, for more than there is.
func (r *rig) planRequest() schedule.PlanRequest {
	return schedule.PlanRequest{Term: r.term, Now: r.now, Horizon: r.at(lookout), Grace: grace, Limit: 1000}
}

// plan plans by decide, which sees one candidate at a time; nil decides nothing.
func (r *rig) plan(decide func(schedule.PlanCandidate) *schedule.PlanDecision, edits ...func(*schedule.PlanRequest)) (schedule.PlanResult, []schedule.PlanCandidate) {
	r.Helper()
	req := r.planRequest()
	for _, edit := range edits {
		edit(&req)
	}
	var seen []schedule.PlanCandidate
	result, err := r.Plan(r.ctx, req, func(candidates []schedule.PlanCandidate) []schedule.PlanDecision {
		seen = slices.Clone(candidates)
		var decisions []schedule.PlanDecision
		for _, c := range candidates {
			if d := decide(c); d != nil {
				decisions = append(decisions, *d)
			}
		}
		return decisions
	})
	r.ok(err, "plan")
	return result, seen
}

// look is what plan shows, deciding nothing.
func (r *rig) look() []schedule.PlanCandidate {
	r.Helper()
	_, seen := r.plan(func(schedule.PlanCandidate) *schedule.PlanDecision { return nil })
	return seen
}

// keep is the decision that leaves a schedule unchanged.
func keep(c schedule.PlanCandidate) *schedule.PlanDecision {
	s := c.Schedule
	return &schedule.PlanDecision{
		ScheduleID: s.ScheduleID, NextRunAt: s.NextRunAt, PlanAt: s.PlanAt, Backlog: s.Backlog, Failures: s.PlanFailures,
	}
}

func idsOf(candidates []schedule.PlanCandidate) []string {
	ids := make([]string, len(candidates))
	for i, c := range candidates {
		ids[i] = c.Schedule.ScheduleID
	}
	return ids
}

func planAt(t time.Time) func(*schedule.Schedule) {
	return func(s *schedule.Schedule) { s.PlanAt, s.NextRunAt = t, t }
}

func planByPlanAt(r *rig) {
	r.lead()
	r.create("a-third", planAt(r.at(lookout)))
	r.create("b-first", planAt(r.at(-time.Hour)))
	r.create("c-second", planAt(r.at(lookout-time.Microsecond)))
	r.create("d-beyond", planAt(r.at(lookout+time.Microsecond)))
	equal(r, "candidates", idsOf(r.look()), []string{r.id("b-first"), r.id("c-second"), r.id("a-third")})
}

func planInBatches(r *rig) {
	r.lead()
	for _, name := range []string{"e", "d", "c", "b", "a"} {
		r.create(name, planAt(r.now))
	}
	planned := map[string]int{}
	var counts []int
	for range 4 {
		result, seen := r.plan(func(c schedule.PlanCandidate) *schedule.PlanDecision {
			d := keep(c)
			d.PlanAt = r.at(time.Hour)
			return d
		}, func(req *schedule.PlanRequest) { req.Limit = 2 })
		counts = append(counts, result.Candidates)
		for _, id := range idsOf(seen) {
			planned[id]++
		}
	}
	equal(r, "candidates per call", counts, []int{2, 2, 1, 0})
	equal(r, "times that each was planned", planned, map[string]int{r.id("a"): 1, r.id("b"): 1, r.id("c"): 1, r.id("d"): 1, r.id("e"): 1})
}

func planPassesOver(r *rig) {
	r.lead()
	r.create("paused", planAt(r.now), func(s *schedule.Schedule) { s.Pause.Paused = true })
	r.create("paused-still", planAt(r.now), func(s *schedule.Schedule) {
		s.Pause = schedule.Pause{Paused: true, Until: r.at(time.Microsecond)}
	})
	r.create("nothing-to-do", planAt(time.Time{}))
	r.create("deleted", planAt(r.now), func(s *schedule.Schedule) { s.DeletedAt = r.at(-time.Second) })
	r.create("due", planAt(r.now))
	equal(r, "candidates", idsOf(r.look()), []string{r.id("due")})
}

func planEndsPause(r *rig) {
	r.lead()
	s := r.create("paused", planAt(r.now), func(s *schedule.Schedule) {
		s.Pause = schedule.Pause{Paused: true, Note: "till noon", By: "op", Until: r.now}
	})
	_, seen := r.plan(func(c schedule.PlanCandidate) *schedule.PlanDecision { return keep(c) })
	equal(r, "candidates", idsOf(seen), []string{s.ScheduleID})
	equal(r, "pauses that nobody ended", r.row(s).Pause, s.Pause)

	r.plan(func(c schedule.PlanCandidate) *schedule.PlanDecision {
		d := keep(c)
		d.EndPause = true
		return d
	})
	equal(r, "ended pauses", r.row(s).Pause, schedule.Pause{})
}

func planWritesDecision(r *rig) {
	r.lead()
	s := r.create("nightly", planAt(r.at(-time.Minute)), func(s *schedule.Schedule) { s.LastRunAt, s.PlanFailures = r.at(-time.Hour), 3 })
	other := r.create("other", planAt(r.now))
	rows := []schedule.Run{r.slot(s, r.at(10*time.Second)), r.slot(s, r.at(20*time.Second), func(run *schedule.Run) {
		run.FireAt = r.at(19 * time.Second)
	})}
	event := schedule.Event{ScheduleID: s.ScheduleID, Time: r.now, Kind: schedule.EventBacklogOpened, Count: 3, Revision: 1}
	backlog := schedule.Backlog{From: r.at(-3 * time.Hour), Until: r.at(-time.Hour), Revision: 1, At: r.at(time.Second)}

	result, _ := r.plan(func(c schedule.PlanCandidate) *schedule.PlanDecision {
		d := keep(c)
		if c.Schedule.ScheduleID == s.ScheduleID {
			d.Rows, d.Events, d.Backlog = rows, []schedule.Event{event}, backlog
			d.NextRunAt, d.PlanAt, d.Failures = r.at(30*time.Second), r.at(25*time.Second), 0
		}
		return d
	})
	r.hold(result.Candidates == 2, "two candidates are counted, got %d", result.Candidates)
	r.hold(result.Inserted == 2, "two rows are new, got %d", result.Inserted)
	equal(r, "keys of rows that were offered", keysOf(result.Rows), keysOf(rows))
	equal(r, "rows", r.runsOf(s), rows)

	want := s
	want.NextRunAt, want.PlanAt, want.Backlog, want.PlanFailures = r.at(30*time.Second), r.at(25*time.Second), backlog, 0
	equal(r, "schedules", r.row(s), want)
	equal(r, "schedules that were kept", r.row(other), other)
	events := r.eventsOf(s)
	r.hold(len(events) == 1, "one event is written, got %d", len(events))
	event.ID = events[0].ID
	equal(r, "events", events[0], event)
}

// planQuarantines has a planner that could not read the schedule and knows
// neither its cursor nor its backlog: both must be there when it is read again.
func planQuarantines(r *rig) {
	r.lead()
	s := r.create("broken", planAt(r.now), func(s *schedule.Schedule) {
		s.Backlog = schedule.Backlog{From: r.at(-time.Hour), Until: r.now, Revision: 1}
	})
	event := schedule.Event{ScheduleID: s.ScheduleID, Time: r.now, Kind: schedule.EventPlanFailed, Note: awkward}
	result, _ := r.plan(func(c schedule.PlanCandidate) *schedule.PlanDecision {
		return &schedule.PlanDecision{ScheduleID: s.ScheduleID, Failures: 2, PlanAt: r.at(time.Hour), Events: []schedule.Event{event}}
	})
	equal(r, "schedules that could not be planned", result.Failed, []string{s.ScheduleID})
	want := s
	want.PlanAt, want.PlanFailures = r.at(time.Hour), 2
	equal(r, "schedules", r.row(s), want)
	r.hold(len(r.eventsOf(s)) == 1, "the failure is in its log")
}

func planExhausts(r *rig) {
	r.lead()
	s := r.create("once", planAt(r.now), func(s *schedule.Schedule) {
		s.Backlog = schedule.Backlog{From: r.at(-time.Hour), Until: r.now, Revision: 1}
	})
	r.plan(func(c schedule.PlanCandidate) *schedule.PlanDecision {
		return &schedule.PlanDecision{ScheduleID: c.Schedule.ScheduleID}
	})
	got := r.row(s)
	r.hold(got.NextRunAt.IsZero() && got.PlanAt.IsZero() && !got.Backlog.Open(), "nothing is left to plan, got %+v", got)
	equal(r, "candidates", idsOf(r.look()), nil)
}

func planRespectsKeys(r *rig) {
	r.lead()
	s := r.create("nightly", planAt(r.now))
	claimed := r.bring(r.slot(s, r.now), schedule.StatusEnqueued)
	waiting := r.slot(s, r.at(time.Minute), func(run *schedule.Run) { run.FireAt = r.at(59 * time.Second) })
	r.add(waiting)

	offered := []schedule.Run{
		r.slot(s, r.now, func(run *schedule.Run) { run.Priority = 5 }),
		r.slot(s, r.at(time.Minute), func(run *schedule.Run) { run.Revision = 2 }),
		r.slot(s, r.at(2*time.Minute)),
	}
	result, _ := r.plan(func(c schedule.PlanCandidate) *schedule.PlanDecision {
		d := keep(c)
		d.Rows, d.NextRunAt, d.PlanAt = offered, r.at(3*time.Minute), r.at(3*time.Minute)
		return d
	})
	r.hold(result.Inserted == 1, "one row is new, got %d", result.Inserted)
	equal(r, "keys of rows that were offered", keysOf(result.Rows), keysOf(offered))
	equal(r, "rows", r.runsOf(s), []schedule.Run{claimed, waiting, offered[2]})
}

func planWithoutDecision(r *rig) {
	r.lead()
	s := r.create("undecided", planAt(r.now))
	r.look()
	equal(r, "schedules", r.row(s), s)
	result, err := r.Plan(r.ctx, schedule.PlanRequest{Term: r.term, Now: r.now, Horizon: r.at(-time.Hour), Grace: grace, Limit: 10},
		func([]schedule.PlanCandidate) []schedule.PlanDecision { return nil })
	r.ok(err, "plan when nothing is due")
	r.hold(result.Candidates == 0 && result.Inserted == 0, "nothing happened, got %+v", result)
}

func planShowsSchedule(r *rig) {
	r.lead()
	s := r.fullSchedule("full")
	s.DeletedAt, s.Pause.Until, s.Backlog.Revision = time.Time{}, r.now, s.Revision
	r.change(schedule.Change{Row: &s, NewRevision: true})
	seen := r.look()
	r.hold(len(seen) == 1, "the schedule comes, got %d", len(seen))
	equal(r, "schedules", seen[0].Schedule, stored(s))
	r.ok(seen[0].Unreadable, "read a sound row")
}

func planBacklogDefinition(r *rig) {
	r.lead()
	open := schedule.Backlog{From: r.at(-time.Hour), Until: r.at(-time.Minute), Revision: 1}
	none := r.create("none", planAt(r.now))
	inForce := r.create("in-force", planAt(r.at(time.Microsecond)), func(s *schedule.Schedule) { s.Backlog = open })
	first := r.create("older", planAt(r.at(2*time.Microsecond)), func(s *schedule.Schedule) { s.Backlog, s.CronExpr = open, "5 * * * *" })
	r.revise(first, func(s *schedule.Schedule) { s.CronExpr = "6 * * * *" })

	seen := r.look()
	equal(r, "candidates", idsOf(seen), []string{none.ScheduleID, inForce.ScheduleID, first.ScheduleID})
	r.hold(seen[0].BacklogDefinition == nil, "no backlog, no older definition")
	r.hold(seen[1].BacklogDefinition == nil, "a backlog of the revision in force needs no other definition")
	r.hold(seen[2].BacklogDefinition != nil, "a backlog of an older revision brings its definition")
	equal(r, "definitions", *seen[2].BacklogDefinition, first.Definition)
	r.hold(seen[2].Schedule.CronExpr == "6 * * * *", "the schedule itself has the one in force")
}

// The planner closes such a backlog, and the schedule fires on.
func planBacklogAlone(r *rig) {
	poisoner, offers := r.Store.(Poisoner)
	if !offers {
		r.Skip("this store's adapter offers no way to spoil a row")
	}
	r.lead()
	s := r.create("older", planAt(r.now), func(s *schedule.Schedule) {
		s.Backlog = schedule.Backlog{From: r.at(-time.Hour), Until: r.at(-time.Minute), Revision: 1}
	})
	r.revise(s, func(s *schedule.Schedule) { s.CronExpr = "6 * * * *" })
	r.ok(poisoner.DropRevisions(r.ctx, s.ScheduleID), "drop its revisions")
	seen := r.look()
	r.hold(len(seen) == 1 && seen[0].Schedule.Backlog.Open(), "the schedule comes with its backlog, got %v", seen)
	r.hold(seen[0].BacklogDefinition == nil && seen[0].Unreadable == nil, "without the definition, got %v", seen[0].Unreadable)
}

func planBacklogRows(r *rig) {
	r.lead()
	s := r.create("two-outages", planAt(r.now), func(s *schedule.Schedule) {
		s.Backlog = schedule.Backlog{From: r.at(-time.Hour), Until: r.at(-time.Minute), Revision: 1}
		s.NextRunAt = r.at(time.Minute)
	})
	other := r.create("no-backlog", planAt(r.at(time.Microsecond)))
	catchup := func(run *schedule.Run) { run.Trigger = schedule.TriggerCatchup }
	r.add(
		r.slot(s, r.at(-2*time.Hour)), // before it
		r.slot(s, r.at(-30*time.Minute), catchup), r.slot(s, r.at(-40*time.Minute)), r.slot(s, r.at(-time.Second)),
		r.manual(s, "by-hand", r.at(-20*time.Minute)), // no slot
		r.slot(other, r.at(-30*time.Minute)),
	)
	want := []time.Time{r.at(-40 * time.Minute), r.at(-30 * time.Minute), r.at(-time.Second)}

	seen := r.look()
	equal(r, "the planner's", seen[0].Schedule.Planned, want)
	r.hold(seen[1].Schedule.Planned == nil, "without a backlog nobody asks")
	err := r.ChangeSchedules(r.ctx, schedule.ChangeRequest{ScheduleIDs: []string{s.ScheduleID, other.ScheduleID}}, func(in []schedule.ChangeInput) ([]schedule.Change, error) {
		equal(r, "the registrar's", in[0].Schedule.Planned, want)
		r.hold(in[1].Schedule.Planned == nil, "without a backlog nobody asks")
		closed := *in[0].Schedule
		closed.Backlog = schedule.Backlog{}
		return []schedule.Change{{ScheduleID: closed.ScheduleID, Row: &closed, Now: r.now}}, nil
	})
	r.ok(err, "close the backlog")
	r.hold(r.look()[0].Schedule.Planned == nil, "nobody asks after it is closed, nor is the answer kept")
}

func planRespectsEnded(r *rig) {
	r.lead()
	s := r.create("s", planAt(r.now))
	slot := r.slot(s, r.at(time.Minute))
	r.hold(r.planSlot(slot).Inserted == 1, "the slot is planned")
	r.notPlannedAgain(slot)
}

// A backfill and an edit insert slots that the planner does not know.
func planRespectsEndedOfOthers(r *rig) {
	r.lead()
	s := r.create("s", planAt(r.now))
	r.planSlot(r.slot(s, r.at(time.Second)))
	r.notPlannedAgain(r.add(r.slot(s, r.at(time.Minute)))[0])
}

func (r *rig) planSlot(slot schedule.Run) schedule.PlanResult {
	r.Helper()
	result, _ := r.plan(func(c schedule.PlanCandidate) *schedule.PlanDecision {
		d := keep(c)
		d.Rows = []schedule.Run{slot}
		return d
	})
	return result
}

// notPlannedAgain ends the slot's run, as a cancel does, and plans the slot again, as
// after an edit that sets the cursor back.
func (r *rig) notPlannedAgain(slot schedule.Run) {
	r.Helper()
	cancel := schedule.Settlement{To: schedule.StatusCancelled, Reason: schedule.ReasonCancelled, CompletedAt: r.now}
	r.moveRun(slot.Key, schedule.RunChange{Settle: &cancel})
	before := r.ledger(slot.Key)
	r.hold(r.planSlot(slot).Inserted == 0, "the slot is not planned again")
	equal(r, "the run of the slot", r.ledger(slot.Key), before)
}
