package run

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// NewWebhookCommand is webhook with its subcommands.
func NewWebhookCommand(c *command.CLI) *cobra.Command {
	cmd := command.Group("webhook", "Show messages about the ends of runs, and send them again")
	cmd.Long = "A dispatch queue with a webhook sends a message at the end of each run. `carillon run get` shows its state."
	o := client.New(c)
	o.Flags(cmd)
	cmd.AddCommand(o.WithWatch(newWebhookListCommand(o)), o.CompleteArg(newRedeliverCommand(o), keys))
	return o.CompleteFlags(cmd)
}

func newRedeliverCommand(o *client.Client) *cobra.Command {
	req := &carillonv1.RedeliverWebhooksRequest{}
	cmd := &cobra.Command{
		Use:   "redeliver [KEY]",
		Short: "Send the message about a run again, or all that failed",
		Long: "Sends the message about the end of a run again, with the same webhook-id and all its attempts, also to a target\n" +
			"that answered 410 (gone); a 2xx answer reopens that target. --dead sends up to 1000 messages again whose\n" +
			"attempts all failed, oldest first.",
		Example: "  carillon webhook redeliver 5f0c5a3d9b1e\n" +
			"  carillon webhook redeliver --dead --target billing",
		Args: command.Args(nil, 1),
		PreRunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 && !req.GetDead():
				return command.Usage(cmd, "KEY is required; --dead sends all failed messages")
			case len(args) > 0 && req.GetDead():
				return command.Usage(cmd, "unexpected argument %q: --dead sends all failed messages", args[0])
			case !req.GetDead() && req.GetWebhook() != "":
				return command.Usage(cmd, "--target needs --dead")
			}
			return nil
		},
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			if len(args) > 0 {
				req.IdempotencyKey = args[0]
			}
			return client.ShowAnswer(ctx, o, l, l.Runs().RedeliverWebhooks, req, func(p *render.Page, resp *carillonv1.RedeliverWebhooksResponse) {
				p.Line("%s sent again", render.Count(int(resp.GetRedelivered()), "message"))
				if resp.GetMore() {
					p.Line("there may be more: repeat the command")
				}
			})
		}),
	}
	cmd.Flags().BoolVar(&req.Dead, "dead", false, "all failed messages")
	cmd.Flags().StringVar(&req.Webhook, "target", "", "with --dead: only to this target `NAME`")
	return cmd
}

func newWebhookListCommand(o *client.Client) *cobra.Command {
	limit := client.DefaultLimit
	filter := &carillonv1.ListAlertDeliveriesRequest{Runs: true}
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "Messages about the ends of runs, newest first: target, state and attempts",
		Example: "  carillon webhook list --state DEAD",
		Args:    command.ExactArgs(),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, _ []string) error {
			found, next, err := client.Pages(limit, func(size uint32, token string) ([]*carillonv1.AlertDelivery, string, error) {
				filter.PageSize, filter.PageToken = size, token
				resp, err := client.Call(ctx, l, l.Alerts().ListAlertDeliveries, filter)
				return resp.GetDeliveries(), resp.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return o.Show(&carillonv1.ListAlertDeliveriesResponse{Deliveries: found, NextPageToken: next}, func(p *render.Page) {
				rows := make([][]string, len(found))
				for i, d := range found {
					state := d.GetState()
					if d.GetDisabled() {
						state += ", target gone"
					}
					target, _ := schedule.WebhookName(d.GetTarget())
					rows[i] = []string{
						p.When(d.GetCreatedAt()), d.GetType(), p.RunKey(d.GetIdempotencyKey(), "queue"), d.GetUserId(), target, state, fmt.Sprint(d.GetAttempts()), p.When(d.GetNextAt()), d.GetLastError(),
					}
				}
				p.List([]string{"time", "type", "run", "owner", "target", "state", "attempts", "next attempt", "error"}, rows, next)
			})
		}),
	}
	cmd.Flags().Func("state", "only in this `STATE`: PENDING, DELIVERED or DEAD", command.Text(&filter.State))
	client.LimitFlag(cmd, &limit)
	command.CompleteValues(cmd, "state", []schedule.DeliveryState{schedule.DeliveryPending, schedule.DeliveryDelivered, schedule.DeliveryDead})
	return cmd
}
