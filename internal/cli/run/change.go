package run

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func newCancelCommand(o *client.Client) *cobra.Command {
	req := &carillonv1.CancelRunRequest{}
	cmd := &cobra.Command{
		Use:     "cancel KEY",
		Short:   "Cancel a run: immediately before it is sent, else when the executor confirms",
		Example: "  carillon run cancel 5f0c5a3d9b1e --note 'wrong input'",
		Args:    command.ExactArgs("KEY"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.IdempotencyKey = args[0]
			return client.ShowAnswer(ctx, o, l, l.Runs().CancelRun, req, func(p *render.Page, resp *carillonv1.CancelRunResponse) {
				r := resp.GetRun()
				p.Line("run %s is %s", render.ShortKey(r.GetIdempotencyKey()), outcome(r))
				if resp.GetEffect() != "" { // empty from older servers
					p.Line("%s", resp.GetEffect())
				}
			})
		}),
	}
	cmd.Flags().StringVar(&req.Note, "note", "", "why, for the event log")
	return cmd
}

func newRetryCommand(o *client.Client) *cobra.Command {
	var wait bool
	req := &carillonv1.RetryRunRequest{}
	cmd := &cobra.Command{
		Use:     "retry KEY",
		Short:   "Retry a run that has ended",
		Example: "  carillon run retry 5f0c5a3d9b1e --wait",
		Args:    command.ExactArgs("KEY"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.IdempotencyKey = args[0]
			resp, err := client.Call(ctx, l, l.Runs().RetryRun, req)
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
	f.BoolVar(&wait, "wait", false, "wait until the new attempt has ended")
	command.CompleteValues(cmd, "overlap", schedule.OverlapPolicies)
	return cmd
}
