package group

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/rawjson"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// NewCommand is group with its subcommands.
func NewCommand(c *command.CLI) *cobra.Command {
	cmd := command.Group("group", "Create, fill, show, cancel and retry groups of runs")
	cmd.Aliases = []string{"groups"}
	cmd.Long = "A group has runs of one queue and ends with the last of them: then one message is sent, and one run enters the\n" +
		"queue, if the group names them. The members of a sequential group start one after the other."
	o := client.New(c)
	o.Flags(cmd)
	cmd.AddCommand(
		o.CompleteArg(newCreateCommand(o), client.GroupIDs), o.CompleteArg(newAddCommand(o), client.GroupIDs), o.CompleteArg(newSealCommand(o), client.GroupIDs),
		o.CompleteArg(o.WithWatch(newGetCommand(o)), client.GroupIDs), o.WithWatch(newListCommand(o)), o.CompleteArg(newCancelCommand(o), client.GroupIDs),
		o.CompleteArg(newRetryCommand(o), client.GroupIDs),
	)
	return o.CompleteFlags(cmd)
}

func newCreateCommand(o *client.Client) *cobra.Command {
	var file, complete string
	req := &carillonv1.CreateGroupRequest{}
	cmd := &cobra.Command{
		Use:   "create ID",
		Short: "Create a group and put its first members into the queue",
		Long: "Creates a group. -f names a file with its first members, JSON values with the field names of the API, such as\n" +
			"JSON Lines: all of them enter the queue, or none. Without --sealed the group takes more members with `group add`,\n" +
			"and does not end before `group seal`. The same command again changes nothing.",
		Example: "  carillon group create night --queue gpu --sealed -f jobs.jsonl\n" +
			"  carillon group create steps --queue gpu --mode sequential --sealed -f steps.jsonl --webhook billing\n" +
			"  carillon group create import --queue gpu --user ada --on-complete @report.json",
		Args: command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) (err error) {
			req.GroupId = args[0]
			if req.Runs, err = runsOf(o, file); err != nil {
				return err
			}
			if complete != "" {
				raw, err := o.Content(complete)
				if err != nil {
					return err
				}
				req.OnComplete = &carillonv1.NewQueuedRun{}
				if err := rawjson.Unmarshal(raw, req.OnComplete); err != nil {
					return fmt.Errorf("--on-complete: %w", err)
				}
			}
			resp, err := client.Call(ctx, l, l.Groups().CreateGroup, req)
			if err != nil {
				return err
			}
			return o.Show(resp, func(p *render.Page) { writeAdded(p, resp.GetGroup(), resp.GetIdempotencyKeys(), resp.GetRepeated()) })
		}),
	}
	f := cmd.Flags()
	f.StringVar(&req.QueueId, "queue", "", "`ID` of the queue (default: default)")
	f.StringVar(&req.UserId, "user", "", "`ID` of the owner (default: that of the schedules, or of a queue that is not shared)")
	f.Func("mode", "`MODE`: parallel (default), or sequential", command.Text(&req.Mode))
	f.Func("on-failure", "`WHAT` to do once a member has failed for good: stop or continue (default: stop of sequential groups)", command.Text(&req.OnFailure))
	f.BoolVar(&req.Sealed, "sealed", false, "no member comes later")
	f.StringVarP(&file, "file", "f", "", "`FILE` with the runs as JSON values; - is standard input")
	f.StringVar(&complete, "on-complete", "", "the run that enters the queue at the end: `JSON`, or @FILE")
	f.StringVar(&req.Webhook, "webhook", "", "`NAME` of the target that is told of the end (default: the queue's)")
	command.CompleteValues(cmd, "mode", []schedule.GroupMode{schedule.GroupParallel, schedule.GroupSequential})
	command.CompleteValues(cmd, "on-failure", []schedule.GroupFailure{schedule.GroupStop, schedule.GroupContinue})
	return cmd
}

// runsOf are the runs in a file.
func runsOf(o *client.Client, file string) (runs []*carillonv1.NewQueuedRun, err error) {
	values, err := o.JSONValues(file)
	if err != nil {
		return nil, err
	}
	for i, value := range values {
		run := &carillonv1.NewQueuedRun{}
		if err := rawjson.Unmarshal(value, run); err != nil {
			return nil, fmt.Errorf("%s: value %d: %w", file, i+1, err)
		}
		runs = append(runs, run)
	}
	return runs, nil
}

func writeAdded(p *render.Page, g *carillonv1.Group, keys []string, repeated bool) {
	if repeated {
		p.Line("the request was made before; group %s is %s, %s", g.GetGroupId(), g.GetState(), progress(g))
		return
	}
	p.Line("%s: %s added in queue %s, %s", g.GetGroupId(), render.Count(len(keys), "run"), g.GetQueueId(), progress(g))
	for _, key := range keys {
		p.Line("%s", key)
	}
}

// progress is how many members are over, of how many.
func progress(g *carillonv1.Group) string {
	return fmt.Sprintf("%d of %s over", over(g), render.Count(int(g.GetMembers()), "member"))
}

func over(g *carillonv1.Group) uint32 {
	return g.GetSucceeded() + g.GetFailed() + g.GetSkipped() + g.GetCancelled()
}

func newAddCommand(o *client.Client) *cobra.Command {
	var file string
	req := &carillonv1.AddToGroupRequest{}
	cmd := &cobra.Command{
		Use:     "add ID",
		Short:   "Put more members of a group into its queue",
		Example: "  carillon group add import -f more.jsonl --request-id part-2",
		Args:    command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) (err error) {
			req.GroupId = args[0]
			if req.Runs, err = runsOf(o, file); err != nil {
				return err
			}
			resp, err := client.Call(ctx, l, l.Groups().AddToGroup, req)
			if err != nil {
				return err
			}
			return o.Show(resp, func(p *render.Page) { writeAdded(p, resp.GetGroup(), resp.GetIdempotencyKeys(), resp.GetRepeated()) })
		}),
	}
	f := cmd.Flags()
	f.StringVarP(&file, "file", "f", "", "`FILE` with the runs as JSON values; - is standard input")
	f.StringVar(&req.RequestId, "request-id", "", "`ID` that makes a repeat safe")
	return cmd
}

func newSealCommand(o *client.Client) *cobra.Command {
	return &cobra.Command{
		Use:     "seal ID",
		Short:   "Say that no member comes any more: the group ends with its last one",
		Example: "  carillon group seal import",
		Args:    command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			return client.ShowAnswer(ctx, o, l, l.Groups().SealGroup, &carillonv1.SealGroupRequest{GroupId: args[0]},
				func(p *render.Page, resp *carillonv1.SealGroupResponse) { writeState(p, resp.GetGroup()) })
		}),
	}
}

func writeState(p *render.Page, g *carillonv1.Group) {
	state := g.GetState()
	if state == string(schedule.GroupRunning) && g.GetCancelRequestedAt() != nil {
		state += ", cancel requested"
	}
	p.Line("%s: %s, %s", g.GetGroupId(), state, progress(g))
}

func newGetCommand(o *client.Client) *cobra.Command {
	return &cobra.Command{
		Use:     "get ID",
		Short:   "Show a group with its members counted",
		Long:    "Shows a group with its members counted. `carillon run list --group ID` lists the members.",
		Example: "  carillon group get night",
		Args:    command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			return client.ShowAnswer(ctx, o, l, l.Groups().GetGroup, &carillonv1.GetGroupRequest{GroupId: args[0]},
				func(p *render.Page, resp *carillonv1.GetGroupResponse) { writeGroup(p, resp.GetGroup()) })
		}),
	}
}

func writeGroup(p *render.Page, g *carillonv1.Group) {
	sealed, stopped := "no: it takes more members", ""
	if g.GetSealed() {
		sealed = "yes"
	} else if g.GetSealAt() != nil {
		sealed = "at " + p.When(g.GetSealAt())
	}
	if g.GetStopped() {
		stopped = "a member has failed: later ones are cancelled"
	}
	p.Fields(
		[2]string{"group", g.GetGroupId()},
		[2]string{"state", g.GetState()},
		[2]string{"queue", g.GetQueueId()},
		[2]string{"owner", g.GetUserId()},
		[2]string{"mode", g.GetMode()},
		[2]string{"on failure", g.GetOnFailure()},
		[2]string{"sealed", sealed},
		[2]string{"stopped", stopped},
		[2]string{"members", fmt.Sprint(g.GetMembers())},
		[2]string{"succeeded", fmt.Sprint(g.GetSucceeded())},
		[2]string{"failed", fmt.Sprint(g.GetFailed())},
		[2]string{"skipped", fmt.Sprint(g.GetSkipped())},
		[2]string{"cancelled", fmt.Sprint(g.GetCancelled())},
		[2]string{"webhook", g.GetWebhook()},
		[2]string{"on complete", g.GetOnCompleteWorkflowId()},
		[2]string{"follow-up run", g.GetOnCompleteKey()},
		[2]string{"retry of", g.GetRetryOf()},
		[2]string{"created", p.When(g.GetCreatedAt())},
		[2]string{"cancel requested", p.When(g.GetCancelRequestedAt())},
		[2]string{"ended", p.When(g.GetEndedAt())},
	)
}

func newListCommand(o *client.Client) *cobra.Command {
	limit := client.DefaultLimit
	filter := &carillonv1.ListGroupsRequest{}
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List groups, newest first",
		Example: "  carillon group list --queue gpu --state RUNNING",
		Args:    command.ExactArgs(),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, _ []string) error {
			found, next, err := client.Pages(limit, func(size uint32, token string) ([]*carillonv1.Group, string, error) {
				filter.PageSize, filter.PageToken = size, token
				resp, err := client.Call(ctx, l, l.Groups().ListGroups, filter)
				return resp.GetGroups(), resp.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return o.Show(&carillonv1.ListGroupsResponse{Groups: found, NextPageToken: next}, func(p *render.Page) {
				rows := make([][]string, len(found))
				for i, g := range found {
					rows[i] = p.WideCells([]string{
						g.GetGroupId(), g.GetState(), g.GetQueueId(), g.GetMode(), fmt.Sprintf("%d of %d", over(g), g.GetMembers()), fmt.Sprint(g.GetFailed()), p.When(g.GetCreatedAt()),
					}, g.GetUserId(), p.When(g.GetEndedAt()))
				}
				p.List(p.WideCells([]string{"group", "state", "queue", "mode", "over", "failed", "created"}, "owner", "ended"), rows, next)
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&filter.UserId, "user", "", "only of this owner `ID`")
	f.StringVar(&filter.QueueId, "queue", "", "only of this queue `ID`")
	f.StringVar(&filter.State, "state", "", "only in this `STATE`: RUNNING, COMPLETED, PARTIAL or CANCELLED")
	command.CompleteValues(cmd, "state", schedule.GroupStates)
	client.LimitFlag(cmd, &limit)
	return cmd
}

func newCancelCommand(o *client.Client) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel the members of a group",
		Long: "Cancels the members of a group. Those that wait end at once; the executor is asked to cancel the others, and the\n" +
			"group is CANCELLED once they have ended.",
		Example: "  carillon group cancel import",
		Args:    command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			return client.ShowAnswer(ctx, o, l, l.Groups().CancelGroup, &carillonv1.CancelGroupRequest{GroupId: args[0]},
				func(p *render.Page, resp *carillonv1.CancelGroupResponse) { writeState(p, resp.GetGroup()) })
		}),
	}
}

func newRetryCommand(o *client.Client) *cobra.Command {
	req := &carillonv1.RetryGroupRequest{}
	cmd := &cobra.Command{
		Use:   "retry ID NEW-ID",
		Short: "Make a new group of the members that have not succeeded",
		Long: "Makes a new, sealed group of the members of an ended group that have not succeeded, in their order. The old group\n" +
			"stays as it is. Each run has one attempt; --renew gives them automatic retries again.",
		Example: "  carillon group retry night night-2 --renew",
		Args:    command.ExactArgs("ID", "NEW-ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.GroupId, req.NewGroupId = args[0], args[1]
			resp, err := client.Call(ctx, l, l.Groups().RetryGroup, req)
			if err != nil {
				return err
			}
			return o.Show(resp, func(p *render.Page) { writeAdded(p, resp.GetGroup(), resp.GetIdempotencyKeys(), resp.GetRepeated()) })
		}),
	}
	cmd.Flags().BoolVar(&req.Renew, "renew", false, "give the runs automatic retries again")
	return cmd
}
