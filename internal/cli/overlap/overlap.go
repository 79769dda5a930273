package overlap

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

// NewCommand is overlap with its subcommands.
func NewCommand(c *command.CLI) *cobra.Command {
	cmd := command.Group("overlap", "Show and start groups of schedules that share an overlap key")
	cmd.Long = "An overlap group is the schedules of one owner with one overlap_key. Their runs start one after the other, unless\n" +
		"a schedule has overlap_policy allow. With --overlap coalesce of each schedule only the newest slot waits."
	o := client.New(c)
	o.Flags(cmd)
	cmd.AddCommand(o.WithWatch(newListCommand(o)), o.CompleteArg(o.WithWatch(newGetCommand(o)), client.OverlapKeys), o.CompleteArg(newRunCommand(o), client.OverlapKeys))
	return o.CompleteFlags(cmd)
}

func newListCommand(o *client.Client) *cobra.Command {
	limit := client.DefaultLimit
	req := &carillonv1.ListOverlapGroupsRequest{}
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the groups with a schedule of overlap_policy coalesce",
		Example: "  carillon overlap list --user ada",
		Args:    command.ExactArgs(),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, _ []string) error {
			found, next, err := client.Pages(limit, func(size uint32, token string) ([]*carillonv1.OverlapGroup, string, error) {
				req.PageSize, req.PageToken = size, token
				resp, err := client.Call(ctx, l, l.Overlaps().ListOverlapGroups, req)
				return resp.GetGroups(), resp.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return o.Show(&carillonv1.ListOverlapGroupsResponse{Groups: found, NextPageToken: next}, func(p *render.Page) {
				rows := make([][]string, len(found))
				for i, g := range found {
					rows[i] = p.WideCells([]string{
						g.GetOverlapKey(), g.GetUserId(), g.GetStatus(), fmt.Sprint(len(g.GetSchedules())), fmt.Sprint(g.GetPending().GetRuns()), p.When(g.GetPending().GetOldestAt()),
					}, g.GetWorkflowId(), g.GetIssue())
				}
				p.List(p.WideCells([]string{"overlap key", "owner", "status", "schedules", "waiting", "since"}, "workflow", "issue"), rows, next)
			})
		}),
	}
	cmd.Flags().StringVar(&req.UserId, "user", "", "only of this owner `ID`")
	client.LimitFlag(cmd, &limit)
	return cmd
}

func newGetCommand(o *client.Client) *cobra.Command {
	req := &carillonv1.GetOverlapGroupRequest{}
	cmd := &cobra.Command{
		Use:     "get KEY",
		Short:   "Show a group: what runs, what waits in order and why, and what ended last",
		Example: "  carillon overlap get email-to-sheet --user ada",
		Args:    command.ExactArgs("KEY"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.OverlapKey = args[0]
			return client.ShowAnswer(ctx, o, l, l.Overlaps().GetOverlapGroup, req,
				func(p *render.Page, resp *carillonv1.GetOverlapGroupResponse) { writeGroup(p, resp.GetGroup()) })
		}),
	}
	cmd.Flags().StringVar(&req.UserId, "user", "", "`ID` of the owner")
	return cmd
}

func writeGroup(p *render.Page, g *carillonv1.OverlapGroup) {
	p.Fields(
		[2]string{"overlap key", g.GetOverlapKey()},
		[2]string{"owner", g.GetUserId()},
		[2]string{"workflow", g.GetWorkflowId()},
		[2]string{"status", g.GetStatus()},
		[2]string{"issue", g.GetIssue()},
	)
	rows := make([][]string, len(g.GetSchedules()))
	for i, s := range g.GetSchedules() {
		next := p.When(s.GetNextRunAt())
		if s.GetPaused() {
			next = "paused"
		}
		rows[i] = []string{s.GetScheduleId(), s.GetWords(), s.GetOverlapPolicy(), next}
	}
	p.Line("")
	p.List([]string{"schedule", "rule", "overlap", "next run"}, rows, "")
	runs := make([][]string, 0, len(g.GetRunning())+len(g.GetWaiting()))
	for _, r := range g.GetRunning() {
		runs = append(runs, []string{r.GetIdempotencyKey(), r.GetScheduleId(), p.When(r.GetRunAt()), r.GetStatus(), ""})
	}
	for _, w := range g.GetWaiting() {
		r := w.GetRun()
		runs = append(runs, []string{r.GetIdempotencyKey(), r.GetScheduleId(), p.When(r.GetRunAt()), "waits", w.GetWhy()})
	}
	if len(runs) > 0 {
		p.Line("")
		p.List([]string{"open run", "schedule", "run at", "status", "why"}, runs, "")
	}
	if len(g.GetRecent()) == 0 {
		return
	}
	recent := make([][]string, len(g.GetRecent()))
	for i, a := range g.GetRecent() {
		recent[i] = []string{a.GetIdempotencyKey(), a.GetScheduleId(), p.When(a.GetRunAt()), outcome(a), p.When(a.GetCompletedAt())}
	}
	p.Line("")
	p.List([]string{"ended run", "schedule", "run at", "status", "ended"}, recent, "")
}

func outcome(a *carillonv1.OverlapActivity) string {
	if reason := strings.TrimSuffix(a.GetReason()+": "+a.GetErrorCode(), ": "); reason != "" {
		return a.GetStatus() + " (" + reason + ")"
	}
	return a.GetStatus()
}

func newRunCommand(o *client.Client) *cobra.Command {
	req := &carillonv1.RunOverlapGroupRequest{}
	cmd := &cobra.Command{
		Use:   "run KEY",
		Short: "Start one run of each schedule of a group, one after the other",
		Long: "Starts one manual run of each schedule of the group that has a time rule and is not paused. They run one after the\n" +
			"other. It is refused while a run of the group is in flight or waits. The next slots stay as they are.",
		Example: "  carillon overlap run email-to-sheet --user ada",
		Args:    command.ExactArgs("KEY"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.OverlapKey = args[0]
			return client.ShowAnswer(ctx, o, l, l.Overlaps().RunOverlapGroup, req, func(p *render.Page, resp *carillonv1.RunOverlapGroupResponse) {
				if resp.GetRepeated() {
					p.Line("requested before:")
				}
				for _, r := range resp.GetRuns() {
					p.Line("%s: run %s", r.GetScheduleId(), r.GetIdempotencyKey())
				}
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&req.UserId, "user", "", "`ID` of the owner")
	f.StringVar(&req.RequestId, "request-id", "", "`ID` of the request: the same one again starts nothing (default: a random one)")
	return cmd
}
