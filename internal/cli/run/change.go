package run

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func newRetryCommand(o *client.Client) *cobra.Command {
	var wait Wait
	req := &carillonv1.RetryRunRequest{}
	cmd := &cobra.Command{
		Use:     "retry KEY",
		Short:   "Retry a run that has ended",
		Example: "  carillon run retry 5f0c5a3d9b1e --wait",
		Args:    wait.Args(command.ExactArgs("KEY")),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.IdempotencyKey = args[0]
			resp, err := Request(ctx, l, &wait, &req.RequestId, l.Runs().RetryRun, req)
			if err != nil {
				return err
			}
			return ShowRequested(ctx, o, l, resp, &resp.Run, wait)
		}),
	}
	f := cmd.Flags()
	f.Func("overlap", "`POLICY` while a run is in flight (default: the schedule's)", command.Text(&req.OverlapPolicy))
	f.StringVar(&req.RequestId, "request-id", "", "`ID` that makes a repeat safe: the same one gives the same run")
	f.BoolVar(&req.Renew, "renew", false, "give the new run the automatic retries of its schedule")
	wait.Register(f, "wait until the new attempt and its automatic retries have ended, for a `DURATION` at most (default: any time)")
	command.CompleteValues(cmd, "overlap", schedule.OverlapPolicies)
	return cmd
}
