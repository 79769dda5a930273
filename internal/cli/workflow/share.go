package workflow

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// shareFlags name the owners that a workflow is shared with.
type shareFlags struct {
	user string
	all  bool
}

func (s *shareFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.user, "user", "", "`ID` of the owner")
	cmd.Flags().BoolVar(&s.all, "all-owners", false, "every owner, including future ones")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case s.user == "" && !s.all:
			return command.Usage(cmd, "--user or --all-owners is required")
		case s.user != "" && s.all:
			return command.Usage(cmd, "--user and --all-owners exclude each other")
		}
		return nil
	}
}

func newShareCommand(o *client.Client) *cobra.Command {
	with := &shareFlags{}
	cmd := &cobra.Command{
		Use:   "share WORKFLOW --user USER | --all-owners",
		Short: "Let an owner run the workflow versions that are stored for all owners",
		Long: "An owner can run and read its own versions. A version stored for all owners can be run and read only if the\n" +
			"workflow is shared with the owner: by this command, or by creating a schedule of that owner that runs it.",
		Example: "  carillon workflow share report --user ada\n  carillon workflow share report --all-owners",
		Args:    command.ExactArgs("WORKFLOW"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			resp, err := client.Call(ctx, l, l.Workflows().ShareWorkflow,
				&carillonv1.ShareWorkflowRequest{WorkflowId: args[0], UserId: with.user, AllOwners: with.all})
			if err != nil {
				return err
			}
			return o.Show(resp, func(p *render.Page) { p.Line("%s is shared with %s", args[0], ownerName(with.user)) })
		}),
	}
	with.flags(cmd)
	return cmd
}

func newUnshareCommand(o *client.Client) *cobra.Command {
	with := &shareFlags{}
	cmd := &cobra.Command{
		Use:   "unshare WORKFLOW --user USER | --all-owners",
		Short: "Stop sharing a workflow",
		Long: "Runs that launch more than a second later fail with workflow_not_found. Schedules do not change, and an\n" +
			"owner's own versions still run.",
		Example: "  carillon workflow unshare report --user ada",
		Args:    command.ExactArgs("WORKFLOW"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			resp, err := client.Call(ctx, l, l.Workflows().UnshareWorkflow,
				&carillonv1.UnshareWorkflowRequest{WorkflowId: args[0], UserId: with.user, AllOwners: with.all})
			if err != nil {
				return err
			}
			return o.Show(resp, func(p *render.Page) {
				p.Line("%s is no longer shared with %s", args[0], ownerName(with.user))
				if resp.GetSharedWithAllOwners() {
					p.Line("it is still shared with all owners, including %s: see carillon workflow unshare %s --all-owners", with.user, args[0])
				}
			})
		}),
	}
	with.flags(cmd)
	return cmd
}

func newSharesCommand(o *client.Client) *cobra.Command {
	limit := client.DefaultLimit
	cmd := &cobra.Command{
		Use:     "shares WORKFLOW",
		Short:   "List the owners that a workflow is shared with",
		Example: "  carillon workflow shares report",
		Args:    command.ExactArgs("WORKFLOW"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			found, next, err := client.Pages(limit, func(size uint32, token string) ([]*carillonv1.WorkflowShare, string, error) {
				resp, err := client.Call(ctx, l, l.Workflows().ListWorkflowShares,
					&carillonv1.ListWorkflowSharesRequest{WorkflowId: args[0], PageSize: size, PageToken: token})
				return resp.GetShares(), resp.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return o.Show(&carillonv1.ListWorkflowSharesResponse{Shares: found, NextPageToken: next}, func(p *render.Page) {
				rows := make([][]string, len(found))
				for i, s := range found {
					rows[i] = []string{s.GetWorkflowId(), ownerName(s.GetUserId()), s.GetGivenBy(), p.When(s.GetGivenAt())}
				}
				p.List([]string{"workflow", "shared with", "by", "since"}, rows, next)
			})
		}),
	}
	client.LimitFlag(cmd, &limit)
	return cmd
}
