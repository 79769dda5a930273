package explain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/explain"
)

func TestACauseFollowsTheBlockingRunToItsRoot(t *testing.T) {
	skipped := row(ended(schedule.StatusSkipped, schedule.ReasonOverlap))
	by := func(edit func(*schedule.Run)) func(*explain.Facts) {
		return func(f *explain.Facts) {
			b := schedule.Run{
				Key: schedule.SlotKey("nightly", at("2026-03-07T06:30:00Z")), ScheduleID: "nightly", RunAt: at("2026-03-07T06:30:00Z"), FireAt: at("2026-03-07T06:30:00Z"),
				ClaimedAt: at("2026-03-07T06:30:00Z"), LaunchedAt: at("2026-03-07T06:30:01Z"), Status: schedule.StatusEnqueued,
			}
			edit(&b)
			f.Blocking = []schedule.Run{b}
		}
	}
	for _, c := range []struct {
		name  string
		edits []func(*explain.Facts)
		cause schedule.Cause
		says  string
	}{
		{
			name: "no executor takes the blocking run", cause: "executor_unreachable", says: "connection refused",
			edits: []func(*explain.Facts){skipped, by(func(r *schedule.Run) {
				r.Status, r.LaunchedAt, r.ErrorCode, r.ErrorMessage = schedule.StatusLaunching, time.Time{}, "executor_unreachable", "connection refused"
			})},
		},
		{
			name: "why its launch fails is not known", cause: schedule.CauseNotAccepted, says: "which no executor has accepted since 2026-03-07T06:30:00Z",
			edits: []func(*explain.Facts){skipped, by(func(r *schedule.Run) { r.Status, r.LaunchedAt = schedule.StatusLaunching, time.Time{} })},
		},
		{
			name: "the blocking run never reports", cause: schedule.CauseNoReport, says: "was accepted at 2026-03-07T06:30:01Z and has not reported since",
			edits: []func(*explain.Facts){skipped, by(func(*schedule.Run) {})},
		},
		{
			name: "the blocking run is at work", cause: schedule.CauseStillRunning, says: "which runs since 2026-03-07T06:31:00Z",
			edits: []func(*explain.Facts){skipped, by(func(r *schedule.Run) {
				r.Status, r.StartedAt = schedule.StatusStarted, at("2026-03-07T06:31:00Z")
			})},
		},
		{
			name: "the blocking run was given up", cause: "timeout", says: "ended FAILED(timeout) at 2026-03-07T07:31:00Z",
			edits: []func(*explain.Facts){skipped, by(func(r *schedule.Run) {
				r.Status, r.Reason, r.CompletedAt = schedule.StatusFailed, schedule.ReasonTimeout, at("2026-03-07T07:31:00Z")
			})},
		},
		{
			name: "the blocking run was just long", cause: "overlap", says: "ended SUCCESS at 2026-03-07T07:31:00Z",
			edits: []func(*explain.Facts){skipped, by(func(r *schedule.Run) {
				r.Status, r.CompletedAt = schedule.StatusSuccess, at("2026-03-07T07:31:00Z")
			})},
		},
		{
			name: "no worker led when it was due", cause: schedule.CauseNoLeader, says: "No worker led shard 0 from 2026-03-07T07:29:58Z to 2026-03-07T07:30:10Z (database unreachable).",
			edits: []func(*explain.Facts){row(ended(schedule.StatusSkipped, schedule.ReasonOverlap), func(r *schedule.Run) { r.CompletedAt = r.FireAt.Add(11 * time.Second) }), blocked, away},
		},
		{
			name: "its own launch fails", cause: "executor_error", says: "HTTP 500",
			edits: []func(*explain.Facts){row(func(r *schedule.Run) {
				r.Status, r.ClaimedAt, r.ErrorCode, r.ErrorMessage = schedule.StatusLaunching, r.FireAt, "executor_error", "HTTP 500"
			})},
		},
		{
			name: "its own launch was given up", cause: "executor_unreachable", says: "connection refused",
			edits: []func(*explain.Facts){row(ended(schedule.StatusFailed, schedule.ReasonLaunchUnavailable), func(r *schedule.Run) {
				r.LaunchedAt, r.ErrorCode, r.ErrorMessage = time.Time{}, "executor_unreachable", "connection refused"
			})},
		},
		{
			name: "the executor never gave a valid answer to its launch", cause: "executor_bad_answer", says: "it is text/html",
			edits: []func(*explain.Facts){row(ended(schedule.StatusFailed, schedule.ReasonLost), func(r *schedule.Run) {
				r.LaunchedAt, r.ErrorCode, r.ErrorMessage = time.Time{}, "executor_bad_answer", "the answer is not JSON: it is text/html"
			})},
		},
		{
			name: "its own run failed with an error", cause: "workflow_failed", says: "exit_7: the disk is full.",
			edits: []func(*explain.Facts){row(ended(schedule.StatusFailed, schedule.ReasonWorkflowFailed), func(r *schedule.Run) {
				r.ErrorCode, r.ErrorMessage = "exit_7", "the disk is full"
			})},
		},
		{
			name:  "its own run failed: that says it all",
			edits: []func(*explain.Facts){row(ended(schedule.StatusFailed, schedule.ReasonWorkflowFailed))},
		},
		{
			name: "its own run never reports", cause: schedule.CauseNoReport, says: "The run was accepted at 2026-03-07T07:30:00Z and has not reported since.",
			edits: []func(*explain.Facts){row(func(r *schedule.Run) {
				r.Status, r.ClaimedAt, r.LaunchedAt = schedule.StatusEnqueued, r.FireAt, r.FireAt
			})},
		},
		{
			name: "its run is at work: that says it all",
			edits: []func(*explain.Facts){row(func(r *schedule.Run) {
				r.Status, r.ClaimedAt, r.LaunchedAt, r.StartedAt = schedule.StatusStarted, r.FireAt, r.FireAt, r.FireAt
			})},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := explain.Derive(asked(nightly(), due, c.edits...))
			cause, sentence := a.Cause()
			if cause != c.cause || !strings.Contains(sentence, c.says) || (c.cause == "") != (sentence == "") {
				t.Errorf("the cause is %q: %q; want %q: …%q…", cause, sentence, c.cause, c.says)
			}
		})
	}
}

func TestALateLaunchIsCausedByTheAttemptsThatFailed(t *testing.T) {
	attempts := []schedule.LaunchAttempt{
		{At: at(due), Result: schedule.LaunchUnknown, ErrorCode: "executor_error", ErrorMessage: "the executor answered 500"},
		{At: at(due).Add(12 * time.Second), Result: schedule.LaunchAccepted},
	}
	for _, c := range []struct {
		name     string
		took     time.Duration // the run
		attempts []schedule.LaunchAttempt
		cause    schedule.Cause
		says     string
	}{
		{
			name: "an attempt failed", took: time.Second, attempts: attempts, cause: "executor_error",
			says: "1 launch attempt failed before the executor took it at 2026-03-07T07:30:12Z: the executor answered 500.",
		},
		{name: "no attempt failed", took: time.Second, attempts: attempts[1:]},
		{name: "an attempt failed, but the run itself took longer", took: time.Minute, attempts: attempts},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := explain.Derive(asked(nightly(), due, row(ended(schedule.StatusSuccess, ""), func(r *schedule.Run) {
				r.FailedAttempts, r.LaunchedAt = 1, r.FireAt.Add(12*time.Second)
				r.CompletedAt = r.LaunchedAt.Add(c.took)
			})))
			a.Attempts = c.attempts
			if cause, sentence := a.LateCause(); cause != c.cause || sentence != c.says {
				t.Errorf("the cause is %q: %q; want %q: %q", cause, sentence, c.cause, c.says)
			}
		})
	}
}
