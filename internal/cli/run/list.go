package run

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func newListCommand(o *client.Client) *cobra.Command {
	limit := client.DefaultLimit
	filter := &carillonv1.ListRunsRequest{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Runs, newest first",
		Long:  "Runs, newest first. Planned future runs are listed only with --status PLANNED.",
		Example: "  carillon run list --schedule nightly --since 7d\n" +
			"  carillon run list --status SKIPPED --reason grant_expired --last 20\n" +
			"  carillon run list --dead --error-code http_503\n" +
			"  carillon run list --status FAILED,SKIPPED --since 2026-03-08T00:00:00Z -o json",
		Args: command.ExactArgs(),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, _ []string) error {
			filter.Status = upper(filter.Status)
			found, next, err := client.Pages(limit, func(size uint32, token string) ([]*carillonv1.Run, string, error) {
				filter.PageSize, filter.PageToken = size, token
				resp, err := client.Call(ctx, l, l.Runs().ListRuns, filter)
				return resp.GetRuns(), resp.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return o.Show(&carillonv1.ListRunsResponse{Runs: found, NextPageToken: next}, func(p *render.Page) {
				rows := make([][]string, len(found))
				for i, r := range found {
					rows[i] = p.WideCells([]string{
						p.When(r.GetRunAt()), r.GetScheduleId(), versioned(r), outcome(r), r.GetTrigger(), delay(r), duration(r), p.RunKey(r.GetIdempotencyKey(), r.GetQueueId()),
					}, p.When(r.GetFireAt()), p.When(r.GetLaunchedAt()), p.When(r.GetCompletedAt()), r.GetUserId(), r.GetOverlapPolicy(),
						fmt.Sprint(r.GetAttempt()), fmt.Sprint(launchAttempts(r)), fmt.Sprint(r.GetEpoch()), r.GetRunId(), r.GetErrorCode(), r.GetErrorMessage())
				}
				p.List(p.WideCells([]string{"run at", "schedule", "workflow", "status", "trigger", "delay", "duration", "key"},
					"fires at", "launched", "completed", "owner", "overlap", "attempt", "launch attempts", "epoch", "run id", "error", "message"), rows, next)
			})
		}),
	}
	filterFlags{&filter.ScheduleId, &filter.WorkflowId, &filter.UserId, &filter.Status, &filter.Reason, &filter.Trigger}.flags(cmd)
	f := cmd.Flags()
	f.Func("since", "run at from this `TIME` (RFC 3339), or a duration back such as 2h or 7d", o.TimeFromNow(&filter.From, -1))
	f.Func("until", "run at before this `TIME` (RFC 3339), or a duration back", o.TimeFromNow(&filter.To, -1))
	f.Func("dead", "only runs that failed for good, without a retry", command.Bool(&filter.Dead))
	f.Lookup("dead").NoOptDefVal = "true"
	f.StringVar(&filter.ErrorCode, "error-code", "", "only with this error `CODE`")
	f.Func("failure-class", "only failed runs of this `CLASS`", command.Text(&filter.FailureClass))
	command.CompleteValues(cmd, "failure-class", schedule.FailureClasses)
	f.StringVar(&filter.QueueId, "queue", "", "only of this dispatch queue `ID`")
	f.StringVar(&filter.GroupId, "group", "", "only members of this group `ID`, with their retries")
	f.StringVar(&filter.RunId, "run-id", "", "only with this run `ID` of the executor")
	f.StringVar(&filter.TraceId, "trace-id", "", "only with this trace `ID`")
	client.LimitFlag(cmd, &limit)
	f.IntVar(&limit, "last", limit, "same as --limit: the newest `NUMBER`")
	return cmd
}

// versioned is the workflow of a run with its version.
func versioned(r *carillonv1.Run) string {
	return fmt.Sprintf("%s@%d", r.GetWorkflowId(), r.GetVersion())
}

func upper(status []string) []string {
	for i, s := range status {
		status[i] = strings.ToUpper(strings.TrimSpace(s))
	}
	return status
}

// delay is the time from fire_at to the launch.
func delay(r *carillonv1.Run) string {
	if r.GetLaunchedAt() == nil || r.GetFireAt() == nil {
		return ""
	}
	return render.Duration(r.GetLaunchedAt().AsTime().Sub(r.GetFireAt().AsTime()))
}

// duration is the time from the launch to the end.
func duration(r *carillonv1.Run) string {
	if r.GetLaunchedAt() == nil || r.GetCompletedAt() == nil {
		return ""
	}
	return render.Duration(r.GetCompletedAt().AsTime().Sub(r.GetLaunchedAt().AsTime()))
}
