package explain_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/explain"
)

var update = flag.Bool("update", false, "write testdata/sentences.golden")

// Every sentence about a run that cannot be launched, as the operator reads it.
func TestTheSentencesOfRetryingRuns(t *testing.T) {
	const (
		slot     = "2026-03-08T12:00:00Z"
		page     = "testdata/sentences.golden"
		database = `HTTP 500 {"error":"database is full"}`
	)
	fired := at(slot)
	attempt := func(after time.Duration, took time.Duration, result schedule.LaunchResult, code schedule.ErrorCode, message string) schedule.LaunchAttempt {
		return schedule.LaunchAttempt{At: fired.Add(after), Took: took, Result: result, ErrorCode: string(code), ErrorMessage: message, NextAt: fired.Add(after + 30*time.Second)}
	}
	refused := func(after time.Duration) schedule.LaunchAttempt {
		return attempt(after, 0, schedule.LaunchNotSent, schedule.CodeExecutorUnreachable, "connection refused")
	}
	failing := func(after time.Duration) schedule.LaunchAttempt {
		return attempt(after, 12*time.Millisecond, schedule.LaunchUnknown, schedule.CodeExecutorError, database)
	}
	var many []schedule.LaunchAttempt
	for i := range schedule.KeptAttempts {
		many = append(many, refused(time.Duration(i)*2*time.Second))
	}
	for _, c := range []struct {
		name       string
		attempts   []schedule.LaunchAttempt
		failed     int32 // 0: as many as are kept
		deliveries int32
		edit       func(*schedule.Schedule, *schedule.Run)
	}{
		{name: "nothing listens", attempts: []schedule.LaunchAttempt{refused(0)}},
		{name: "an attempt is running", attempts: []schedule.LaunchAttempt{refused(0)}, edit: func(_ *schedule.Schedule, r *schedule.Run) {
			r.ClaimedUntil = now.Add(time.Minute)
		}},
		{name: "the executor answers 500", attempts: []schedule.LaunchAttempt{failing(0), failing(time.Second)}, deliveries: 2},
		{name: "it hung once and is away since", deliveries: 1, attempts: []schedule.LaunchAttempt{
			attempt(0, 10*time.Second, schedule.LaunchUnknown, schedule.CodeExecutorTimeout, "no complete answer within 10 seconds (EXECUTOR_TIMEOUT_MS)"), refused(12 * time.Second),
		}},
		{name: "more attempts than are kept", attempts: many, failed: 57},
		{name: "the schedule has a launch timeout", attempts: []schedule.LaunchAttempt{refused(0)}, edit: func(s *schedule.Schedule, r *schedule.Run) {
			s.LaunchTimeoutMS = 90_000
			r.TimeoutAt = r.FireAt.Add(90 * time.Second)
		}},
		{name: "the launcher is away", attempts: []schedule.LaunchAttempt{attempt(0, 0, schedule.LaunchNotSent, schedule.CodeLauncherUnreachable, "launcher:9090: connection refused")}},
		{name: "an attempt without a message", attempts: []schedule.LaunchAttempt{attempt(0, 0, schedule.LaunchUnknown, schedule.CodeOutcomeUnknown, "")}, deliveries: 1},
		{name: "accepted at last", attempts: []schedule.LaunchAttempt{failing(0)}, deliveries: 2, edit: func(_ *schedule.Schedule, r *schedule.Run) {
			r.Status, r.LaunchedAt, r.ErrorCode, r.ErrorMessage = schedule.StatusEnqueued, r.FireAt.Add(20*time.Second), "", ""
		}},
		{name: "given up", attempts: []schedule.LaunchAttempt{failing(0), refused(time.Second)}, deliveries: 1, edit: func(_ *schedule.Schedule, r *schedule.Run) {
			r.GiveUp(true)
			r.CompletedAt = r.FireAt.Add(25 * time.Second)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			last := c.attempts[len(c.attempts)-1]
			run := func(r *schedule.Run) {
				r.Status, r.ClaimedAt, r.ClaimedUntil = schedule.StatusLaunching, r.FireAt, last.NextAt
				r.TimeoutAt, r.Deliveries, r.FailedAttempts = r.FireAt.Add(10*time.Minute), c.deliveries, max(c.failed, int32(len(c.attempts)))
				r.ErrorCode, r.ErrorMessage = last.ErrorCode, last.ErrorMessage
			}
			facts := nightly(func(s *schedule.Schedule) {
				s.CronExpr, s.Timezone = "0 * * * *", "UTC"
				if c.edit != nil {
					c.edit(s, new(schedule.Run))
				}
			})
			facts = asked(facts, slot, row(run, func(r *schedule.Run) {
				if c.edit != nil {
					c.edit(new(schedule.Schedule), r)
				}
			}))
			a := explain.Derive(facts)
			a.Attempts = c.attempts
			compareGolden(t, page, c.name, a.String())
		})
	}
}

// Every sentence about what follows a failed attempt.
func TestTheSentencesOfFailedAttempts(t *testing.T) {
	const slot = "2026-03-08T12:00:00Z"
	fired := at(slot)
	dead := func(class schedule.FailureClass) func(*schedule.Run) {
		return func(r *schedule.Run) { yes := true; r.Dead, r.FailureClass = &yes, class }
	}
	next := func(edits ...func(*schedule.Run)) func(*explain.Facts) {
		return row(append([]func(*schedule.Run){func(r *schedule.Run) {
			r.RetryOf, r.Key, r.Trigger, r.Attempt = r.Key, schedule.AttemptKey(r.Key), schedule.TriggerRetry, 2
			r.FireAt = fired.Add(40 * time.Second)
		}}, edits...)...)
	}
	for _, c := range []struct {
		name  string
		run   func(*schedule.Run)
		edit  func(*schedule.Schedule)
		facts []func(*explain.Facts)
	}{
		{name: "a retry follows", facts: []func(*explain.Facts){next()}},
		{name: "a retry waits for the end of a pause", facts: []func(*explain.Facts){next()}, edit: func(s *schedule.Schedule) { s.Pause = schedule.Pause{Paused: true} }},
		{name: "a retry waits for another run", facts: []func(*explain.Facts){next(func(r *schedule.Run) { r.WaitingSince = fired.Add(40 * time.Second) })}},
		{name: "the retry has run", facts: []func(*explain.Facts){next(ended(schedule.StatusSuccess, ""))}},
		{name: "its class is not retried", run: dead(schedule.ClassApproval)},
		{name: "it failed after a cancel", run: func(r *schedule.Run) { dead(schedule.ClassTransient)(r); r.CancelRequestedAt = fired }},
		{name: "it failed after its schedule was deleted", run: dead(schedule.ClassTransient), edit: func(s *schedule.Schedule) { s.DeletedAt = fired.Add(time.Second) }},
		{name: "its schedule was deleted later", run: dead(schedule.ClassLogic), edit: func(s *schedule.Schedule) { s.DeletedAt = fired.Add(20 * time.Second) }},
		{name: "a retry would start too late", run: dead(schedule.ClassTransient), edit: func(s *schedule.Schedule) { s.CatchupWindowMS = 10_000 }},
		{name: "the policy was another one", run: dead(schedule.ClassTransient)},
		{name: "it was retried by hand", run: func(r *schedule.Run) { r.Dead, r.FailureClass = new(bool), schedule.ClassLogic }},
	} {
		t.Run(c.name, func(t *testing.T) {
			facts := nightly(func(s *schedule.Schedule) {
				s.CronExpr, s.Timezone, s.CatchupWindowMS = "0 * * * *", "UTC", 3_600_000
				s.Retry = schedule.RetryPolicy{MaxAttempts: 3}.Resolved()
				if c.edit != nil {
					c.edit(s)
				}
			})
			facts = asked(facts, slot, append([]func(*explain.Facts){row(ended(schedule.StatusFailed, schedule.ReasonWorkflowFailed), func(r *schedule.Run) {
				r.Attempt, r.MaxAttempts, r.FailureClass = 1, 3, schedule.ClassTransient
				if c.run != nil {
					c.run(r)
				}
			})}, c.facts...)...)
			a := explain.Derive(facts)
			compareGolden(t, "testdata/attempts.golden", c.name, a.String())
		})
	}
}

// compareGolden compares one section of a page: "## name", then the text.
func compareGolden(t *testing.T, page, name, got string) {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(page))
	if err != nil && !*update {
		t.Fatal(err)
	}
	head := "## " + name + "\n\n"
	before, rest, found := strings.Cut(string(text), head)
	want, after, more := strings.Cut(rest, "\n## ")
	if diff := cmp.Diff(strings.TrimSpace(want), strings.TrimSpace(got)); diff == "" && found {
		return
	} else if !*update {
		t.Errorf("%s (-want +got), -update writes it:\n%s", name, diff)
		return
	}
	written := strings.TrimRight(before, "\n") + "\n\n" + head + strings.TrimSpace(got) + "\n"
	if more {
		written += "\n## " + after
	}
	if err := os.MkdirAll(filepath.Dir(page), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(page, []byte(strings.TrimLeft(written, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
}
