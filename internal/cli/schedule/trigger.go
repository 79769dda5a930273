package schedule

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/run"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func newTriggerCommand(o *client.Client) *cobra.Command {
	var input string
	var wait run.Wait
	req := &carillonv1.TriggerScheduleRequest{}
	cmd := &cobra.Command{
		Use:   "trigger ID",
		Short: "Run a schedule once, now, paused or not",
		Long: "Runs the schedule once, now, paused or not. With --wait the command returns when the run and its automatic\n" +
			"retries have ended, with the codes of `carillon enqueue --wait`: 0 only if the run succeeded.",
		Example: "  carillon schedule trigger nightly --wait\n  carillon schedule trigger nightly --input '{\"day\": \"2026-03-08\"}' --request-id rerun-17",
		Args:    wait.Args(command.ExactArgs("ID")),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.ScheduleId = args[0]
			if input != "" {
				raw, err := o.Content(input)
				if err != nil {
					return err
				}
				req.Input = raw
			}
			resp, err := run.Request(ctx, l, &wait, &req.RequestId, l.Schedules().TriggerSchedule, req)
			if err != nil {
				return err
			}
			return run.ShowRequested(ctx, o, l, resp, &resp.Run, wait)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&input, "input", "", "`JSON` instead of the schedule's own input, or @FILE")
	f.Func("overlap", "`POLICY` while a run is in flight (default: the schedule's)", command.Text(&req.OverlapPolicy))
	f.StringVar(&req.RequestId, "request-id", "", "`ID` that makes a repeat safe: the same one gives the same run")
	wait.Register(f, "wait until the run and its automatic retries have ended, for a `DURATION` at most (default: any time)")
	command.CompleteValues(cmd, "overlap", schedule.OverlapPolicies)
	return cmd
}
