package alert

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func newRedeliverCommand(o *client.Client) *cobra.Command {
	dead := false
	filter := &carillonv1.ListAlertDeliveriesRequest{}
	cmd := &cobra.Command{
		Use:   "redeliver [DELIVERY]...",
		Short: "Send notifications again, including failed ones",
		Long: "Sends notifications again with the same webhook-id and another 24 hours of retries, also to a target that\n" +
			"answered 410 (gone); a 2xx answer reopens that target. A notification that waits for a retry is sent now;\n" +
			"one that is being sent is not affected. --dead sends all failed notifications again.",
		Example: "  carillon alert redeliver msg_0123456789abcdef0123456789ab\n  carillon alert redeliver --dead",
		RunE: o.Ask(func(ctx context.Context, l *client.Link, ids []string) error {
			if dead {
				all, err := failedDeliveries(ctx, l, filter)
				if err != nil {
					return err
				}
				ids = all
			}
			sent, err := redeliver(ctx, l, ids)
			var answer proto.Message = &carillonv1.ListAlertDeliveriesResponse{Deliveries: sent}
			if !dead && len(ids) == 1 && len(sent) == 1 {
				answer = &carillonv1.RedeliverAlertResponse{Delivery: sent[0]}
			}
			if len(sent) > 0 || err == nil {
				err = errors.Join(o.Show(answer, func(p *render.Page) { writeDeliveries(p, sent, "") }), err)
			}
			return err
		}),
	}
	cmd.Args = func(_ *cobra.Command, ids []string) error {
		switch {
		case dead && len(ids) > 0:
			return fmt.Errorf("unexpected argument %q: --dead sends all failed notifications", ids[0])
		case !dead && len(ids) == 0:
			return errors.New("DELIVERY is required; --dead sends all failed notifications")
		case !dead && filter.AlertId+filter.ScheduleId != "":
			return errors.New("--alert and --schedule need --dead")
		}
		return nil
	}
	cmd.Flags().BoolVar(&dead, "dead", false, "all failed notifications")
	cmd.Flags().StringVar(&filter.AlertId, "alert", "", "only those about this alert `ID`")
	o.CompleteFlag(cmd, "alert", ids)
	cmd.Flags().StringVar(&filter.ScheduleId, "schedule", "", "only those about alerts of this schedule `ID`")
	return cmd
}

// failedDeliveries are the ids of failed notifications, in the order in which they
// were made: receivers get them in that order again.
func failedDeliveries(ctx context.Context, l *client.Link, filter *carillonv1.ListAlertDeliveriesRequest) ([]string, error) {
	state := string(schedule.DeliveryDead)
	filter.State = &state
	found, _, err := client.Pages(0, func(size uint32, token string) ([]*carillonv1.AlertDelivery, string, error) {
		filter.PageSize, filter.PageToken = size, token
		resp, err := client.Call(ctx, l, l.Alerts().ListAlertDeliveries, filter)
		return resp.GetDeliveries(), resp.GetNextPageToken(), err
	})
	ids := make([]string, len(found))
	for i, d := range found {
		ids[len(found)-1-i] = d.GetDeliveryId()
	}
	return ids, err
}

// redeliver sends the notifications that exist. The error names the others.
func redeliver(ctx context.Context, l *client.Link, ids []string) (sent []*carillonv1.AlertDelivery, failed error) {
	for _, id := range ids {
		resp, err := client.Call(ctx, l, l.Alerts().RedeliverAlert, &carillonv1.RedeliverAlertRequest{DeliveryId: id})
		switch {
		case command.ExitCode(err) == command.ExitNotFound:
			failed = errors.Join(failed, err)
			continue
		case err != nil:
			return sent, errors.Join(failed, err)
		}
		sent = append(sent, resp.GetDelivery())
	}
	return sent, failed
}
