package schedule

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func newEventsCommand(o *client.Client) *cobra.Command {
	limit := client.DefaultLimit
	cmd := &cobra.Command{
		Use:     "events ID",
		Short:   "Show the events of a schedule, newest first",
		Example: "  carillon schedule events nightly --limit 10",
		Args:    command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			found, next, err := client.Pages(limit, func(size uint32, token string) ([]*carillonv1.ScheduleEvent, string, error) {
				resp, err := client.Call(ctx, l, l.Schedules().ListScheduleEvents,
					&carillonv1.ListScheduleEventsRequest{ScheduleId: args[0], PageSize: size, PageToken: token})
				return resp.GetEvents(), resp.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return o.Show(&carillonv1.ListScheduleEventsResponse{Events: found, NextPageToken: next}, func(p *render.Page) {
				rows := make([][]string, len(found))
				for i, e := range found {
					rows[i] = p.WideCells([]string{p.When(e.GetTime()), e.GetKind(), slotRange(e), e.GetReason(), e.GetActor(), fmt.Sprint(e.GetRevision()), e.GetNote()},
						p.When(e.GetFrom()), p.When(e.GetTo()), fmt.Sprint(e.GetCount()))
				}
				p.List(p.WideCells([]string{"time", "event", "slots", "reason", "actor", "revision", "note"}, "from", "to", "count"), rows, next)
			})
		}),
	}
	client.LimitFlag(cmd, &limit)
	return cmd
}

// slotRange is the slots of an event: one time, or a range with their number.
func slotRange(e *carillonv1.ScheduleEvent) string {
	switch {
	case e.GetFrom() == nil:
		return ""
	case e.GetTo() == nil || e.GetCount() == 1:
		return render.Stamp(e.GetFrom().AsTime())
	}
	out := render.Stamp(e.GetFrom().AsTime()) + " to " + render.Stamp(e.GetTo().AsTime())
	if e.GetCount() > 0 {
		out = fmt.Sprintf("%d: %s", e.GetCount(), out)
	}
	return out
}

func newRevisionsCommand(o *client.Client) *cobra.Command {
	limit := client.DefaultLimit
	cmd := &cobra.Command{
		Use:     "revisions ID",
		Short:   "Show the past definitions of a schedule, newest first",
		Example: "  carillon schedule revisions nightly -o json",
		Args:    command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			found, next, err := client.Pages(limit, func(size uint32, token string) ([]*carillonv1.ScheduleRevision, string, error) {
				resp, err := client.Call(ctx, l, l.Schedules().ListRevisions,
					&carillonv1.ListRevisionsRequest{ScheduleId: args[0], PageSize: size, PageToken: token})
				return resp.GetRevisions(), resp.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return o.Show(&carillonv1.ListRevisionsResponse{Revisions: found, NextPageToken: next}, func(p *render.Page) {
				rows := make([][]string, len(found))
				for i, r := range found {
					d := r.GetDefinition()
					rows[i] = p.WideCells([]string{
						fmt.Sprint(r.GetRevision()), p.When(r.GetCreatedAt()), r.GetChangedBy(),
						fmt.Sprintf("%s@%d", d.GetWorkflowId(), d.GetVersion()), rule(d), d.GetOverlapPolicy(), d.GetCatchupPolicy(), jitterText(d.GetJitterMs()),
					}, d.GetDst(), render.Millis(d.GetRunTimeoutMs()), fmt.Sprint(d.GetPriority()), d.GetExecutionGrantId(), d.GetManagedBy(), render.Labels(d.GetLabels()))
				}
				p.List(p.WideCells([]string{"revision", "made", "by", "workflow", "rule", "overlap", "catch-up", "jitter"},
					"dst", "run timeout", "priority", "grant", "managed by", "labels"), rows, next)
			})
		}),
	}
	client.LimitFlag(cmd, &limit)
	return cmd
}
