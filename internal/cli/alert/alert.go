package alert

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func NewCommand(c *command.CLI) *cobra.Command {
	cmd := command.Group("alert", "Alerts about missed expectations, and the notifications sent about them")
	cmd.Aliases = []string{"alerts"}
	o := client.New(c)
	o.Flags(cmd)
	cmd.AddCommand(o.WithWatch(newListCommand(o)), o.CompleteArg(o.WithWatch(newGetCommand(o)), ids), o.CompleteArg(newAckCommand(o), ids),
		o.WithWatch(newDeliveriesCommand(o)), o.CompleteArg(newRedeliverCommand(o), deliveryIDs), newTestCommand(o))
	return o.CompleteFlags(cmd)
}

func newListCommand(o *client.Client) *cobra.Command {
	limit := client.DefaultLimit
	filter := &carillonv1.ListAlertsRequest{}
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "Alerts, newest opened first",
		Example: "  carillon alert list --state open\n  carillon alert list --schedule nightly",
		Args:    command.ExactArgs(),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, _ []string) error {
			found, next, err := client.Pages(limit, func(size uint32, token string) ([]*carillonv1.Alert, string, error) {
				filter.PageSize, filter.PageToken = size, token
				resp, err := client.Call(ctx, l, l.Alerts().ListAlerts, filter)
				return resp.GetAlerts(), resp.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return o.Show(&carillonv1.ListAlertsResponse{Alerts: found, NextPageToken: next}, func(p *render.Page) {
				rows := make([][]string, len(found))
				for i, a := range found {
					rows[i] = p.WideCells([]string{
						a.GetAlertId(), a.GetScheduleId(), expectationText(a), fmt.Sprint(a.GetLate()), p.When(a.GetLastSlot()), a.GetCause(),
						p.When(a.GetOpenedAt()), stateText(p, a),
					}, a.GetWorkflowId(), a.GetUserId(), fmt.Sprint(a.GetRevision()), p.When(a.GetFirstSlot()), p.When(a.GetDeadline()), a.GetAckNote(), a.GetDetail())
				}
				p.List(p.WideCells([]string{"alert", "schedule", "expectation", "misses", "slot", "cause", "opened", "state"},
					"workflow", "owner", "revision", "first slot", "deadline", "note", "error"), rows, next)
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&filter.UserId, "user", "", "only of schedules of this owner `ID`")
	f.StringVar(&filter.ScheduleId, "schedule", "", "only of this schedule `ID`")
	f.Func("kind", "only of this `KIND`: start, finish, success or failure", command.Text(&filter.Kind))
	f.Func("state", "only in this `STATE`: open or closed", command.Text(&filter.State))
	client.LimitFlag(cmd, &limit)
	command.CompleteValues(cmd, "kind", schedule.ExpectationKinds)
	command.CompleteValues(cmd, "state", []string{"open", "closed"})
	return cmd
}

// expectationText describes the expectation of an alert.
func expectationText(a *carillonv1.Alert) string {
	if a.GetKind() == string(schedule.ExpectNoFailure) {
		return "no failure"
	}
	limit := render.Millis(a.GetLimitMs())
	if a.GetKind() == string(schedule.ExpectSuccess) {
		return "success every " + limit
	}
	return a.GetKind() + " within " + limit
}

func stateText(p *render.Page, a *carillonv1.Alert) string {
	switch {
	case a.GetClosedAt() != nil:
		return a.GetResolution() + " " + p.When(a.GetClosedAt())
	case a.GetAckedAt() != nil:
		return "open, acknowledged by " + a.GetAckedBy()
	}
	return "open"
}

func newGetCommand(o *client.Client) *cobra.Command {
	return &cobra.Command{
		Use:     "get ID",
		Short:   "Show an alert",
		Example: "  carillon alert get al-0123456789abcdef01234567",
		Args:    command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			return client.ShowAnswer(ctx, o, l, l.Alerts().GetAlert, &carillonv1.GetAlertRequest{AlertId: args[0]},
				func(p *render.Page, resp *carillonv1.GetAlertResponse) { writeAlert(p, resp.GetAlert()) })
		}),
	}
}

func newAckCommand(o *client.Client) *cobra.Command {
	req := &carillonv1.AcknowledgeAlertRequest{}
	cmd := &cobra.Command{
		Use:     "ack ID",
		Short:   "Acknowledge an alert: no reminders are sent until it recovers",
		Example: "  carillon alert ack al-0123456789abcdef01234567 --note 'the warehouse is down, back at noon'",
		Args:    command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.AlertId = args[0]
			return client.ShowAnswer(ctx, o, l, l.Alerts().AcknowledgeAlert, req,
				func(p *render.Page, resp *carillonv1.AcknowledgeAlertResponse) { writeAlert(p, resp.GetAlert()) })
		}),
	}
	cmd.Flags().StringVar(&req.Note, "note", "", "what is being done, for the next reader")
	return cmd
}

func newDeliveriesCommand(o *client.Client) *cobra.Command {
	limit := client.DefaultLimit
	filter := &carillonv1.ListAlertDeliveriesRequest{}
	cmd := &cobra.Command{
		Use:     "deliveries",
		Short:   "Notifications about alerts, newest first: target, state and attempts",
		Example: "  carillon alert deliveries --state DEAD\n  carillon alert deliveries --schedule nightly",
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
			return o.Show(&carillonv1.ListAlertDeliveriesResponse{Deliveries: found, NextPageToken: next}, func(p *render.Page) { writeDeliveries(p, found, next) })
		}),
	}
	f := cmd.Flags()
	f.StringVar(&filter.AlertId, "alert", "", "only about this alert `ID`")
	o.CompleteFlag(cmd, "alert", ids)
	f.StringVar(&filter.ScheduleId, "schedule", "", "only about alerts of this schedule `ID`")
	f.Func("state", "only in this `STATE`: PENDING, DELIVERED or DEAD", command.Text(&filter.State))
	client.LimitFlag(cmd, &limit)
	command.CompleteValues(cmd, "state", []schedule.DeliveryState{schedule.DeliveryPending, schedule.DeliveryDelivered, schedule.DeliveryDead})
	return cmd
}

func newTestCommand(o *client.Client) *cobra.Command {
	return &cobra.Command{
		Use:     "test",
		Short:   "Send a test message to every notification target",
		Long:    "Queues a message of the type alert.test for every target. See `carillon alert deliveries` for the result.",
		Example: "  carillon alert test",
		Args:    command.ExactArgs(),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, _ []string) error {
			return client.ShowAnswer(ctx, o, l, l.Alerts().TestAlerts, &carillonv1.TestAlertsRequest{},
				func(p *render.Page, resp *carillonv1.TestAlertsResponse) {
					writeDeliveries(p, resp.GetDeliveries(), "")
				})
		}),
	}
}

// deadlineOf is the deadline of an alert; nil for failures, which have none.
func deadlineOf(a *carillonv1.Alert) *timestamppb.Timestamp {
	if a.GetKind() == string(schedule.ExpectNoFailure) {
		return nil
	}
	return a.GetDeadline()
}

// writeAlert writes all fields of an alert.
func writeAlert(p *render.Page, a *carillonv1.Alert) {
	p.Fields(
		[2]string{"alert", a.GetAlertId()},
		[2]string{"schedule", fmt.Sprintf("%s revision %d", a.GetScheduleId(), a.GetRevision())},
		[2]string{"workflow", a.GetWorkflowId()},
		[2]string{"owner", a.GetUserId()},
		[2]string{"expectation", expectationText(a)},
		[2]string{"consecutive misses", fmt.Sprint(a.GetLate())},
		[2]string{"since", p.When(a.GetFirstSlot())},
		[2]string{"last slot", p.When(a.GetLastSlot())},
		[2]string{"deadline", p.When(deadlineOf(a))},
		[2]string{"cause", a.GetCause()},
		[2]string{"error", a.GetDetail()},
		[2]string{"failed run", a.GetIdempotencyKey()},
		[2]string{"opened", p.When(a.GetOpenedAt())},
		[2]string{"closed", p.When(a.GetClosedAt())},
		[2]string{"resolution", a.GetResolution()},
		[2]string{"acknowledged", p.When(a.GetAckedAt())},
		[2]string{"by", a.GetAckedBy()},
		[2]string{"note", a.GetAckNote()},
	)
}

func writeDeliveries(p *render.Page, found []*carillonv1.AlertDelivery, next string) {
	rows := make([][]string, len(found))
	for i, d := range found {
		state := d.GetState()
		if d.GetNextAt() != nil && d.GetAttempts() > 0 {
			state += " until " + p.When(d.GetNextAt())
		}
		problem := d.GetLastError()
		if d.GetDisabled() {
			problem += " (target gone)"
		}
		answered := ""
		if d.GetLastStatus() > 0 {
			answered = fmt.Sprint(d.GetLastStatus())
		}
		about := d.GetScheduleId()
		if about == "" && d.GetAlertId() != "" {
			about = "(several)"
		}
		rows[i] = p.WideCells([]string{d.GetDeliveryId(), d.GetType(), about, d.GetTarget(), d.GetHost(), state, fmt.Sprint(d.GetAttempts()), p.When(d.GetCreatedAt()), problem},
			d.GetTargetKind(), d.GetAlertId(), d.GetUserId(), answered, p.When(d.GetEndedAt()))
	}
	p.List(p.WideCells([]string{"delivery", "type", "schedule", "target", "host", "state", "attempts", "created", "problem"},
		"kind", "alert", "owner", "answer", "ended"), rows, next)
}

func ids(ctx context.Context, l *client.Link, typed string) (out []cobra.Completion) {
	resp, err := client.Call(ctx, l, l.Alerts().ListAlerts, &carillonv1.ListAlertsRequest{PageSize: client.DefaultLimit})
	if err != nil {
		return nil
	}
	for _, a := range resp.GetAlerts() {
		out = client.Described(out, typed, a.GetAlertId(), a.GetScheduleId()+" "+expectationText(a))
	}
	return out
}

func deliveryIDs(ctx context.Context, l *client.Link, typed string) (out []cobra.Completion) {
	resp, err := client.Call(ctx, l, l.Alerts().ListAlertDeliveries, &carillonv1.ListAlertDeliveriesRequest{PageSize: client.DefaultLimit})
	if err != nil {
		return nil
	}
	for _, d := range resp.GetDeliveries() {
		out = client.Described(out, typed, d.GetDeliveryId(), d.GetType()+" "+d.GetScheduleId()+" "+d.GetState())
	}
	return out
}
