package storetest

import (
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// schedule is a valid schedule of this rig's owner, under policy allow, alive,
// with its next slot an hour away. Nothing is stored yet.
func (r *rig) schedule(name string, edits ...func(*schedule.Schedule)) schedule.Schedule {
	id := r.id(name)
	s := schedule.Schedule{
		Definition: schedule.Definition{
			ScheduleID: id, WorkflowID: r.id("workflow"), Version: 1, UserID: r.user,
			CronExpr: "0 * * * *", Timezone: "UTC", DST: schedule.DSTVixie,
			OverlapPolicy: schedule.OverlapAllow, OverlapKey: id, MaxQueued: 100,
			CatchupPolicy: schedule.CatchupNone, CatchupWindowMS: 86_400_000, RunTimeoutMS: 3_600_000,
		},
		Revision: 1, RevisedAt: r.at(-time.Hour),
		NextRunAt: r.at(time.Hour), PlanAt: r.at(time.Hour),
		CreatedAt: r.at(-time.Hour), UpdatedAt: r.at(-time.Hour),
	}
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

// create stores a schedule with its first revision.
func (r *rig) create(name string, edits ...func(*schedule.Schedule)) schedule.Schedule {
	r.Helper()
	s := r.schedule(name, edits...)
	r.change(schedule.Change{Row: &s, NewRevision: true, ChangedBy: s.UserID})
	return s
}

// revise stores s as its next revision and returns it.
func (r *rig) revise(s schedule.Schedule, edits ...func(*schedule.Schedule)) schedule.Schedule {
	r.Helper()
	s.Revision++
	s.RevisedAt, s.UpdatedAt = r.now, r.now
	for _, edit := range edits {
		edit(&s)
	}
	r.change(schedule.Change{Row: &s, NewRevision: true, ChangedBy: s.UserID})
	return s
}

// rewrite stores s without a new revision.
func (r *rig) rewrite(s schedule.Schedule, edits ...func(*schedule.Schedule)) schedule.Schedule {
	r.Helper()
	for _, edit := range edits {
		edit(&s)
	}
	r.change(schedule.Change{Row: &s})
	return s
}

// change writes the changes in one transaction. Where they do not say so,
// ScheduleID is Row's and Now is the rig's.
func (r *rig) change(changes ...schedule.Change) {
	r.Helper()
	r.ok(r.tryChange(schedule.ChangeRequest{}, changes...), "change schedules")
}

func (r *rig) tryChange(req schedule.ChangeRequest, changes ...schedule.Change) error {
	for i := range changes {
		c := &changes[i]
		if c.ScheduleID == "" {
			c.ScheduleID = c.Row.ScheduleID
		}
		if c.Now.IsZero() {
			c.Now = r.now
		}
		req.ScheduleIDs = append(req.ScheduleIDs, c.ScheduleID)
	}
	return r.ChangeSchedules(r.ctx, req, func([]schedule.ChangeInput) ([]schedule.Change, error) {
		return changes, nil
	})
}

// slot is a PLANNED run of s at runAt, to be fired then. Nothing is stored yet.
func (r *rig) slot(s schedule.Schedule, runAt time.Time, edits ...func(*schedule.Run)) schedule.Run {
	run := schedule.Run{
		Key: schedule.SlotKey(s.ScheduleID, runAt), ScheduleID: s.ScheduleID, Revision: s.Revision,
		UserID: s.UserID, WorkflowID: s.WorkflowID, Version: s.Version,
		RunAt: runAt, FireAt: runAt, Status: schedule.StatusPlanned, Trigger: schedule.TriggerSchedule,
		OverlapKey: s.QualifiedOverlapKey(), OverlapPolicy: s.OverlapPolicy, Exclusive: s.OverlapPolicy.Exclusive(),
		MaxQueued: s.MaxQueued, Attempt: 1, Priority: s.Priority,
		CreatedAt: r.now, UpdatedAt: r.now,
	}
	for _, edit := range edits {
		edit(&run)
	}
	return run
}

// manual is a PLANNED run of s that was asked for by hand.
func (r *rig) manual(s schedule.Schedule, requestID string, runAt time.Time, edits ...func(*schedule.Run)) schedule.Run {
	run := r.slot(s, runAt, func(run *schedule.Run) {
		run.Key, run.Trigger = schedule.ManualKey(s.ScheduleID, requestID), schedule.TriggerManual
	})
	for _, edit := range edits {
		edit(&run)
	}
	return run
}

// add stores PLANNED rows and returns them.
func (r *rig) add(runs ...schedule.Run) []schedule.Run {
	r.Helper()
	var changes []schedule.Change
	for _, run := range runs {
		i := slices.IndexFunc(changes, func(c schedule.Change) bool { return c.ScheduleID == run.ScheduleID })
		if i < 0 {
			i = len(changes)
			changes = append(changes, schedule.Change{ScheduleID: run.ScheduleID})
		}
		changes[i].Runs = append(changes[i].Runs, run)
	}
	r.change(changes...)
	return runs
}

// bring stores run, due now, and brings it to a status, as a worker would.
// Anything else that is due is claimed with it.
func (r *rig) bring(run schedule.Run, to schedule.Status, edits ...func(*schedule.Settlement)) schedule.Run {
	r.Helper()
	r.add(run)
	if to == schedule.StatusPlanned {
		return r.ledger(run.Key)
	}
	if r.term.Epoch == 0 {
		r.lead()
	}
	patient := func(req *claimRequest) { req.Grace = 1000 * time.Hour }
	r.hold(slices.Contains(launched(r.claim(patient)), run.Key), "the run that was added is claimed")
	if to != schedule.StatusLaunching {
		settlement := schedule.Settlement{Key: run.Key, To: to}
		for _, edit := range edits {
			edit(&settlement)
		}
		r.hold(r.settle(settlement)[0], "LAUNCHING becomes %s", to)
	}
	return r.ledger(run.Key)
}

// settle settles at the rig's now.
func (r *rig) settle(settlements ...schedule.Settlement) []bool {
	r.Helper()
	moved, err := r.Settle(r.ctx, r.term, r.now, settlements)
	r.ok(err, "settle")
	r.hold(len(moved) == len(settlements), "one answer per settlement, got %d for %d", len(moved), len(settlements))
	return whichMoved(moved)
}

// whichMoved says which settlements have moved their run.
func whichMoved(all []schedule.Moved) (moved []bool) {
	for _, m := range all {
		moved = append(moved, m != schedule.Moved{})
	}
	return moved
}

// askCancel asks for the cancel of a run, as its owner would.
func (r *rig) askCancel(key schedule.Key, reason schedule.Reason, now time.Time) schedule.Run {
	r.Helper()
	run, _, err := r.ChangeRun(r.ctx, key, schedule.Key{}, func(schedule.RunInput) (schedule.RunChange, error) {
		return schedule.RunChange{AskCancel: reason, Now: now}, nil
	})
	r.ok(err, "ask for a cancel")
	return run
}

// dropCancelReason deletes the reason of a requested cancel. It skips the check if the
// adapter is no Poisoner.
func (r *rig) dropCancelReason(key schedule.Key) {
	r.Helper()
	p, offers := r.Store.(Poisoner)
	if !offers {
		r.Skip("the store offers no broken rows")
	}
	r.ok(p.DropCancelReason(r.ctx, key), "drop cancel_reason")
}

// ledger is a run as the store has it.
func (r *rig) ledger(key schedule.Key) schedule.Run {
	r.Helper()
	run, err := r.GetRun(r.ctx, key)
	r.ok(err, "get run")
	return *run
}

// row is a schedule as the store has it.
func (r *rig) row(s schedule.Schedule) schedule.Schedule {
	r.Helper()
	got, err := r.GetSchedule(r.ctx, s.ScheduleID)
	r.ok(err, "get schedule")
	return *got
}

// runsOf are the runs of a schedule, future ones included, oldest run_at first.
func (r *rig) runsOf(s schedule.Schedule) []schedule.Run {
	r.Helper()
	runs, err := r.ListRuns(r.ctx, schedule.RunFilter{ScheduleID: s.ScheduleID, Now: r.at(1000 * time.Hour), Limit: 1000})
	r.ok(err, "list runs")
	slices.Reverse(runs)
	return runs
}

// eventsOf are the events of a schedule, oldest first.
func (r *rig) eventsOf(s schedule.Schedule) []schedule.Event {
	r.Helper()
	events, err := r.ListEvents(r.ctx, s.ScheduleID, 0, 1000)
	r.ok(err, "list events")
	slices.Reverse(events)
	return events
}

// keysOf are the keys of runs, in their order.
func keysOf(runs []schedule.Run) []schedule.Key {
	keys := make([]schedule.Key, len(runs))
	for i := range runs {
		keys[i] = runs[i].Key
	}
	return keys
}

// launched are the keys that a claim launched, in its order.
func launched(c claimResult) []schedule.Key { return keysOfLaunches(c.Launches) }
