package registrar_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// deadRuns adds dead runs of a schedule, one a minute until an hour before noon.
func (r *rig) deadRuns(scheduleID string, n int, more ...func(*schedule.RunInput)) {
	d := schedule.Definition{ScheduleID: scheduleID, UserID: "u", OverlapPolicy: schedule.OverlapAllow, Retry: schedule.RetryPolicy{MaxAttempts: 3}.Resolved()}
	for i := range n {
		in := schedule.RunInput{Definition: &d, Schedule: &schedule.Schedule{Definition: d, Revision: 1}, Run: schedule.Run{
			Key: schedule.ManualKey(scheduleID, fmt.Sprint(i)), ScheduleID: scheduleID, Revision: 1, UserID: "u", WorkflowID: "w", Version: 1,
			RunAt: noon.Add(-time.Hour - time.Duration(i)*time.Minute), Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, Dead: new(true),
			CompletedAt: noon.Add(-time.Hour), Attempt: 3, MaxAttempts: 3,
		}}
		for _, change := range more {
			change(&in)
		}
		r.page.runs[in.Run.Key] = in
	}
}

func TestARedriveNamesItsRunsOrSaysAll(t *testing.T) {
	someKeys := []schedule.Key{{1}}
	for _, tc := range []struct {
		name string
		in   registrar.RedriveInput
		ok   bool
	}{
		{"nothing", registrar.RedriveInput{}, false},
		{"only how it is done", registrar.RedriveInput{Renew: true, DryRun: true, RatePerMinute: 7, RequestID: "r"}, false},
		{"all", registrar.RedriveInput{All: true}, true},
		{"a workflow", registrar.RedriveInput{Filter: schedule.RunFilter{WorkflowID: "w"}}, true},
		{"an owner", registrar.RedriveInput{Filter: schedule.RunFilter{UserID: "u"}}, true},
		{"a reason", registrar.RedriveInput{Filter: schedule.RunFilter{Reason: schedule.ReasonLost}}, true},
		{"an error code", registrar.RedriveInput{Filter: schedule.RunFilter{ErrorCode: "E"}}, true},
		{"a class", registrar.RedriveInput{Filter: schedule.RunFilter{Class: schedule.ClassLost}}, true},
		{"a begin", registrar.RedriveInput{Filter: schedule.RunFilter{From: noon}}, true},
		{"an end", registrar.RedriveInput{Filter: schedule.RunFilter{To: noon}}, true},
		{"keys", registrar.RedriveInput{Filter: schedule.RunFilter{AnyOf: someKeys}}, true},
		{"a request id that is none", registrar.RedriveInput{All: true, RequestID: "a/b"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, registrar.Config{})
			_, err := r.RedriveRuns(r.Context(), tc.in)
			var invalid *schedule.InvalidError
			if tc.ok != (err == nil) || err != nil && !errors.As(err, &invalid) {
				r.Errorf("got %v", err)
			}
			if f := r.page.redriveFilter; tc.ok && (!f.Dead || !f.Ascending || f.Limit != schedule.MaxRedrive) {
				r.Errorf("it reads %+v", f)
			}
		})
	}
}

func TestARedriveWritesRunsWithAnEventForEachSchedule(t *testing.T) {
	r := newRig(t, registrar.Config{})
	r.deadRuns("a", 2)
	r.deadRuns("b", 30)
	r.deadRuns("gone", 3, func(in *schedule.RunInput) { in.Schedule = nil })
	done, err := r.RedriveRuns(r.Context(), registrar.RedriveInput{All: true, Renew: true, RequestID: "one", Actor: "me"})
	if err != nil {
		r.Fatal(err)
	}
	want := []registrar.RedrivenSchedule{{ScheduleID: "a", Runs: 2}, {ScheduleID: "b", Runs: 30}}
	if done.Redriven != 32 || done.Left != 3 || fmt.Sprint(done.Schedules) != fmt.Sprint(want) || len(done.Sample) != 20 || done.RequestID != "one" || done.Next != nil {
		r.Errorf("got %+v", done)
	}
	change := r.page.redriven
	if len(change.Runs) != 32 || len(change.Events) != 2 || !change.Now.Equal(noon) {
		r.Fatalf("it writes %d runs and %d events", len(change.Runs), len(change.Events))
	}
	for _, run := range change.Runs {
		if run.Key != schedule.RetryKey(run.RetryOf, "one") || run.MaxAttempts != 6 || run.RequestedBy != "me" || !run.FireAt.Equal(noon) {
			r.Errorf("a new run is %+v", run)
		}
	}
	if e := change.Events[1]; e.ScheduleID != "b" || e.Kind != schedule.EventRetried || e.Count != 30 || e.Actor != "me" || e.Note != "redrive of dead runs, request_id one" {
		r.Errorf("the event is %+v", e)
	}
}

func TestADryRunOfARedriveWritesNothing(t *testing.T) {
	r := newRig(t, registrar.Config{})
	r.deadRuns("a", 3)
	done, err := r.RedriveRuns(r.Context(), registrar.RedriveInput{All: true, DryRun: true})
	if err != nil || done.Redriven != 3 || len(done.Sample) != 3 || !done.Sample[0].IsDead() || done.RequestID == "" {
		r.Errorf("got %+v, %v", done, err)
	}
	if c := r.page.redriven; len(c.Runs)+len(c.Events)+len(c.Audit) != 0 {
		r.Errorf("it writes %+v", c)
	}
}

func TestTheNextPageOfARedriveContinuesIt(t *testing.T) {
	r := newRig(t, registrar.Config{})
	r.deadRuns("a", 5)
	in := registrar.RedriveInput{All: true, RatePerMinute: 60}
	in.Filter.Limit = 5
	first, err := r.RedriveRuns(r.Context(), in)
	if err != nil || first.Next == nil {
		r.Fatalf("no page follows a full one: %+v, %v", first, err)
	}
	if n := first.Next; n.Before != 5 || !n.Began.Equal(noon) || n.RequestID != first.RequestID {
		r.Errorf("the next page is %+v", n)
	}
	in.Page, in.RequestID = *first.Next, "another"
	r.after(time.Second)
	second, err := r.RedriveRuns(r.Context(), in)
	if err != nil || second.RequestID != first.RequestID {
		r.Fatalf("the request id was %s and is %s: %v", first.RequestID, second.RequestID, err)
	}
	if f := r.page.redriveFilter; !f.AfterRunAt.Equal(first.Next.RunAt) || f.AfterKey != first.Next.Key {
		r.Errorf("it reads after %s %s", f.AfterRunAt, f.AfterKey)
	}
	if at := r.page.redriven.Runs[0].FireAt; !at.Equal(noon.Add(5 * time.Second)) {
		r.Errorf("the sixth run fires at %s, at 60 per minute", at)
	}
}

func TestAnOwnerRedrivesItsOwnRuns(t *testing.T) {
	for _, tc := range []struct{ asks, reads string }{{"", "ada"}, {"ada", "ada"}, {"bob", ""}} {
		r := newRig(t, registrar.Config{})
		ctx := auth.NewContext(t.Context(), auth.Identity{Subject: "ada", Owner: "ada", Roles: []auth.Role{auth.User}})
		done, err := r.RedriveRuns(ctx, registrar.RedriveInput{All: true, Filter: schedule.RunFilter{UserID: tc.asks}})
		if err != nil || done.Redriven != 0 || r.page.redriveFilter.UserID != tc.reads {
			r.Errorf("ada asks for runs of %q and reads those of %q: %v", tc.asks, r.page.redriveFilter.UserID, err)
		}
	}
}

func TestARedriveIsAuditedOnceForEachSchedule(t *testing.T) {
	r := newRig(t, registrar.Config{})
	r.deadRuns("a", 2)
	r.deadRuns("b", 1)
	ctx, call := auth.WithCall(t.Context(), "/carillon.v1.RunService/RedriveRuns")
	call.Audited, call.Identity = true, auth.Identity{Subject: "op"}
	if _, err := r.RedriveRuns(ctx, registrar.RedriveInput{All: true}); err != nil {
		r.Fatal(err)
	}
	audit := r.page.redriven.Audit
	if len(audit) != 2 || audit[0].Target != "a" || audit[1].Target != "b" || audit[0].UserID != "u" || audit[0].Method != "RedriveRuns" || !call.Recorded {
		r.Errorf("audited: %+v", audit)
	}
}
