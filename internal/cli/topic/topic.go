package topic

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// NewCommand is topic with its subcommands.
func NewCommand(c *command.CLI) *cobra.Command {
	cmd := command.Group("topic", "Show topics of events, and audit what their consumers have of them")
	cmd.Aliases = []string{"topics"}
	cmd.Long = "A topic exists as long as it has an event that is kept, or a schedule that consumes it (`schedule upsert --consume\n" +
		"TOPIC`). `event` publishes to topics and shows single events."
	o := client.New(c)
	o.Flags(cmd)
	cmd.AddCommand(o.WithWatch(newListCommand(o)), o.WithWatch(newGetCommand(o)), newAuditCommand(o))
	return o.CompleteFlags(cmd)
}

func newListCommand(o *client.Client) *cobra.Command {
	limit := client.DefaultLimit
	req := &carillonv1.ListTopicsRequest{}
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List topics with what was published and what waits",
		Example: "  carillon topic list --user ada",
		Args:    command.ExactArgs(),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, _ []string) error {
			found, next, err := client.Pages(limit, func(size uint32, token string) ([]*carillonv1.Topic, string, error) {
				req.PageSize, req.PageToken = size, token
				resp, err := client.Call(ctx, l, l.Events().ListTopics, req)
				return resp.GetTopics(), resp.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return o.Show(&carillonv1.ListTopicsResponse{Topics: found, NextPageToken: next}, func(p *render.Page) {
				rows := make([][]string, len(found))
				for i, t := range found {
					rows[i] = p.WideCells([]string{
						t.GetTopic(), t.GetUserId(), number(t, t.GetPublishedLastHour()), number(t, t.GetPublishedLastDay()), number(t, t.GetPending()),
						p.When(t.GetOldestPendingAt()), number(t, t.GetDead()), fmt.Sprint(len(t.GetHandlers())),
					}, p.When(t.GetLastPublishedAt()))
				}
				p.List(p.WideCells([]string{"topic", "owner", "last hour", "last day", "pending", "oldest", "dead", "consumers"}, "last event"), rows, next)
			})
		}),
	}
	cmd.Flags().StringVar(&req.UserId, "user", "", "only of this owner `ID`")
	client.LimitFlag(cmd, &limit)
	return cmd
}

// number is a count; with a plus there may be more.
func number(t *carillonv1.Topic, n uint32) string {
	if t.GetAtLeast() && n > 0 {
		return fmt.Sprint(n, "+")
	}
	return fmt.Sprint(n)
}

func newGetCommand(o *client.Client) *cobra.Command {
	req := &carillonv1.GetTopicRequest{}
	cmd := &cobra.Command{
		Use:     "get TOPIC",
		Short:   "Show a topic with its consumers",
		Example: "  carillon topic get orders --user ada",
		Args:    command.ExactArgs("TOPIC"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.Topic = args[0]
			return client.ShowAnswer(ctx, o, l, l.Events().GetTopic, req, func(p *render.Page, resp *carillonv1.GetTopicResponse) { writeTopic(p, resp.GetTopic()) })
		}),
	}
	cmd.Flags().StringVar(&req.UserId, "user", "", "`ID` of the owner")
	return cmd
}

func writeTopic(p *render.Page, t *carillonv1.Topic) {
	p.Fields(
		[2]string{"topic", t.GetTopic()},
		[2]string{"owner", t.GetUserId()},
		[2]string{"published", fmt.Sprintf("%s in the last hour, %s in the last day", number(t, t.GetPublishedLastHour()), number(t, t.GetPublishedLastDay()))},
		[2]string{"last event", p.When(t.GetLastPublishedAt())},
		[2]string{"pending", number(t, t.GetPending())},
		[2]string{"oldest", p.When(t.GetOldestPendingAt())},
		[2]string{"dead", number(t, t.GetDead())},
	)
	p.Line("")
	if len(t.GetHandlers()) == 0 {
		p.Line("no schedule consumes it")
		return
	}
	rows := make([][]string, len(t.GetHandlers()))
	for i, c := range t.GetHandlers() {
		rows[i] = []string{c.GetScheduleId(), c.GetBy(), number(t, c.GetPending()), p.When(c.GetOldestPendingAt()), number(t, c.GetDead())}
	}
	p.Table([]string{"consumer", "consumes", "pending", "oldest", "dead"}, rows)
}

// errBroken is the result of an audit that finds something.
var errBroken = command.Shown("something is broken")

func newAuditCommand(o *client.Client) *cobra.Command {
	req := &carillonv1.AuditTopicRequest{}
	cmd := &cobra.Command{
		Use:   "audit TOPIC",
		Short: "Compare the events of a topic with what their consumers have of them",
		Long: "Compares the events that were published in a range, at most 100000, with what their consumers have of them. It\n" +
			"reads rows only, and changes nothing. The exit code is 1 if something is not as it must be, which is a bug.",
		Example: "  carillon topic audit orders --user ada\n  carillon topic audit orders --user ada --from 7d --until 6d",
		Args:    command.ExactArgs("TOPIC"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.Topic = args[0]
			resp, err := client.Call(ctx, l, l.Events().AuditTopic, req)
			if err != nil {
				return err
			}
			if err := o.Show(resp, func(p *render.Page) { writeAudit(p, req.GetTopic(), resp) }); err != nil {
				return err
			}
			if resp.GetBroken() > 0 {
				return errBroken
			}
			return nil
		}),
	}
	f := cmd.Flags()
	f.StringVar(&req.UserId, "user", "", "`ID` of the owner")
	f.Func("from", "events from this `TIME` (RFC 3339) on, or a duration back such as 2h or 7d (default: an hour before --until)", o.TimeFromNow(&req.From, -1))
	f.Func("until", "events before this `TIME`, or a duration back (default: now)", o.TimeFromNow(&req.Until, -1))
	return cmd
}

func writeAudit(p *render.Page, topic string, resp *carillonv1.AuditTopicResponse) {
	entries := render.Count(int(resp.GetFanout()), "entry")
	if resp.GetFanout() != 1 {
		entries = fmt.Sprintf("%d entries", resp.GetFanout())
	}
	p.Line("topic %s from %s until %s: %s with %s, %d of them deleted", topic, p.When(resp.GetFrom()), p.When(resp.GetUntil()),
		render.Count(int(resp.GetEvents()), "event"), entries, resp.GetPruned())
	if resp.GetCut() {
		p.Line("the range has more events: audit again with --from %s", resp.GetUntil().AsTime().Format("2006-01-02T15:04:05.999999Z07:00"))
	}
	rows := make([][]string, len(resp.GetHandlers()))
	for i, c := range resp.GetHandlers() {
		rows[i] = []string{c.GetScheduleId(), fmt.Sprint(c.GetPending()), fmt.Sprint(c.GetReserved()), fmt.Sprint(c.GetConsumed()), fmt.Sprint(c.GetSkipped()), fmt.Sprint(c.GetDead())}
	}
	if len(rows) > 0 {
		p.Line("")
		p.Table([]string{"consumer", "pending", "reserved", "consumed", "skipped", "dead"}, rows)
	}
	p.Line("")
	if resp.GetBroken() == 0 {
		p.Line("all is as it must be")
		return
	}
	for _, v := range resp.GetViolations() {
		p.Line("%s", violation(v))
	}
	if more := int(resp.GetBroken()) - len(resp.GetViolations()); more > 0 {
		p.Line("and %d more", more)
	}
	p.Line("This is a bug: please report it with `carillon event explain` of one of the events.")
}

// violation is the problem after what has it.
func violation(v *carillonv1.AuditViolation) string {
	s := ""
	for _, part := range [][2]string{{"event", v.GetEventId()}, {"consumer", v.GetScheduleId()}, {"run", v.GetRun()}} {
		if part[1] == "" {
			continue
		}
		if s != "" {
			s += ", "
		}
		s += part[0] + " " + part[1]
	}
	return s + " " + v.GetProblem()
}
