package worker_test

import (
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// TestNothingIsFinalBeforeFireAt has runs that are claimed and prepared up to a
// second before fire_at. Until then a workflow may be stored or shared.
func TestNothingIsFinalBeforeFireAt(t *testing.T) {
	const (
		fire   = 4 * time.Second
		before = fire - 100*time.Millisecond // the run is claimed by then
	)
	share := registrar.ShareInput{WorkflowID: "w", UserID: "u"}
	for _, tc := range []struct {
		name    string
		version int32
		prepare func(*rig) // two seconds before fire_at
		change  func(*rig) // after the claim
		status  schedule.Status
		reason  schedule.Reason
		code    schedule.ErrorCode
		atOnce  bool // it is claimed before fire_at
	}{
		{
			name: "a workflow that is never stored", version: 2, atOnce: true,
			status: schedule.StatusFailed, reason: schedule.ReasonWorkflowNotFound, code: schedule.CodeWorkflowNotFound,
		},
		{
			name: "a workflow that is stored after the claim", version: 2, atOnce: true,
			change: func(r *rig) { r.deploy("w", 2) }, status: schedule.StatusSuccess,
		},
		{
			name: "a share that was removed before the claim", version: 1, atOnce: true,
			prepare: func(r *rig) { r.unshare(share) },
			status:  schedule.StatusFailed, reason: schedule.ReasonWorkflowNotFound, code: schedule.CodeWorkflowNotFound,
		},
		{
			name: "a share that was removed and is there again after the claim", version: 1, atOnce: true,
			prepare: func(r *rig) { r.unshare(share) }, change: func(r *rig) { r.share(share) }, status: schedule.StatusSuccess,
		},
		{
			name: "a revision that is missing", version: 1, prepare: func(r *rig) { r.losesRevision("s", fire) },
			status: schedule.StatusFailed, reason: schedule.ReasonLaunchRefused, code: schedule.CodeDefinitionUnreadable,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				s := r.every("s", fire)
				s.Version = tc.version
				r.upsertAgain(s)
				stop := r.start()
				defer stop()
				r.until(fire - 2*time.Second)
				if tc.prepare != nil {
					tc.prepare(r)
				}
				r.until(before)
				if got := r.slot("s", fire); (got.Status == schedule.StatusLaunching) != tc.atOnce {
					r.Errorf("%s before fire_at it is %s", fire-before, got.Status)
				}
				if tc.change != nil {
					tc.change(r)
				}
				r.until(fire - time.Millisecond)
				if got := r.slot("s", fire); got.Status.Terminal() {
					r.Errorf("a millisecond before fire_at it is %s(%s: %s)", got.Status, got.Reason, got.ErrorCode)
				}
				r.until(fire + 500*time.Millisecond)
				got := r.slot("s", fire)
				r.is(got, tc.status, tc.reason)
				if got.ErrorCode != string(tc.code) || got.CompletedAt.Before(got.FireAt) {
					r.Errorf("it ended with %q %s after fire_at", got.ErrorCode, got.CompletedAt.Sub(got.FireAt))
				}
				want := 0
				if tc.status == schedule.StatusSuccess {
					want = 1
				}
				if calls := r.executor.calls("s"); len(calls) != want {
					r.Errorf("the executor was called %d times, want %d", len(calls), want)
				}
			})
		})
	}
}

func (r *rig) share(in registrar.ShareInput) {
	r.Helper()
	if _, err := r.registrar.ShareWorkflow(r.Context(), in); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) unshare(in registrar.ShareInput) {
	r.Helper()
	if _, err := r.registrar.UnshareWorkflow(r.Context(), in); err != nil {
		r.Fatal(err)
	}
}

// losesRevision replaces the planned row of a slot by one of a revision that does
// not exist.
func (r *rig) losesRevision(scheduleID string, at time.Duration) {
	r.Helper()
	run := r.slot(scheduleID, at)
	if run.Status != schedule.StatusPlanned {
		r.Fatalf("the slot is %s, want PLANNED", run.Status)
	}
	err := r.store.ChangeSchedules(r.Context(), schedule.ChangeRequest{ScheduleIDs: []string{scheduleID}}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
		return []schedule.Change{{ScheduleID: scheduleID, DropPlannedAfter: run.RunAt.Add(-time.Second), Now: r.store.Now()}}, nil
	})
	if err == nil {
		run.Revision = 99
		err = r.store.ChangeSchedules(r.Context(), schedule.ChangeRequest{ScheduleIDs: []string{scheduleID}}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
			return []schedule.Change{{ScheduleID: scheduleID, Runs: []schedule.Run{run}, Now: r.store.Now()}}, nil
		})
	}
	if err != nil {
		r.Fatal(err)
	}
}
