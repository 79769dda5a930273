package run

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/schedule/describe"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// maxCancelKeys is the limit of OpenRunFilter.keys.
const maxCancelKeys = 1000

func newCancelCommand(o *client.Client) *cobra.Command {
	filter := &carillonv1.OpenRunFilter{}
	req := &carillonv1.CancelRunsRequest{Filter: filter}
	cmd := &cobra.Command{
		Use:   "cancel [KEY...]",
		Short: "Cancel a run, or all open runs of a filter",
		Long: "Cancels the runs that are named, or the open runs that match the flags: at once those that were never sent,\n" +
			"the others when the executor confirms. --dry-run counts them by schedule and changes nothing. Slots that are\n" +
			"still to come are cancelled only by KEY: pause the schedule to stop it.",
		Example: "  carillon run cancel 5f0c5a3d9b1e --note 'wrong input'\n" +
			"  carillon run cancel --queue gpu --workflow resize --dry-run\n" +
			"  carillon run cancel --schedule import --since 2h --note 'bad file'",
		Args: command.Args(nil, maxCancelKeys),
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && proto.Equal(filter, &carillonv1.OpenRunFilter{}) {
				return command.Usage(cmd, "name the runs by KEY or by a filter such as --queue")
			}
			return nil
		},
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			if len(args) == 1 && !req.GetDryRun() && proto.Equal(filter, &carillonv1.OpenRunFilter{}) {
				return cancelOne(ctx, o, l, &carillonv1.CancelRunRequest{IdempotencyKey: args[0], Note: req.GetNote()})
			}
			var err error
			if filter.Keys, err = wholeKeys(ctx, l, args); err != nil {
				return err
			}
			return cancelAndShow(ctx, o, l, req)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&filter.ScheduleId, "schedule", "", "only of this schedule `ID`")
	f.StringVar(&filter.QueueId, "queue", "", "only of this dispatch queue `ID`")
	f.StringVar(&filter.WorkflowId, "workflow", "", "only of this workflow `ID`")
	f.StringVar(&filter.UserId, "user", "", "only of this owner `ID`")
	f.Func("since", "run at from this `TIME` (RFC 3339), or a duration back such as 2h or 7d", o.TimeFromNow(&filter.From, -1))
	f.Func("until", "run at before this `TIME` (RFC 3339), or a duration back", o.TimeFromNow(&filter.To, -1))
	cancelFlags(cmd, req)
	return cmd
}

// cancelFlags adds the flags that say how runs are cancelled.
func cancelFlags(cmd *cobra.Command, req *carillonv1.CancelRunsRequest) {
	cmd.Flags().StringVar(&req.Note, "note", "", "why, for the event log")
	cmd.Flags().BoolVar(&req.DryRun, "dry-run", false, "change nothing, show what would be cancelled; exit with 3 if anything would")
}

// NewCancelQueueCommand is queue cancel.
func NewCancelQueueCommand(o *client.Client) *cobra.Command {
	req := &carillonv1.CancelRunsRequest{Filter: &carillonv1.OpenRunFilter{}}
	cmd := &cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel the runs in a queue",
		Long: "Cancels the runs in a queue: at once those that wait, the others when the executor confirms. New runs may enter\n" +
			"meanwhile; `carillon queue pause --cancel-waiting` pauses the queue and cancels what waits. `carillon run cancel` has\nmore filters.",
		Example: "  carillon queue cancel gpu --dry-run\n  carillon queue cancel mail --note 'wrong template'",
		Args:    command.Args([]string{"ID"}, 0),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.Filter.QueueId = args[0]
			return cancelAndShow(ctx, o, l, req)
		}),
	}
	cancelFlags(cmd, req)
	return cmd
}

func cancelOne(ctx context.Context, o *client.Client, l *client.Link, req *carillonv1.CancelRunRequest) error {
	return client.ShowAnswer(ctx, o, l, l.Runs().CancelRun, req, func(p *render.Page, resp *carillonv1.CancelRunResponse) {
		r := resp.GetRun()
		p.Line("run %s is %s", render.ShortKey(r.GetIdempotencyKey()), outcome(r))
		if resp.GetEffect() != "" { // empty from older servers
			p.Line("%s", resp.GetEffect())
		}
	})
}

func cancelAndShow(ctx context.Context, o *client.Client, l *client.Link, req *carillonv1.CancelRunsRequest) error {
	done, err := cancelPages(ctx, o, l, req)
	n := done.GetCancelled() + done.GetCancelRequested()
	if err != nil && n > 0 && !req.GetDryRun() {
		err = fmt.Errorf("%w; %d runs were cancelled before: run the command again for the rest", err, n)
	}
	if err != nil {
		return err
	}
	err = o.Show(done, func(p *render.Page) { writeCancelled(p, done, req.GetDryRun()) })
	if err == nil && req.GetDryRun() && n > 0 {
		return command.ErrDiffers
	}
	return err
}

// cancelPages asks for one page after another, and adds up the answers. With an error it returns
// what was done before.
func cancelPages(ctx context.Context, o *client.Client, l *client.Link, req *carillonv1.CancelRunsRequest) (*carillonv1.CancelRunsResponse, error) {
	m := render.NewProgress(o.Screen, "cancelling")
	defer m.End()
	sum := &carillonv1.CancelRunsResponse{}
	bySchedule := make(map[string]*carillonv1.CancelledSchedule)
	for {
		resp, err := client.Call(ctx, l, l.Runs().CancelRuns, req)
		if err != nil {
			return sum, err
		}
		sum.Cancelled += resp.GetCancelled()
		sum.CancelRequested += resp.GetCancelRequested()
		if len(sum.GetSample()) == 0 {
			sum.Sample = resp.GetSample()
		}
		for _, s := range resp.GetSchedules() {
			if known := bySchedule[s.GetScheduleId()]; known != nil {
				known.Cancelled += s.GetCancelled()
				known.CancelRequested += s.GetCancelRequested()
				continue
			}
			bySchedule[s.GetScheduleId()] = s
			sum.Schedules = append(sum.Schedules, s)
		}
		if req.PageToken = resp.GetNextPageToken(); req.GetPageToken() == "" {
			slices.SortFunc(sum.GetSchedules(), func(a, b *carillonv1.CancelledSchedule) int {
				return cmp.Or(cmp.Compare(b.GetCancelled()+b.GetCancelRequested(), a.GetCancelled()+a.GetCancelRequested()), cmp.Compare(a.GetScheduleId(), b.GetScheduleId()))
			})
			return sum, nil
		}
		m.Describe("%d runs cancelled", sum.GetCancelled()+sum.GetCancelRequested())
	}
}

func writeCancelled(p *render.Page, done *carillonv1.CancelRunsResponse, dryRun bool) {
	ended, asked := int(done.GetCancelled()), int(done.GetCancelRequested())
	switch {
	case ended+asked == 0:
		p.Line("no open run matches whose cancel was not requested before")
		return
	case dryRun:
		p.Line("%s would be cancelled at once, %d more requested from the executor", describe.Count(ended, "run"), asked)
	default:
		p.Line("%s cancelled; the executor is asked to cancel %d more", describe.Count(ended, "run"), asked)
	}
	rows := make([][]string, 0, len(done.GetSchedules()))
	for _, s := range done.GetSchedules() {
		rows = append(rows, []string{s.GetScheduleId(), fmt.Sprint(s.GetCancelled()), fmt.Sprint(s.GetCancelRequested())})
	}
	p.Table([]string{"schedule", "cancelled", "requested"}, rows)
}
