package alert

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/safehttp"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar/notify"
)

// errUndelivered is the result of a test if a message was not delivered.
var errUndelivered = command.Shown("a test message was not delivered")

func NewNotifyCommand(c *command.CLI) *cobra.Command {
	cmd := command.Group("notify", "Test and check where notifications go")
	cmd.AddCommand(newNotifyTestCommand(c), newNotifyCheckCommand(c))
	return cmd
}

func newNotifyTestCommand(c *command.CLI) *cobra.Command {
	o := client.New(c)
	wait := 45 * time.Second
	cmd := &cobra.Command{
		Use:   "test [TARGET]",
		Short: "Send a test message to every notification target, or to one, and show the result",
		Long: "Sends a test message through the outbox of the server, waits for the first attempt at each target, and shows\n" +
			"what happened. Exit code 1 if one was not delivered. TARGET is a name in NOTIFY_FILE.",
		Example: "  carillon notify test\n  carillon notify test pager",
		Args:    command.Args(nil, 1),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req := &carillonv1.TestAlertsRequest{}
			if len(args) == 1 {
				req.Target = args[0]
			}
			resp, err := client.Call(ctx, l, l.Alerts().TestAlerts, req)
			if err != nil {
				return err
			}
			sent, err := awaitAttempts(ctx, l, resp.GetDeliveries(), wait)
			if err != nil {
				return err
			}
			if err := o.Show(&carillonv1.TestAlertsResponse{Deliveries: sent}, func(p *render.Page) { writeTestResults(p, sent, wait) }); err != nil {
				return err
			}
			if slices.ContainsFunc(sent, func(d *carillonv1.AlertDelivery) bool {
				return d.GetState() != string(schedule.DeliveryDelivered)
			}) {
				return errUndelivered
			}
			return nil
		}),
	}
	o.Flags(cmd)
	cmd.Flags().DurationVar(&wait, "wait", wait, "how long to wait for the first attempts, as a `DURATION`")
	return cmd
}

// awaitAttempts waits until each message had its first attempt, or until wait is over.
func awaitAttempts(ctx context.Context, l *client.Link, sent []*carillonv1.AlertDelivery, wait time.Duration) ([]*carillonv1.AlertDelivery, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	const newest = 200 // enough to include the messages of this test
	for pause := client.FirstPause; ; pause = min(2*pause, client.MaxPause) {
		resp, err := client.Call(ctx, l, l.Alerts().ListAlertDeliveries, &carillonv1.ListAlertDeliveriesRequest{PageSize: newest})
		if err != nil && ctx.Err() == nil {
			return nil, err
		}
		open := 0
		for i, d := range sent {
			for _, now := range resp.GetDeliveries() {
				if now.GetDeliveryId() == d.GetDeliveryId() {
					sent[i] = now
				}
			}
			if sent[i].GetState() == string(schedule.DeliveryPending) && sent[i].GetLastError() == "" {
				open++
			}
		}
		if open == 0 {
			return sent, nil
		}
		l.Progress.Describe("%d of %d test messages have no result yet", open, len(sent))
		select {
		case <-ctx.Done():
			return sent, nil
		case <-time.After(pause):
		}
	}
}

// writeTestResults writes the result of each message.
func writeTestResults(p *render.Page, sent []*carillonv1.AlertDelivery, waited time.Duration) {
	rows := make([][]string, len(sent))
	for i, d := range sent {
		result, answered := "delivered", ""
		switch {
		case d.GetState() == string(schedule.DeliveryDelivered):
		case d.GetLastError() == "":
			result = fmt.Sprintf("no result within %s", waited)
		case d.GetState() == string(schedule.DeliveryPending):
			result = "failed, retrying"
		default:
			result = "failed"
		}
		if d.GetLastStatus() > 0 {
			answered = fmt.Sprint(d.GetLastStatus())
		}
		rows[i] = []string{d.GetTarget(), d.GetTargetKind(), d.GetHost(), result, answered, d.GetLastError()}
	}
	p.Table([]string{"target", "kind", "host", "result", "answer", "problem"}, rows)
}

func newNotifyCheckCommand(c *command.CLI) *cobra.Command {
	var (
		labels map[string]string
		alert  notify.Alert
		kind   string
		egress string
	)
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a notification file, and show which targets an alert goes to",
		Long: "Reads a NOTIFY_FILE as a registrar would, with the secrets it refers to, and shows its targets. With --label,\n" +
			"--owner, --severity and --kind: where an alert of such a schedule goes. Nothing is sent. FILE is by default\n" +
			"NOTIFY_FILE.",
		Example: "  carillon notify check notify.yaml\n  carillon notify check notify.yaml --label team=data --severity critical",
		Args:    command.Args(nil, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := c.Env("NOTIFY_FILE")
			if len(args) == 1 {
				path = args[0]
			}
			if path == "" {
				return command.Usage(cmd, "FILE is required (or NOTIFY_FILE)")
			}
			policy, err := safehttp.ParsePolicy(egress)
			if err != nil {
				return command.Usage(cmd, "--allow-egress %w", err)
			}
			if alert.Severity != "" && !slices.Contains(notify.Severities, alert.Severity) {
				return command.Usage(cmd, "--severity %q is not one of critical, error, warning, info", alert.Severity)
			}
			routes, err := notify.Read(path, nil, policy)
			if err != nil {
				return err
			}
			alert.Labels, alert.Kind = labels, schedule.ExpectationKind(kind)
			alert.Severity = cmp.Or(alert.Severity, notify.SeverityOf(labels))
			p := (&client.Client{CLI: c}).Page()
			writeRoutes(p, routes, alert)
			return p.Print(c.Out)
		},
	}
	f := cmd.Flags()
	f.StringToStringVar(&labels, "label", nil, "label of the schedule, as `NAME=VALUE`; may be repeated")
	f.StringVar(&alert.Owner, "owner", "", "owner `ID` of the schedule")
	f.StringVar((*string)(&alert.Severity), "severity", "", "`SEVERITY` of the alert (default: the label severity, or error)")
	f.StringVar(&kind, "kind", "", "`KIND` of the alert")
	f.StringVar(&egress, "allow-egress", c.Env("ALLOW_EGRESS"), "`LIST` as in ALLOW_EGRESS")
	command.CompleteValues(cmd, "severity", notify.Severities)
	command.CompleteValues(cmd, "kind", schedule.ExpectationKinds)
	return cmd
}

// writeRoutes writes the targets of a file, and where an alert goes.
func writeRoutes(p *render.Page, routes *notify.Routes, alert notify.Alert) {
	var rows [][]string
	for _, t := range routes.Targets() {
		rows = append(rows, []string{t.ID, string(t.Kind), t.Host})
	}
	p.Table([]string{"target", "kind", "host"}, rows)
	to := strings.Join(routes.For(alert), ", ")
	p.Line("")
	p.Line("an alert of severity %s goes to: %s", alert.Severity, cmp.Or(to, "no target"))
}
