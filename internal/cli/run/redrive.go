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
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// maxRedriveKeys is the limit of DeadRunFilter.keys.
const maxRedriveKeys = 1000

func newRedriveCommand(o *client.Client) *cobra.Command {
	filter := &carillonv1.DeadRunFilter{}
	req := &carillonv1.RedriveRunsRequest{Filter: filter}
	cmd := &cobra.Command{
		Use:   "redrive [KEY...]",
		Short: "Retry dead runs: runs that failed for good",
		Long: "Retries the dead runs that match the flags, or those that are named: runs that failed for good and were not\n" +
			"retried. Each becomes a new run and is no longer dead, so a second redrive does not repeat the first.\n" +
			"`carillon run list --dead` lists dead runs. --dry-run counts them by schedule and changes nothing.\n\n" +
			"A redriven run waits while another run of its overlap key is in flight, also where a slot would be skipped.\n" +
			"Runs of deleted schedules stay dead.",
		Example: "  carillon run redrive --schedule nightly --dry-run\n" +
			"  carillon run redrive --workflow report --error-code http_503 --since 6h --rate 60\n" +
			"  carillon run redrive --all --renew\n" +
			"  carillon run redrive 5f0c5a3d9b1e 93ab2c41de07",
		Args: command.Args(nil, maxRedriveKeys),
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && !req.GetAll() && proto.Equal(filter, &carillonv1.DeadRunFilter{}) {
				return command.Usage(cmd, "name the runs by KEY or by a filter such as --schedule, or give --all")
			}
			return nil
		},
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			var err error
			if filter.Keys, err = wholeKeys(ctx, l, args); err != nil {
				return err
			}
			return redriveAndShow(ctx, o, l, req)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&filter.ScheduleId, "schedule", "", "only of this schedule `ID`")
	f.StringVar(&filter.QueueId, "queue", "", "only of this dispatch queue `ID`")
	f.StringVar(&filter.WorkflowId, "workflow", "", "only of this workflow `ID`")
	f.StringVar(&filter.UserId, "user", "", "only of this owner `ID`")
	f.Func("reason", "only with this `REASON`", command.Text(&filter.Reason))
	f.StringVar(&filter.ErrorCode, "error-code", "", "only with this error `CODE`")
	f.Func("failure-class", "only of this failure `CLASS`", command.Text(&filter.FailureClass))
	f.Func("since", "run at from this `TIME` (RFC 3339), or a duration back such as 2h or 7d", o.TimeFromNow(&filter.From, -1))
	f.Func("until", "run at before this `TIME` (RFC 3339), or a duration back", o.TimeFromNow(&filter.To, -1))
	f.BoolVar(&req.All, "all", false, "all dead runs; required without KEY and without a filter")
	redriveFlags(cmd, req)
	command.CompleteValues(cmd, "reason", schedule.Reasons)
	command.CompleteValues(cmd, "failure-class", schedule.FailureClasses)
	return cmd
}

// redriveFlags adds the flags that say how runs are redriven.
func redriveFlags(cmd *cobra.Command, req *carillonv1.RedriveRunsRequest) {
	f := cmd.Flags()
	f.BoolVar(&req.Renew, "renew", false, "give the new runs the automatic retries of their schedules")
	f.Func("rate", "start at most this `NUMBER` of them per minute (default: as capacity and overlap keys allow)", command.Uint32(&req.RatePerMinute))
	f.BoolVar(&req.DryRun, "dry-run", false, "change nothing, show what would be redriven; exit with 3 if anything would")
	f.StringVar(&req.RequestId, "request-id", "", "`ID` of the redrive: a repeat does not redrive the runs that it made")
}

// NewRedriveOfQueueCommand is queue redrive.
func NewRedriveOfQueueCommand(o *client.Client) *cobra.Command {
	req := &carillonv1.RedriveRunsRequest{Filter: &carillonv1.DeadRunFilter{}}
	cmd := &cobra.Command{
		Use:     "redrive ID",
		Short:   "Retry the dead runs of a queue: runs that failed for good",
		Long:    "Retries the dead runs of a queue. Each becomes a new run in the queue and is no longer dead. `carillon run redrive`\nhas more filters.",
		Example: "  carillon queue redrive gpu --dry-run\n  carillon queue redrive mail --renew --rate 60",
		Args:    command.Args([]string{"ID"}, 0),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.Filter.QueueId = args[0]
			return redriveAndShow(ctx, o, l, req)
		}),
	}
	redriveFlags(cmd, req)
	return cmd
}

func redriveAndShow(ctx context.Context, o *client.Client, l *client.Link, req *carillonv1.RedriveRunsRequest) error {
	done, err := redrive(ctx, o, l, req)
	if err != nil && done.GetRedriven() > 0 && !req.GetDryRun() {
		err = fmt.Errorf("%w; %d runs were redriven before: run the command again for the rest", err, done.GetRedriven())
	}
	if err != nil {
		return err
	}
	err = o.Show(done, func(p *render.Page) { writeRedriven(p, done, req.GetDryRun()) })
	if err == nil && req.GetDryRun() && done.GetRedriven() > 0 {
		return command.ErrDiffers
	}
	return err
}

// redrive asks for one page after another, and adds up the answers. With an error it returns what
// was done before.
func redrive(ctx context.Context, o *client.Client, l *client.Link, req *carillonv1.RedriveRunsRequest) (*carillonv1.RedriveRunsResponse, error) {
	m := render.NewProgress(o.Screen, "redriving")
	defer m.End()
	sum := &carillonv1.RedriveRunsResponse{}
	bySchedule := make(map[string]*carillonv1.RedrivenSchedule)
	for {
		resp, err := client.Call(ctx, l, l.Runs().RedriveRuns, req)
		if err != nil {
			return sum, err
		}
		sum.RequestId = resp.GetRequestId()
		sum.Redriven += resp.GetRedriven()
		sum.LeftDead += resp.GetLeftDead()
		if len(sum.GetSample()) == 0 {
			sum.Sample = resp.GetSample()
		}
		for _, s := range resp.GetSchedules() {
			if known := bySchedule[s.GetScheduleId()]; known != nil {
				known.Redriven += s.GetRedriven()
				continue
			}
			bySchedule[s.GetScheduleId()] = s
			sum.Schedules = append(sum.Schedules, s)
		}
		if req.PageToken = resp.GetNextPageToken(); req.GetPageToken() == "" {
			slices.SortFunc(sum.GetSchedules(), func(a, b *carillonv1.RedrivenSchedule) int {
				return cmp.Or(cmp.Compare(b.GetRedriven(), a.GetRedriven()), cmp.Compare(a.GetScheduleId(), b.GetScheduleId()))
			})
			return sum, nil
		}
		m.Describe("%d runs redriven", sum.GetRedriven())
	}
}

func writeRedriven(p *render.Page, done *carillonv1.RedriveRunsResponse, dryRun bool) {
	switch n := done.GetRedriven(); {
	case n == 0:
		p.Line("no dead run matches")
	case dryRun:
		p.Line("%s would be redriven", describe.Count(int(n), "dead run"))
	default:
		p.Line("%s redriven", describe.Count(int(n), "dead run"))
	}
	if n := done.GetLeftDead(); n > 0 {
		p.Line("%s of deleted schedules cannot be redriven", describe.Count(int(n), "dead run"))
	}
	if len(done.GetSchedules()) == 0 {
		return
	}
	rows := make([][]string, 0, len(done.GetSchedules()))
	for _, s := range done.GetSchedules() {
		rows = append(rows, []string{s.GetScheduleId(), fmt.Sprint(s.GetRedriven())})
	}
	p.Table([]string{"schedule", "runs"}, rows)
}
