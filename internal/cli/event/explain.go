package event

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func newExplainCommand(o *client.Client) *cobra.Command {
	req := &carillonv1.ExplainEventRequest{}
	cmd := &cobra.Command{
		Use:   "explain TOPIC ID",
		Short: "Say where an event is for each consumer, and why",
		Long: "Says for each consumer of an event which run has it or had it, or what it waits for. With --handler the\n" +
			"answer is about one schedule, also if it has nothing of the event.",
		Example: "  carillon event explain orders o-1 --user ada\n" +
			"  carillon event explain orders o-1 --user ada --handler ship-orders",
		Args: command.ExactArgs("TOPIC", "ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.Topic, req.EventId = args[0], args[1]
			return client.ShowAnswer(ctx, o, l, l.Events().ExplainEvent, req, writeExplained)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&req.UserId, "user", "", "`ID` of the owner")
	f.StringVar(&req.Source, "source", "", "`TEXT` that the event was published with")
	f.StringVar(&req.Handler, "handler", "", "only this `SCHEDULE`")
	return cmd
}

func writeExplained(p *render.Page, resp *carillonv1.ExplainEventResponse) {
	e := resp.GetEvent()
	by := ""
	if e.GetPublishedBy() != "" {
		by = " by " + e.GetPublishedBy()
	}
	p.Line("event %s of topic %s, published %s%s", e.GetEventId(), e.GetTopic(), p.When(e.GetPublishedAt()), by)
	if len(resp.GetHandlers()) == 0 {
		p.Line("")
		p.Line("no schedule consumed its topic when it was published")
	}
	for _, h := range resp.GetHandlers() {
		p.Line("")
		title := h.GetScheduleId() + ": " + h.GetVerdict()
		if h.GetScheduleId() == "" {
			title = h.GetVerdict()
		}
		if h.GetReason() != "" {
			title += " (" + h.GetReason() + ")"
		}
		p.Line("%s", title)
		for _, s := range h.GetSentences() {
			p.Line("  %s", s)
		}
	}
}
