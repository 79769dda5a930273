package schedule

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func newListCommand(o *client.Client) *cobra.Command {
	limit := client.DefaultLimit
	filter := &carillonv1.ListSchedulesRequest{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List schedules, ordered by id or by their next run",
		Example: "  carillon schedule list --workflow report --state active\n  carillon schedule list --label team=billing --limit 0 -o json\n" +
			"  carillon schedule list --order-by next_run_at --limit 10\n  carillon schedule list --failing",
		Args: command.ExactArgs(),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, _ []string) error {
			found, next, err := client.Pages(limit, func(size uint32, token string) ([]*carillonv1.Schedule, string, error) {
				filter.PageSize, filter.PageToken = size, token
				resp, err := client.Call(ctx, l, l.Schedules().ListSchedules, filter)
				return resp.GetSchedules(), resp.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return o.Show(&carillonv1.ListSchedulesResponse{Schedules: found, NextPageToken: next}, func(p *render.Page) {
				rows := make([][]string, len(found))
				for i, s := range found {
					rows[i] = p.WideCells([]string{
						s.GetScheduleId(), fmt.Sprintf("%s@%d", s.GetWorkflowId(), s.GetVersion()), s.GetUserId(),
						rule(s), state(s), p.When(s.GetNextRunAt()), p.When(s.GetLastRunAt()), lastOutcome(p, s), outcomeStrip(p, s.GetRecentOutcomes()),
					}, s.GetOverlapPolicy(), s.GetCatchupPolicy(), jitterText(s.GetJitterMs()), fmt.Sprint(s.GetPriority()), s.GetExecutionGrantId(),
						s.GetManagedBy(), render.Labels(s.GetLabels()), fmt.Sprint(s.GetRevision()), p.When(s.GetCreatedAt()), s.GetPauseNote())
				}
				p.List(p.WideCells([]string{"schedule", "workflow", "owner", "rule", "state", "next run", "last run", "last outcome", "outcomes"},
					"overlap", "catch-up", "jitter", "priority", "grant", "managed by", "labels", "revision", "created", "pause note"), rows, next)
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&filter.WorkflowId, "workflow", "", "only of this workflow `ID`")
	f.StringVar(&filter.UserId, "user", "", "only of this owner `ID`")
	f.StringVar(&filter.ManagedBy, "managed-by", "", "only schedules managed by this `NAME`")
	f.StringVar(&filter.Label, "label", "", "only with this label: `NAME=VALUE`, or NAME for any value")
	f.Func("state", "only in this `STATE`: active, paused or exhausted", command.Text(&filter.State))
	f.StringVar(&filter.ExecutionGrantId, "grant", "", "only schedules that name this execution grant `ID`")
	f.StringVar(&filter.Query, "search", "", "only with this `TEXT` in id, workflow, owner, rule, zone, managed-by or a label")
	f.StringVar(&filter.OrderBy, "order-by", "", "list by this `FIELD`: schedule_id (default), or next_run_at (active schedules, soonest first)")
	command.CompleteValues(cmd, "order-by", []string{"schedule_id", "next_run_at"})
	f.BoolVar(&filter.Failing, "failing", false, "only failing schedules: the newest run that succeeded or failed has failed")
	client.LimitFlag(cmd, &limit)
	command.CompleteValues(cmd, "state", []string{"active", "paused", "exhausted"})
	return cmd
}
