package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

var runChanges = []check{
	{"an unknown run is not found", runUnknown},
	{"a change sees the run, its definition, its schedule and what is in flight", runSeesAll},
	{"a change sees the run under the key that it asks for", runSeesExisting},
	{"a report moves a run, and skips states where it must", runReports},
	{"a report that comes late or twice moves nothing, but its event is kept", runLateReport},
	{"of each status a late report leaves one event, and moves nothing", runLateReportOnce},
	{"a heartbeat moves the timeout", runHeartbeat},
	{"an error of decide writes nothing and comes back as it is", runError},
	{"a change that says nothing moves nothing", runNothing},
	{"a cancel is asked for once", runAskCancel},
	{"a run that waits can be cancelled and waits no more", runCancelWaiting},
	{"a retry is inserted as a run of its own", runRetry},
	{"a retry under a key that is there changes nothing", runRetryAgain},
	{"a run of a deleted schedule can still be changed", runOfDeleted},
}

// changeRun changes one run and looks up no other.
func (r *rig) changeRun(key schedule.Key, decide func(in schedule.RunInput) schedule.RunChange) (schedule.Run, bool) {
	r.Helper()
	run, moved, err := r.ChangeRun(r.ctx, key, schedule.Key{}, func(in schedule.RunInput) (schedule.RunChange, error) {
		c := decide(in)
		c.Now = r.now
		return c, nil
	})
	r.ok(err, "change run")
	return run, moved
}

// report settles one run as its executor would.
func (r *rig) report(settlement schedule.Settlement) (schedule.Run, bool) {
	r.Helper()
	return r.changeRun(settlement.Key, func(schedule.RunInput) schedule.RunChange {
		return schedule.RunChange{Settle: &settlement}
	})
}

func runUnknown(r *rig) {
	_, moved, err := r.ChangeRun(r.ctx, schedule.ManualKey("no", "run"), schedule.Key{}, func(schedule.RunInput) (schedule.RunChange, error) {
		r.Errorf("decide is asked about a run that is not there")
		return schedule.RunChange{}, nil
	})
	r.hold(errors.Is(err, schedule.ErrNotFound) && !moved, "ErrNotFound, got %v", err)
}

func runSeesAll(r *rig) {
	first := r.create("seen", func(s *schedule.Schedule) { s.Input = rawJSON })
	run := r.bring(r.due(first, 3), schedule.StatusStarted)
	inForce := r.revise(first, func(s *schedule.Schedule) { s.Version, s.Input = 7, nil })
	sibling := r.create("sibling", func(s *schedule.Schedule) { s.OverlapKey = first.OverlapKey })
	r.bring(r.due(sibling, 2), schedule.StatusEnqueued)
	ended := r.bring(r.due(first, 1), schedule.StatusSuccess)
	r.changeRun(run.Key, func(in schedule.RunInput) schedule.RunChange {
		equal(r, "runs", in.Run, run)
		r.hold(in.Definition != nil && in.Schedule != nil, "definition and schedule come along")
		equal(r, "definitions of the run's revision", *in.Definition, first.Definition)
		equal(r, "schedules", *in.Schedule, inForce)
		r.hold(in.InFlight == 2, "itself and its sibling are in flight, got %d", in.InFlight)
		r.hold(in.Existing == nil, "no other run was asked for")
		return schedule.RunChange{}
	})
	r.changeRun(ended.Key, func(in schedule.RunInput) schedule.RunChange {
		r.hold(in.InFlight == 2, "the others are in flight, got %d", in.InFlight)
		return schedule.RunChange{}
	})
}

func runSeesExisting(r *rig) {
	s := r.create("seen")
	run := r.bring(r.due(s, 3), schedule.StatusFailed)
	retry := r.manual(s, "retry", r.now)
	see := func() (existing *schedule.Run) {
		_, _, err := r.ChangeRun(r.ctx, run.Key, retry.Key, func(in schedule.RunInput) (schedule.RunChange, error) {
			existing = in.Existing
			return schedule.RunChange{Now: r.now}, nil
		})
		r.ok(err, "look")
		return existing
	}
	r.hold(see() == nil, "there is none yet")
	r.add(retry)
	got := see()
	r.hold(got != nil, "there is one now")
	equal(r, "existing runs", *got, retry)
}

func runReports(r *rig) {
	s := r.create("reported")
	for i, c := range []struct {
		from   schedule.Status
		report schedule.Settlement
	}{
		{schedule.StatusLaunching, schedule.Settlement{To: schedule.StatusStarted, RunID: "run-1", StartedAt: r.at(-time.Millisecond), TimeoutAt: r.at(time.Hour)}},
		{schedule.StatusLaunching, schedule.Settlement{To: schedule.StatusSuccess, RunID: "run-2", CompletedAt: r.at(-time.Millisecond)}},
		{schedule.StatusEnqueued, schedule.Settlement{To: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, ErrorCode: "E", ErrorMessage: awkward}},
		{schedule.StatusStarted, schedule.Settlement{To: schedule.StatusSuccess}},
		{schedule.StatusPlanned, schedule.Settlement{To: schedule.StatusCancelled, Reason: schedule.ReasonCancelled}},
	} {
		run := r.manual(s, fmt.Sprint(i), r.now)
		if c.from == schedule.StatusPlanned {
			run.FireAt = r.at(time.Hour)
		}
		want := r.bring(run, c.from)
		c.report.Key = run.Key
		r.now = r.at(time.Second)
		got, moved := r.report(c.report)
		r.hold(moved, "%s → %s moves", c.from, c.report.To)
		want.Status, want.Reason, want.RunID = c.report.To, c.report.Reason, c.report.RunID
		want.StartedAt, want.CompletedAt, want.UpdatedAt = c.report.StartedAt, c.report.CompletedAt, r.now
		want.ErrorCode, want.ErrorMessage, want.ClaimedUntil = c.report.ErrorCode, c.report.ErrorMessage, time.Time{}
		if !c.report.TimeoutAt.IsZero() {
			want.TimeoutAt = c.report.TimeoutAt
		}
		if want.Status.Terminal() && want.CompletedAt.IsZero() {
			want.CompletedAt = r.now
		}
		if want.Status.Terminal() {
			ledger.Conclude(&want, nil)
		}
		equal(r, "answers", got, want)
		equal(r, "runs", r.ledger(run.Key), want)
	}
}

func runLateReport(r *rig) {
	s := r.create("late")
	run := r.bring(r.due(s, 3), schedule.StatusCancelled, func(st *schedule.Settlement) { st.Reason = schedule.ReasonReplaced })
	for i, to := range []schedule.Status{schedule.StatusStarted, schedule.StatusSuccess, schedule.StatusFailed, schedule.StatusCancelled} {
		r.now = r.at(time.Second)
		got, moved := r.changeRun(run.Key, func(schedule.RunInput) schedule.RunChange {
			return schedule.RunChange{
				Settle: &schedule.Settlement{Key: run.Key, To: to, Reason: schedule.ReasonTimeout, RunID: "late"},
				Events: []schedule.Event{{ScheduleID: s.ScheduleID, Time: r.now, Kind: schedule.EventReportIgnored, Note: string(to)}},
			}
		})
		r.hold(!moved, "a report of %s moves nothing", to)
		equal(r, "answers", got, run)
		equal(r, "runs", r.ledger(run.Key), run)
		r.hold(len(r.eventsOf(s)) == i+1, "the event is kept")
	}
}

func runLateReportOnce(r *rig) {
	s := r.create("late-once")
	run := r.bring(r.due(s, 3), schedule.StatusSuccess)
	other := r.bring(r.due(s, 4), schedule.StatusSuccess)
	late := func(of schedule.Run, status schedule.Status) {
		r.now = r.at(time.Second)
		got, moved := r.changeRun(of.Key, func(schedule.RunInput) schedule.RunChange {
			return schedule.RunChange{
				LateReport: status,
				Events:     []schedule.Event{{ScheduleID: s.ScheduleID, Time: r.now, Kind: schedule.EventReportIgnored, Note: string(status)}},
			}
		})
		r.hold(!moved, "a late report of %s moves nothing", status)
		equal(r, "answers", got, of)
		equal(r, "runs, updated_at included", r.ledger(of.Key), of)
	}
	for range 3 {
		late(run, schedule.StatusStarted)
		late(run, schedule.StatusFailed)
	}
	r.hold(len(r.eventsOf(s)) == 2, "one event of each status, got %d", len(r.eventsOf(s)))
	late(other, schedule.StatusFailed)
	r.hold(len(r.eventsOf(s)) == 3, "another run has an event of its own, got %d", len(r.eventsOf(s)))
	late(run, schedule.StatusSuccess)
	late(run, schedule.StatusSuccess)
	r.hold(len(r.eventsOf(s)) == 4, "each status of the run has had its event, got %d", len(r.eventsOf(s)))
}

func runHeartbeat(r *rig) {
	s := r.create("alive")
	want := r.bring(r.due(s, 3), schedule.StatusStarted, func(st *schedule.Settlement) { st.RunID, st.StartedAt = "run-1", r.now })
	r.now = r.at(time.Minute)
	got, moved := r.report(schedule.Settlement{Key: want.Key, To: schedule.StatusStarted, TimeoutAt: r.at(time.Hour)})
	r.hold(moved, "a heartbeat moves")
	want.TimeoutAt, want.UpdatedAt = r.at(time.Hour), r.now
	equal(r, "answers", got, want)
	equal(r, "runs", r.ledger(want.Key), want)
}

func runError(r *rig) {
	s := r.create("kept")
	run := r.bring(r.due(s, 3), schedule.StatusStarted)
	want := &refusal{"not like this"}
	_, moved, err := r.ChangeRun(r.ctx, run.Key, schedule.Key{}, func(schedule.RunInput) (schedule.RunChange, error) {
		return schedule.RunChange{Settle: &schedule.Settlement{Key: run.Key, To: schedule.StatusSuccess}, Now: r.now}, want
	})
	r.hold(errors.Is(err, want) && err.Error() == want.why && !moved, "the error comes back as it is, got %v", err)
	r.untouched(run)
}

func runNothing(r *rig) {
	s := r.create("same")
	run := r.bring(r.due(s, 3), schedule.StatusStarted)
	got, moved := r.changeRun(run.Key, func(schedule.RunInput) schedule.RunChange { return schedule.RunChange{} })
	r.hold(!moved, "nothing moved")
	equal(r, "answers", got, run)
	r.untouched(run)
}

func runAskCancel(r *rig) {
	planned := r.slot(r.create("planned"), r.at(time.Hour))
	r.add(planned)
	got, moved := r.changeRun(planned.Key, func(schedule.RunInput) schedule.RunChange {
		return schedule.RunChange{AskCancel: schedule.ReasonCancelled}
	})
	r.hold(!moved, "nobody is asked to cancel a run that is only planned")
	equal(r, "planned runs", got, planned)

	s := r.create("cancelled")
	for i, status := range schedule.InFlight {
		want := r.bring(r.manual(s, fmt.Sprint(i), r.now), status)
		ask := func(reason schedule.Reason) (schedule.Run, bool) {
			return r.changeRun(want.Key, func(schedule.RunInput) schedule.RunChange { return schedule.RunChange{AskCancel: reason} })
		}
		got, moved := ask(schedule.ReasonCancelled)
		r.hold(moved, "a cancel is asked for")
		want.CancelRequestedAt, want.CancelReason, want.UpdatedAt = r.now, schedule.ReasonCancelled, got.UpdatedAt
		equal(r, "answers", got, want)
		r.now = r.at(time.Second)
		got, moved = ask(schedule.ReasonReplaced)
		r.hold(!moved, "it was asked for already")
		equal(r, "answers", got, want)
		r.untouched(want)
	}
}
