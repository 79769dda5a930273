package storetest

import (
	"reflect"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// plannedFields are the fields that a row may be born with, all of them set.
func plannedFields(r *rig, s schedule.Schedule) schedule.Run {
	return r.manual(s, "full", odd(1), func(run *schedule.Run) {
		run.FireAt, run.WaitingSince = odd(2), odd(3)
		run.Trigger, run.Attempt, run.RetryOf = schedule.TriggerRetry, 3, schedule.ManualKey(s.ScheduleID, "first")
		run.MaxAttempts, run.StartBy = 3, r.at(time.Hour+123457*time.Microsecond)
		run.Snoozes, run.Interruptions, run.AttemptsBefore = 7, 2, 4
		run.Input, run.Priority, run.MaxQueued = rawJSON, -7, 1000
		run.OverlapPolicy, run.Exclusive = schedule.OverlapQueue, true
		run.RequestedBy = "ada"
		run.TraceID = "4bf92f3577b34da6a3ce929d0e0e4736"
		run.CreatedAt, run.UpdatedAt = r.now, r.now
	})
}

// everyView calls visit with the run as each reader of a single row gives it.
func (r *rig) everyView(key schedule.Key, visit func(view string, run schedule.Run)) {
	r.Helper()
	visit("GetRun", r.ledger(key))
	run := r.ledger(key)
	listed, err := r.ListRuns(r.ctx, schedule.RunFilter{ScheduleID: run.ScheduleID, Now: r.at(time.Hour), Limit: 100})
	r.ok(err, "list runs")
	for _, l := range listed {
		if l.Key == key {
			visit("ListRuns", l)
		}
	}
	feed, err := r.ListRuns(r.ctx, schedule.RunFilter{ScheduleID: run.ScheduleID, UpdatedAfter: time.Unix(1, 0), Now: r.at(time.Hour), Limit: 100})
	r.ok(err, "follow runs")
	for _, l := range feed {
		if l.Key == key {
			visit("ListRuns by update", l)
		}
	}
	after, _, err := r.ChangeRun(r.ctx, key, key, func(in schedule.RunInput) (schedule.RunChange, error) {
		visit("ChangeRun's input", in.Run)
		r.hold(in.Existing != nil, "the existing run that was named is shown")
		visit("ChangeRun's existing run", *in.Existing)
		return schedule.RunChange{Now: r.now}, nil
	})
	r.ok(err, "change nothing of a run")
	visit("ChangeRun's answer", after)
}

func plannedRunSurvives(r *rig) {
	s := r.create("planned")
	want := plannedFields(r, s)
	bare := r.slot(s, r.now, func(run *schedule.Run) { run.MaxQueued, run.Priority = 0, 0 })
	r.add(want, bare)
	views := 0
	for _, w := range []schedule.Run{want, bare} {
		r.everyView(w.Key, func(view string, run schedule.Run) {
			equal(r, view+": runs", run, stored(w))
			r.inUTC(view, run)
			views++
		})
	}
	r.hold(views == 12, "all six views show both runs, got %d", views)
	r.hold(r.ledger(bare.Key).Input == nil, "no input of its own is nil")
}

// livedRunSurvives takes one run through a life that sets every field.
func livedRunSurvives(r *rig) {
	r.lead()
	s := r.create("lived")
	want := plannedFields(r, s)
	want.FireAt, want.WaitingSince = r.now, time.Time{}
	r.add(want)
	launches := r.claim().Launches
	r.hold(len(launches) == 1, "the run is claimed")

	launched, started, completed := odd(20), odd(21), odd(22)
	r.hold(r.settle(schedule.Settlement{Key: want.Key, To: schedule.StatusLaunching, Attempt: &schedule.LaunchAttempt{At: r.now, Result: schedule.LaunchUnknown}})[0], "an attempt failed")
	r.hold(r.settle(schedule.Settlement{
		Key: want.Key, To: schedule.StatusEnqueued, RunID: "run-ü-1", TraceID: "trace-2", LaunchedAt: launched, TimeoutAt: odd(30), Deliveries: 3,
	})[0], "ENQUEUED")
	r.hold(r.settle(schedule.Settlement{Key: want.Key, To: schedule.StatusStarted, StartedAt: started, TimeoutAt: odd(31), DeadlineAt: odd(32)})[0], "STARTED")
	asked := r.at(time.Second)
	r.askCancel(want.Key, schedule.ReasonReplaced, asked)

	want.Status, want.Epoch, want.Deliveries, want.FailedAttempts = schedule.StatusStarted, r.term.Epoch, 3, 1
	want.ClaimedAt, want.LaunchedAt, want.StartedAt, want.TimeoutAt, want.DeadlineAt = r.now, launched, started, odd(31), odd(32)
	want.RunID, want.TraceID = "run-ü-1", "trace-2"
	want.CancelRequestedAt, want.CancelReason, want.UpdatedAt = asked, schedule.ReasonReplaced, asked
	due, err := r.CancelRequests(r.ctx, []schedule.Key{want.Key})
	r.ok(err, "read requested cancels")
	r.hold(len(due) == 1, "its cancel is requested")
	equal(r, "CancelRequests: runs", bodily(due[0]), bodily(stored(want)))

	r.now = r.at(time.Minute)
	_, moved := r.changeRun(want.Key, func(schedule.RunInput) schedule.RunChange {
		return schedule.RunChange{Settle: &schedule.Settlement{
			Key: want.Key, To: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed,
			ErrorCode: "E1", ErrorMessage: awkward, CompletedAt: completed, ExitCode: new(int32(-3)), LogURL: "https://logs.example/?q=ü",
		}}
	})
	r.hold(moved, "FAILED")
	want.ExitCode, want.LogURL = new(int32(-3)), "https://logs.example/?q=ü"
	want.Status, want.Reason, want.ErrorCode, want.ErrorMessage = schedule.StatusFailed, schedule.ReasonWorkflowFailed, "E1", awkward
	want.CompletedAt, want.UpdatedAt = completed, r.now
	want.FailureClass, want.Dead, want.AttemptsBefore = schedule.ClassTransient, new(true), 0
	for _, field := range []*time.Time{&want.WaitingSince, &want.ClaimedUntil, &want.StartBy, &want.DeadlineAt} { // never set on a run that has ended
		*field = time.Time{}
	}
	r.everyView(want.Key, func(view string, run schedule.Run) { equal(r, view+": runs", run, stored(want)) })

	want.WaitingSince, want.ClaimedUntil, want.StartBy, want.DeadlineAt, want.SnoozeUntil = r.now, r.now, r.now, r.now, r.now                                                                                                                                                                                                                       // see snoozes
	want.Progress = "x"                                                                                                                                                                                                                                                                                                                             // see reportedFacts
	want.AttemptsBefore, want.Webhook = 4, "own"                                                                                                                                                                                                                                                                                                    // see webhookOwn
	want.Queue = schedule.QueuePlace{No: 1, ID: "q", State: schedule.QueueWaiting, Priority: 1, FairKey: "a", FairOrder: 1, Position: 1, EnqueuedAt: r.now, Limits: "gpu", Kept: "gpu", GroupNo: 1, GroupSeq: 1, GroupID: "g", Worker: "w", WorkerSlot: 1, KeepHistory: true, AdmittedAs: schedule.AdmittedInOrder, Unique: &schedule.UniqueHold{}} // see enqueueComesBack
	r.everyFieldSet(reflect.ValueOf(want), "Run")
}

// bodily is a run without what is read from its revision, which not every
// reader of runs needs.
func bodily(run schedule.Run) schedule.Run {
	run.WorkflowID, run.Version, run.UserID = "", 0, ""
	return run
}

func launchIsTheLedgersRun(r *rig) {
	r.lead()
	s := r.create("handed", func(s *schedule.Schedule) { s.Input = rawJSON })
	old := r.slot(s, r.at(-2*time.Second))
	r.add(old)
	newer := r.revise(s, func(s *schedule.Schedule) { s.WorkflowID, s.Version = r.id("other"), 9 })
	young := r.slot(newer, r.at(-time.Second))
	r.add(young)

	launches := r.claim().Launches
	r.hold(len(launches) == 2, "both runs are claimed, got %d", len(launches))
	for i, of := range []schedule.Schedule{s, newer} {
		equal(r, "launches", launches[i].Run, r.ledger(launches[i].Run.Key))
		equal(r, "definitions", *launches[i].Definition, of.Definition)
		r.hold(launches[i].Run.WorkflowID == of.WorkflowID && launches[i].Run.Version == of.Version && launches[i].Run.UserID == of.UserID,
			"a launch names workflow, version and owner of its revision, got %s@%d of %s", launches[i].Run.WorkflowID, launches[i].Run.Version, launches[i].Run.UserID)
	}

	r.now = r.at(lease + time.Second)
	again := r.reclaim()
	r.hold(len(again) == 2, "both are handed out again, got %d", len(again))
	for _, l := range again {
		equal(r, "launches handed out again", l.Run, r.ledger(l.Run.Key))
		r.hold(l.Definition != nil && l.Definition.Version == l.Run.Version, "the definition comes along again")
	}
}
