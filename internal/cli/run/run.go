package run

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/explain"
	"github.com/carillon/carillon/internal/cli/render"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func NewCommand(c *command.CLI) *cobra.Command {
	cmd := command.Group("run", "Show, follow, report, change, cancel, retry and redrive runs")
	cmd.Aliases = []string{"runs"}
	cmd.Long = "A run is named by its idempotency key. The first digits (4 or more) are enough if they match only one run."
	o := client.New(c)
	o.Flags(cmd)
	list, watch, export := o.WithWatch(newListCommand(o)), newWatchCommand(o), newExportCommand(o)
	cmd.AddCommand(
		list, o.CompleteArg(o.WithWatch(newGetCommand(o)), keys), o.CompleteArg(newLogsCommand(o), keys), watch, export,
		o.CompleteArg(newReportCommand(o), keys), o.CompleteArg(newCancelCommand(o), keys), o.CompleteArg(newRetryCommand(o), keys),
		o.CompleteArg(newRedriveCommand(o), deadKeys), o.CompleteArg(newUpdateCommand(o), keys),
		o.CompleteArg(o.WithWatch(explain.NewRunCommand(o)), keys), o.CompleteArg(newMoveCommand(o), keys),
	)
	return o.CompleteFlags(cmd)
}

// outcome is a status with its reason: SKIPPED (overlap).
func outcome(r *carillonv1.Run) string {
	if r.GetReason() == "" {
		return r.GetStatus()
	}
	return r.GetStatus() + " (" + r.GetReason() + ")"
}

func newGetCommand(o *client.Client) *cobra.Command {
	return &cobra.Command{
		Use:     "get KEY",
		Short:   "Show a run, its outcome and the reason",
		Example: "  carillon run get 5f0c5a3d9b1e",
		Args:    command.ExactArgs("KEY"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			return client.ShowAnswer(ctx, o, l, l.Runs().GetRun, &carillonv1.GetRunRequest{IdempotencyKey: args[0]},
				func(p *render.Page, resp *carillonv1.GetRunResponse) {
					writeRun(p, resp.GetRun())
					if first, err := time.Parse(time.RFC3339Nano, resp.GetFirstSentAt()); err == nil {
						p.Line("may have been sent first %s; no answer was recorded, so it was sent again under the same key", p.When(timestamppb.New(first)))
					}
				})
		}),
	}
}

// writeRun writes all fields of a run.
func writeRun(p *render.Page, r *carillonv1.Run) {
	class := r.GetFailureClass()
	if r.GetDead() {
		class += ", no retry follows"
	}
	timeout := r.GetTimeoutAt()
	if r.GetCompletedAt() != nil || r.GetLaunch().GetGivesUpAt() != nil {
		timeout = nil // has ended, or fails at gives_up_at
	}
	p.Fields(
		[2]string{"key", r.GetIdempotencyKey()},
		[2]string{"status", outcome(r)},
		[2]string{"error", errorOf(r)},
		[2]string{"exit code", exitCode(r)},
		[2]string{"progress", progress(r)},
		[2]string{"schedule", fmt.Sprintf("%s revision %d", r.GetScheduleId(), r.GetRevision())},
		[2]string{"workflow", fmt.Sprintf("%s version %d", r.GetWorkflowId(), r.GetVersion())},
		[2]string{"owner", r.GetUserId()},
		[2]string{"trigger", r.GetTrigger()},
		[2]string{"requested by", r.GetRequestedBy()},
		[2]string{"queue", r.GetQueueId()},
		[2]string{"in queue", placeInQueue(p, r)},
		[2]string{"limits", strings.Join(r.GetLimits(), ", ")},
		[2]string{"unique key", unique(p, r.GetUnique())},
		[2]string{"entered queue", p.When(r.GetEnqueuedAt())},
		[2]string{"fair key", r.GetFairKey()},
		[2]string{"admitted as", r.GetAdmittedAs()},
		[2]string{"worker", r.GetWorkerId()},
		[2]string{"webhook", webhook(r)},
		[2]string{"attempt", attempt(r)},
		[2]string{"failure class", class},
		[2]string{"snoozes before", snoozes(r)},
		[2]string{followedBy(r), r.GetRetriedBy()},
		[2]string{"retry of", r.GetRetryOf()},
		[2]string{"overlap", r.GetOverlapPolicy()},
		[2]string{"run at", p.When(r.GetRunAt())},
		[2]string{"fires at", p.When(r.GetFireAt())},
		[2]string{"waiting since", p.When(r.GetWaitingSince())},
		[2]string{"claimed", p.When(r.GetClaimedAt())},
		[2]string{"launched", p.When(r.GetLaunchedAt())},
		[2]string{"launch attempts", launches(r)},
		[2]string{"next attempt", p.When(r.GetLaunch().GetNextAttemptAt())},
		[2]string{"fails at", p.When(r.GetLaunch().GetGivesUpAt())},
		[2]string{"started", p.When(r.GetStartedAt())},
		[2]string{"cancel requested", p.When(r.GetCancelRequestedAt())},
		[2]string{"completed", p.When(r.GetCompletedAt())},
		[2]string{"times out", p.When(timeout)},
		[2]string{"expires", p.When(r.GetExpiresAt())},
		[2]string{"deadline", p.When(r.GetDeadlineAt())},
		[2]string{"run id", r.GetRunId()},
		[2]string{"trace id", r.GetTraceId()},
		[2]string{"log", r.GetLogUrl()},
		[2]string{"trace", r.GetTraceUrl()},
		[2]string{"updated", p.When(r.GetUpdatedAt())},
	)
	writeResult(p, r)
	writeAttempts(p, r.GetLaunch().GetLog())
}

// launches are its launch attempts, in words.
func launches(r *carillonv1.Run) string {
	switch n := launchAttempts(r); {
	case r.GetLaunch() != nil:
		return fmt.Sprintf("%d, %d reached the executor", n, r.GetDeliveries())
	case n > 0:
		return fmt.Sprint(n)
	}
	return ""
}

func exitCode(r *carillonv1.Run) string {
	if r.ExitCode == nil {
		return ""
	}
	return fmt.Sprint(r.GetExitCode())
}

// attempt is the place of a run in its chain of attempts, if there is more than one.
func attempt(r *carillonv1.Run) string {
	switch n, of := r.GetAttempt(), r.GetMaxAttempts(); {
	case of > 1 && of >= n:
		return fmt.Sprintf("%d of %d", n, of)
	case n > 1:
		return fmt.Sprint(n)
	}
	return ""
}

// webhook is the state of the message about the end of a run, if it has one.
func webhook(r *carillonv1.Run) string {
	if state := r.GetWebhookState(); state != "none" {
		return state
	}
	return ""
}

func snoozes(r *carillonv1.Run) string {
	if n := r.GetSnoozes(); n > 0 {
		return fmt.Sprint(n)
	}
	return ""
}

// followedBy names the run that Carillon has planned after this one.
func followedBy(r *carillonv1.Run) string {
	if r.GetReason() == "snoozed" {
		return "continued by"
	}
	return "retried by"
}

// launchAttempts is the number of attempts to launch a run. The API counts them only
// if one has failed.
func launchAttempts(r *carillonv1.Run) int32 {
	if r.GetLaunch() == nil && r.GetLaunchedAt() != nil {
		return max(r.GetDeliveries(), 1)
	}
	return r.GetLaunch().GetAttempts()
}

// hasError is a run or an attempt to launch one.
type hasError interface {
	GetErrorCode() string
	GetErrorMessage() string
}

// errorOf is the code and the message of an error; either may be missing.
func errorOf(e hasError) string {
	if e.GetErrorCode() == "" || e.GetErrorMessage() == "" {
		return e.GetErrorCode() + e.GetErrorMessage()
	}
	return e.GetErrorCode() + ": " + e.GetErrorMessage()
}

// writeAttempts writes the last attempts to launch a run.
func writeAttempts(p *render.Page, log []*carillonv1.LaunchAttempt) {
	if len(log) == 0 {
		return
	}
	rows := make([][]string, len(log))
	for i, a := range log {
		took := ""
		if a.GetTookMs() > 0 {
			took = render.Millis(a.GetTookMs())
		}
		rows[i] = []string{p.When(a.GetAt()), a.GetResult(), took, errorOf(a)}
	}
	p.Line("")
	p.Table([]string{"launch attempt", "result", "duration", "error"}, rows)
}

// keys are the keys of the newest runs, newest first, with a description.
func keys(ctx context.Context, l *client.Link, typed string) []cobra.Completion {
	return keysOf(ctx, l, typed, &carillonv1.ListRunsRequest{PageSize: client.DefaultLimit})
}

// deadKeys are those of dead runs.
func deadKeys(ctx context.Context, l *client.Link, typed string) []cobra.Completion {
	dead := true
	return keysOf(ctx, l, typed, &carillonv1.ListRunsRequest{PageSize: client.DefaultLimit, Dead: &dead})
}

func keysOf(ctx context.Context, l *client.Link, typed string, filter *carillonv1.ListRunsRequest) (out []cobra.Completion) {
	resp, err := client.Call(ctx, l, l.Runs().ListRuns, filter)
	if err != nil {
		return nil
	}
	for _, r := range resp.GetRuns() {
		key := r.GetIdempotencyKey()
		if len(typed) <= render.KeyDigits {
			key = render.ShortKey(key)
		}
		if strings.HasPrefix(key, typed) {
			out = append(out, cobra.CompletionWithDesc(key, r.GetScheduleId()+" "+render.Stamp(r.GetRunAt().AsTime())+" "+r.GetStatus()))
		}
	}
	return out
}
