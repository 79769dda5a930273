package event

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/rawjson"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// NewCommand is event with its subcommands.
func NewCommand(c *command.CLI) *cobra.Command {
	cmd := command.Group("event", "Publish events that start runs, and see which runs had them")
	cmd.Aliases = []string{"events"}
	cmd.Long = "An event belongs to a topic of its owner. Schedules that consume the topic (`schedule upsert --consume TOPIC`) get it:\n" +
		"each event is in one run of each consumer, and is consumed once that run succeeds."
	o := client.New(c)
	o.Flags(cmd)
	cmd.AddCommand(newPublishCommand(o), o.WithWatch(newListCommand(o)), o.WithWatch(newGetCommand(o)), o.WithWatch(newExplainCommand(o)), o.CompleteArg(o.WithWatch(newInboxCommand(o)), client.ScheduleIDs))
	return o.CompleteFlags(cmd)
}

func newPublishCommand(o *client.Client) *cobra.Command {
	req := &carillonv1.PublishEventsRequest{}
	var data, file string
	cmd := &cobra.Command{
		Use:   "publish TOPIC",
		Short: "Publish an event, or a file of them",
		Long: "Publishes one event, or with --file those of a file, all or none: JSON objects with event_id, data and the other\n" +
			"fields of an event. A repeat with the same ids publishes nothing twice.",
		Example: "  carillon event publish orders --user ada --id o-1 --data '{\"account\": \"a7\"}'\n" +
			"  carillon event publish orders --user ada -f - < orders.jsonl",
		Args: command.ExactArgs("TOPIC"),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if file != "" && data != "" {
				return command.Usage(cmd, "--data and --file are both set: give one of them")
			}
			return nil
		},
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.Topic = args[0]
			switch {
			case file != "":
				values, err := o.JSONValues(file)
				if err != nil {
					return err
				}
				if req.Events, err = readEvents(values); err != nil {
					return fmt.Errorf("%s: %w", file, err)
				}
			case data != "":
				raw, err := o.Content(data)
				if err != nil {
					return err
				}
				req.Data = raw
			default:
				req.Data = []byte("{}")
			}
			return client.ShowAnswer(ctx, o, l, l.Events().PublishEvents, req, writePublished)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&req.UserId, "user", "", "`ID` of the owner")
	f.StringVar(&req.EventId, "id", "", "`ID` of the event (default: --request-id and its place)")
	f.StringVar(&data, "data", "", "`JSON` of the event, or @FILE (default: {})")
	f.StringVarP(&file, "file", "f", "", "`FILE` with an event as JSON, or several as JSON Lines; - is standard input")
	f.StringVar(&req.Source, "source", "", "`TEXT` that names the event together with its id")
	f.StringVar(&req.Type, "type", "", "`TEXT` that says what happened")
	f.StringVar(&req.Subject, "subject", "", "`TEXT` that says to what")
	f.Func("time", "`TIME` (RFC 3339) at which it happened", command.Time(&req.Time))
	f.BoolVar(&req.Strict, "strict", false, "fail if an event exists with other data")
	f.BoolVar(&req.RequireSubscriber, "require-subscriber", false, "fail if no schedule consumes one of the events")
	f.StringVar(&req.RequestId, "request-id", "", "`ID` that names events without an id")
	return cmd
}

func readEvents(values [][]byte) ([]*carillonv1.NewEvent, error) {
	events := make([]*carillonv1.NewEvent, len(values))
	for i, raw := range values {
		events[i] = &carillonv1.NewEvent{}
		if err := rawjson.Unmarshal(raw, events[i]); err != nil {
			return nil, fmt.Errorf("event %d: %w", i+1, err)
		}
	}
	return events, nil
}

func writePublished(p *render.Page, resp *carillonv1.PublishEventsResponse) {
	rows := make([][]string, len(resp.GetResults()))
	for i, e := range resp.GetResults() {
		what := "published"
		switch {
		case e.GetDiffers():
			what = "published before with other data, which stay"
		case e.GetDuplicate():
			what = "published before"
		}
		rows[i] = []string{e.GetTopic(), e.GetEventId(), what, render.Count(int(e.GetFanout()), "consumer")}
	}
	p.Table([]string{"topic", "event", "result", "goes to"}, rows)
}

func newListCommand(o *client.Client) *cobra.Command {
	limit := client.DefaultLimit
	req := &carillonv1.ListEventsRequest{}
	cmd := &cobra.Command{
		Use:     "list TOPIC",
		Short:   "List events of a topic, the newest first",
		Example: "  carillon event list orders --user ada",
		Args:    command.ExactArgs("TOPIC"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.Topic = args[0]
			found, next, err := client.Pages(limit, func(size uint32, token string) ([]*carillonv1.Event, string, error) {
				req.PageSize, req.PageToken = size, token
				resp, err := client.Call(ctx, l, l.Events().ListEvents, req)
				return resp.GetEvents(), resp.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return o.Show(&carillonv1.ListEventsResponse{Events: found, NextPageToken: next}, func(p *render.Page) {
				rows := make([][]string, len(found))
				for i, e := range found {
					rows[i] = []string{e.GetEventId(), e.GetSource(), e.GetType(), p.When(e.GetPublishedAt()), e.GetPublishedBy(), render.Count(int(e.GetFanout()), "consumer")}
				}
				p.List([]string{"event", "source", "type", "published", "by", "went to"}, rows, next)
			})
		}),
	}
	cmd.Flags().StringVar(&req.UserId, "user", "", "`ID` of the owner")
	client.LimitFlag(cmd, &limit)
	return cmd
}

func newGetCommand(o *client.Client) *cobra.Command {
	req := &carillonv1.GetEventRequest{}
	cmd := &cobra.Command{
		Use:     "get TOPIC ID",
		Short:   "Show an event, and its state for each consumer",
		Example: "  carillon event get orders o-1 --user ada",
		Args:    command.ExactArgs("TOPIC", "ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.Topic, req.EventId = args[0], args[1]
			return client.ShowAnswer(ctx, o, l, l.Events().GetEvent, req, writeEvent)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&req.UserId, "user", "", "`ID` of the owner")
	f.StringVar(&req.Source, "source", "", "`TEXT` that the event was published with")
	return cmd
}

func writeEvent(p *render.Page, resp *carillonv1.GetEventResponse) {
	e := resp.GetEvent()
	p.Fields(
		[2]string{"topic", e.GetTopic()},
		[2]string{"event", e.GetEventId()},
		[2]string{"source", e.GetSource()},
		[2]string{"type", e.GetType()},
		[2]string{"subject", e.GetSubject()},
		[2]string{"time", p.When(e.GetTime())},
		[2]string{"owner", e.GetUserId()},
		[2]string{"published", p.When(e.GetPublishedAt())},
		[2]string{"published by", e.GetPublishedBy()},
		[2]string{"by run", runOf(p, e.GetCausedBy())},
		[2]string{"data", string(e.GetData())},
	)
	p.Line("")
	if len(resp.GetInbox()) == 0 {
		p.Line("no schedule consumed its topic when it was published")
		return
	}
	rows := make([][]string, len(resp.GetInbox()))
	for i, entry := range resp.GetInbox() {
		rows[i] = append([]string{entry.GetScheduleId()}, entryCells(p, entry)...)
	}
	p.Table([]string{"consumer", "state", "run", "failed attempts", "since"}, rows)
}

func entryCells(p *render.Page, e *carillonv1.InboxEntry) []string {
	state, since, failed := e.GetState(), e.GetCreatedAt(), ""
	if e.GetReason() != "" {
		state += " (" + e.GetReason() + ")"
	}
	if e.GetAttempts() > 0 {
		failed = fmt.Sprint(e.GetAttempts())
	}
	switch {
	case e.GetEndedAt() != nil:
		since = e.GetEndedAt()
	case e.GetState() == "reserved":
		since = e.GetOfferedAt()
	}
	return []string{state, runOf(p, e.GetRun()), failed, p.When(since)}
}

func runOf(p *render.Page, key string) string {
	if key == "" {
		return ""
	}
	return p.RunKey(key, "")
}

func newInboxCommand(o *client.Client) *cobra.Command {
	limit := client.DefaultLimit
	req := &carillonv1.ListInboxRequest{}
	cmd := &cobra.Command{
		Use:   "inbox SCHEDULE",
		Short: "List what a consumer has of events, the oldest first",
		Example: "  carillon event inbox ship-orders\n" +
			"  carillon event inbox ship-orders --state dead",
		Args: command.ExactArgs("SCHEDULE"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.ScheduleId = args[0]
			var last *carillonv1.ListInboxResponse
			found, next, err := client.Pages(limit, func(size uint32, token string) ([]*carillonv1.InboxEntry, string, error) {
				req.PageSize, req.PageToken = size, token
				resp, err := client.Call(ctx, l, l.Events().ListInbox, req)
				last = resp
				return resp.GetEntries(), resp.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			resp := &carillonv1.ListInboxResponse{Entries: found, NextPageToken: next, Counts: last.GetCounts()}
			return o.Show(resp, func(p *render.Page) { writeInbox(p, resp) })
		}),
	}
	cmd.Flags().StringVar(&req.State, "state", "", "only entries in this `STATE`: pending, reserved, consumed, skipped or dead")
	client.LimitFlag(cmd, &limit)
	return cmd
}

func writeInbox(p *render.Page, resp *carillonv1.ListInboxResponse) {
	rows := make([][]string, len(resp.GetEntries()))
	for i, e := range resp.GetEntries() {
		rows[i] = append([]string{e.GetEvent().GetTopic(), e.GetEvent().GetEventId()}, entryCells(p, e)...)
	}
	p.List([]string{"topic", "event", "state", "run", "failed attempts", "since"}, rows, resp.GetNextPageToken())
	p.Line("")
	for _, state := range []string{"pending", "reserved", "consumed", "skipped", "dead"} {
		if n := resp.GetCounts()[state]; n > 0 {
			p.Line("%s: %d", state, n)
		}
	}
}
