package queue

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func newListCommand(o *client.Client) *cobra.Command {
	limit := client.DefaultLimit
	filter := &carillonv1.ListQueuesRequest{}
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List queues, ordered by id",
		Example: "  carillon queue list",
		Args:    command.ExactArgs(),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, _ []string) error {
			found, next, err := client.Pages(limit, func(size uint32, token string) ([]*carillonv1.Queue, string, error) {
				filter.PageSize, filter.PageToken = size, token
				resp, err := client.Call(ctx, l, l.Queues().ListQueues, filter)
				return resp.GetQueues(), resp.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return o.Show(&carillonv1.ListQueuesResponse{Queues: found, NextPageToken: next}, func(p *render.Page) {
				rows := make([][]string, len(found))
				for i, q := range found {
					rows[i] = p.WideCells([]string{
						q.GetQueueId(), q.GetUserId(), state(p, q), fmt.Sprint(q.GetWaiting()), p.When(q.GetOldestEnqueuedAt()), fmt.Sprint(q.GetDelayed()), inFlight(q),
					}, q.GetPauseNote(), render.Labels(q.GetLabels()), q.GetManagedBy(), p.When(q.GetUpdatedAt()))
				}
				p.List(p.WideCells([]string{"queue", "owner", "state", "waiting", "oldest entered", "delayed", "in flight"},
					"note", "labels", "managed by", "updated"), rows, next)
			})
		}),
	}
	cmd.Flags().StringVar(&filter.UserId, "user", "", "only of this owner `ID`, and shared ones")
	client.LimitFlag(cmd, &limit)
	return cmd
}

func newWaitingCommand(o *client.Client) *cobra.Command {
	limit := client.DefaultLimit
	cmd := &cobra.Command{
		Use:   "waiting ID",
		Short: "List the runs that wait in a queue, in the order in which they start",
		Long: "Lists the runs that wait in a queue, in the order in which they start; those with a later start come last.\n" +
			"The position counts the runs of one priority.",
		Example: "  carillon queue waiting gpu --watch",
		Args:    command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			found, next, err := client.Pages(limit, func(size uint32, token string) ([]*carillonv1.Run, string, error) {
				resp, err := client.Call(ctx, l, l.Queues().ListWaiting, &carillonv1.ListWaitingRequest{QueueId: args[0], PageSize: size, PageToken: token})
				return resp.GetRuns(), resp.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return o.Show(&carillonv1.ListWaitingResponse{Runs: found, NextPageToken: next}, func(p *render.Page) {
				rows := make([][]string, len(found))
				for i, r := range found {
					starts, place := "in turn", ""
					if r.GetQueueState() == "delayed" {
						starts = p.When(r.GetFireAt())
					}
					if r.GetPosition() > 0 {
						place = fmt.Sprint(r.GetPosition())
					}
					rows[i] = p.WideCells([]string{
						fmt.Sprint(r.GetPriority()), place, p.RunKey(r.GetIdempotencyKey(), args[0]), r.GetWorkflowId(), r.GetUserId(), starts, p.When(r.GetEnqueuedAt()),
					}, r.GetScheduleId(), fmt.Sprintf("%d of %d", r.GetAttempt(), r.GetMaxAttempts()))
				}
				p.List(p.WideCells([]string{"priority", "position", "key", "workflow", "owner", "starts", "entered"}, "schedule", "attempt"), rows, next)
			})
		}),
	}
	client.LimitFlag(cmd, &limit)
	return cmd
}

func newEventsCommand(o *client.Client) *cobra.Command {
	limit := client.DefaultLimit
	cmd := &cobra.Command{
		Use:     "events ID",
		Short:   "Show the log of a queue, newest first",
		Example: "  carillon queue events gpu",
		Args:    command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			found, next, err := client.Pages(limit, func(size uint32, token string) ([]*carillonv1.QueueEvent, string, error) {
				resp, err := client.Call(ctx, l, l.Queues().ListQueueEvents, &carillonv1.ListQueueEventsRequest{QueueId: args[0], PageSize: size, PageToken: token})
				return resp.GetEvents(), resp.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return o.Show(&carillonv1.ListQueueEventsResponse{Events: found, NextPageToken: next}, func(p *render.Page) {
				rows := make([][]string, len(found))
				for i, e := range found {
					rows[i] = []string{p.When(e.GetTime()), e.GetKind(), fmt.Sprint(e.GetRevision()), e.GetActor(), e.GetNote()}
				}
				p.List([]string{"time", "event", "revision", "by", "note"}, rows, next)
			})
		}),
	}
	client.LimitFlag(cmd, &limit)
	return cmd
}

func newReservationsCommand(o *client.Client) *cobra.Command {
	return &cobra.Command{
		Use:     "reservations ID",
		Short:   "List the reservations of a queue, in order of arrival",
		Example: "  carillon queue reservations gpu --watch",
		Args:    command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			return client.ShowAnswer(ctx, o, l, l.Queues().ListReservations, &carillonv1.ListReservationsRequest{QueueId: args[0]}, func(p *render.Page, resp *carillonv1.ListReservationsResponse) {
				rows := make([][]string, len(resp.GetReservations()))
				for i, r := range resp.GetReservations() {
					state := "granted"
					if !r.GetGranted() {
						state = fmt.Sprintf("waits, position %d", r.GetPosition())
					}
					rows[i] = p.WideCells([]string{
						r.GetReservationId(), state, r.GetRequestedBy(), r.GetUserId(), p.When(r.GetCreatedAt()), p.When(r.GetEndsAt()),
					}, strings.Join(r.GetLimits(), ", "), render.Millis(r.GetHoldMs()))
				}
				p.List(p.WideCells([]string{"reservation", "state", "by", "owner", "requested", "ends"}, "limits", "hold"), rows, "")
			})
		}),
	}
}

func newReleaseCommand(o *client.Client) *cobra.Command {
	return &cobra.Command{
		Use:     "release RESERVATION",
		Short:   "End a reservation: its slot is free at once",
		Long:    "Ends a reservation, also one that still waits. What its holder does with the slot goes on.",
		Example: "  carillon queue release 5f0c5a3d9b1e7c42a86d0f3b5e9172c4d8a60b1f3e5c7d9a2b4f6e8c0d1a3b5c",
		Args:    command.ExactArgs("RESERVATION"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			return client.ShowAnswer(ctx, o, l, l.Queues().ReleaseReservation, &carillonv1.ReleaseReservationRequest{ReservationId: args[0]}, func(p *render.Page, resp *carillonv1.ReleaseReservationResponse) {
				p.Line("the reservation of %s in queue %s is released", resp.GetReservation().GetUserId(), resp.GetReservation().GetQueueId())
			})
		}),
	}
}
