package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var changes = []check{
	{"a new schedule is written whole: row, revision, runs, events", changeCreates},
	{"a change sees the row as it stands", changeSeesRow},
	{"inputs come in the order of the ids asked for", changeInputOrder},
	{"a change that says nothing writes nothing", changeNothing},
	{"an error of decide writes nothing and comes back as it is", changeError},
	{"many schedules are changed together or not at all", changeAtomic},
	{"a workflow is stored with its schedules, or neither is", changeWithWorkflow},
	{"a new revision follows, and the old one stays as it was", changeRevises},
	{"rows that were only a plan are taken back, all else stays", changeDropsPlan},
	{"a pause ends what is due as SKIPPED(paused)", changePauses},
	{"a deletion ends every PLANNED row and leaves what is in flight", changeDeletes},
	{"a deletion leaves a tombstone that the next owner's change revives", changeRevives},
	{"a run that is offered under a key that is there changes nothing", changeRespectsKeys},
	{"runs in flight under the overlap key are counted when asked for", changeCountsInFlight},
	{"what cannot be found is not found", changeNotFound},
}

func changeCreates(r *rig) {
	s := r.schedule("new")
	run := r.slot(s, r.at(time.Minute))
	event := schedule.Event{ScheduleID: s.ScheduleID, Time: r.now, Kind: schedule.EventCreated, Actor: r.user, Revision: 1}
	asked := false
	err := r.ChangeSchedules(r.ctx, schedule.ChangeRequest{ScheduleIDs: []string{s.ScheduleID}}, func(in []schedule.ChangeInput) ([]schedule.Change, error) {
		asked = true
		r.hold(len(in) == 1 && in[0].Schedule == nil && in[0].InFlight == 0, "there is none yet, got %+v", in)
		return []schedule.Change{{
			ScheduleID: s.ScheduleID, Row: &s, NewRevision: true, ChangedBy: r.user, Runs: []schedule.Run{run}, Events: []schedule.Event{event}, Now: r.now,
		}}, nil
	})
	r.ok(err, "create")
	r.hold(asked, "decide is asked")
	equal(r, "schedules", r.row(s), s)
	equal(r, "runs", r.runsOf(s), []schedule.Run{run})
	got := r.eventsOf(s)
	r.hold(len(got) == 1, "one event is written, got %d", len(got))
	event.ID = got[0].ID
	equal(r, "events", got[0], event)
	revisions, err := r.ListRevisions(r.ctx, s.ScheduleID, 0, 10)
	r.ok(err, "list revisions")
	r.hold(len(revisions) == 1 && revisions[0].Revision == 1 && revisions[0].ChangedBy == r.user, "one revision is written, got %+v", revisions)
	equal(r, "definitions", revisions[0].Definition, s.Definition)
}

func changeSeesRow(r *rig) {
	alive := r.create("alive")
	tombstone := r.create("tombstone", func(s *schedule.Schedule) { s.DeletedAt = r.at(-time.Second) })
	err := r.ChangeSchedules(r.ctx, schedule.ChangeRequest{ScheduleIDs: []string{alive.ScheduleID, tombstone.ScheduleID}}, func(in []schedule.ChangeInput) ([]schedule.Change, error) {
		equal(r, "schedules", *in[0].Schedule, alive)
		equal(r, "tombstones", *in[1].Schedule, tombstone)
		return nil, nil
	})
	r.ok(err, "look")
}

func changeInputOrder(r *rig) {
	r.create("a")
	r.create("c")
	ids := []string{r.id("c"), r.id("b"), r.id("a"), r.id("d")}
	err := r.ChangeSchedules(r.ctx, schedule.ChangeRequest{ScheduleIDs: ids}, func(in []schedule.ChangeInput) ([]schedule.Change, error) {
		r.hold(len(in) == 4, "one input per id, got %d", len(in))
		for i, known := range []bool{true, false, true, false} {
			r.hold((in[i].Schedule != nil) == known, "%s is known: %v, got %+v", ids[i], known, in[i].Schedule)
			r.hold(!known || in[i].Schedule.ScheduleID == ids[i], "input %d is of %s, got %+v", i, ids[i], in[i].Schedule)
		}
		return nil, nil
	})
	r.ok(err, "look")
}

func changeNothing(r *rig) {
	s := r.create("same")
	r.change(schedule.Change{ScheduleID: s.ScheduleID})
	r.ok(r.ChangeSchedules(r.ctx, schedule.ChangeRequest{}, func([]schedule.ChangeInput) ([]schedule.Change, error) { return nil, nil }), "change no schedule")
	equal(r, "schedules", r.row(s), s)
	r.hold(len(r.eventsOf(s)) == 0 && len(r.runsOf(s)) == 0, "nothing was written")
}

// refusal is an error of a caller, which must come back as the very same.
type refusal struct{ why string }

func (e *refusal) Error() string { return e.why }

func changeError(r *rig) {
	s := r.create("kept")
	want := &refusal{"not like this"}
	err := r.ChangeSchedules(r.ctx, schedule.ChangeRequest{ScheduleIDs: []string{s.ScheduleID, r.id("new")}}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
		changed := r.schedule("kept", func(s *schedule.Schedule) { s.Priority = 9 })
		return []schedule.Change{{ScheduleID: s.ScheduleID, Row: &changed, Now: r.now}}, want
	})
	r.hold(errors.Is(err, want) && err.Error() == want.why, "the error comes back as it is, got %v", err)
	equal(r, "schedules", r.row(s), s)
	r.missing("new")
}

func (r *rig) missing(name string) {
	r.Helper()
	_, err := r.GetSchedule(r.ctx, r.id(name))
	r.hold(errors.Is(err, schedule.ErrNotFound), "%s is not there, got %v", name, err)
}

func changeAtomic(r *rig) {
	a, b, c := r.schedule("a"), r.schedule("b"), r.schedule("c")
	r.change(
		schedule.Change{Row: &c, NewRevision: true}, schedule.Change{Row: &a, NewRevision: true}, schedule.Change{Row: &b, NewRevision: true},
	)
	for _, s := range []schedule.Schedule{a, b, c} {
		equal(r, "schedules", r.row(s), s)
	}
	// The second one cannot be written: its run is of a status that no row may have.
	changed := a
	changed.Priority = 9
	bad := r.slot(b, r.now, func(run *schedule.Run) { run.Trigger = "no such trigger" })
	err := r.tryChange(schedule.ChangeRequest{}, schedule.Change{Row: &changed}, schedule.Change{ScheduleID: b.ScheduleID, Runs: []schedule.Run{bad}})
	r.hold(err != nil, "a row that the schema refuses is an error")
	equal(r, "schedules changed beside it", r.row(a), a)
	r.hold(len(r.runsOf(b)) == 0, "no run was written")
}

func changeWithWorkflow(r *rig) {
	w := r.version("workflow", 1, `{"a": 1}`)
	s := r.schedule("deployed")
	deploy := func(w schedule.WorkflowVersion, s schedule.Schedule) error {
		return r.tryChange(schedule.ChangeRequest{Workflows: []*schedule.WorkflowVersion{&w}}, schedule.Change{Row: &s, NewRevision: true})
	}
	r.ok(deploy(w, s), "deploy")
	equal(r, "workflow versions", r.getWorkflow(w), w)
	equal(r, "schedules", r.row(s), s)
	r.ok(deploy(w, r.schedule("more")), "deploy the same version with one schedule more")

	other := r.version("workflow", 1, `{"a": 2}`)
	err := deploy(other, r.schedule("late"))
	r.hold(errors.Is(err, schedule.ErrExists), "another DAG under the same version is refused with ErrExists, got %v", err)
	r.missing("late")
	equal(r, "workflow versions", r.getWorkflow(w), w)

	boom := &refusal{"no"}
	next := r.version("workflow", 2, `{"a": 2}`)
	err = r.ChangeSchedules(r.ctx, schedule.ChangeRequest{ScheduleIDs: []string{s.ScheduleID}, Workflows: []*schedule.WorkflowVersion{&next}}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
		return nil, boom
	})
	r.hold(errors.Is(err, boom), "the refusal comes back, got %v", err)
	_, err = r.GetWorkflow(r.ctx, next.UserID, next.WorkflowID, 2)
	r.hold(errors.Is(err, schedule.ErrNotFound), "no workflow is stored beside a refusal, got %v", err)
	r.ok(r.tryChange(schedule.ChangeRequest{Workflows: []*schedule.WorkflowVersion{&next}}), "deploy a workflow without schedules")
	equal(r, "workflow versions", r.getWorkflow(next), next)
}

func changeRevises(r *rig) {
	first := r.create("revised")
	second := r.revise(first, func(s *schedule.Schedule) { s.CronExpr, s.Version = "5 5 * * *", 2 })
	third := r.revise(second, func(s *schedule.Schedule) { s.CronExpr, s.IntervalMS = "", 60_000 })
	equal(r, "schedules", r.row(first), third)
	list := func(before int64, limit int) []schedule.Revision {
		got, err := r.ListRevisions(r.ctx, first.ScheduleID, before, limit)
		r.ok(err, "list revisions")
		return got
	}
	all := list(0, 10)
	r.hold(len(all) == 3, "there are three, got %d", len(all))
	for i, s := range []schedule.Schedule{third, second, first} {
		r.hold(all[i].Revision == s.Revision, "newest first, got %d at place %d", all[i].Revision, i)
		equal(r, fmt.Sprintf("definitions of revision %d", s.Revision), all[i].Definition, s.Definition)
	}
	equal(r, "the first page", list(0, 2), all[:2])
	equal(r, "the second page", list(2, 2), all[2:])
	equal(r, "beyond the last", list(1, 2), nil)

	moved := r.rewrite(third, func(s *schedule.Schedule) { s.NextRunAt = r.at(2 * time.Hour) })
	equal(r, "schedules without a new revision", r.row(first), moved)
	equal(r, "revisions", list(0, 10), all)
}
