package workflow

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func NewCommand(c *command.CLI) *cobra.Command {
	cmd := command.Group("workflow", "Store workflow versions, deploy them with their schedules")
	cmd.Aliases = []string{"workflows"}
	o := client.New(c)
	o.Flags(cmd)
	cmd.AddCommand(newPutCommand(o), o.CompleteArg(o.WithWatch(newGetCommand(o)), client.WorkflowIDs),
		o.CompleteArg(o.WithWatch(newListCommand(o)), client.WorkflowIDs), newDeployCommand(o),
		o.CompleteArg(newShareCommand(o), client.WorkflowIDs), o.CompleteArg(newUnshareCommand(o), client.WorkflowIDs),
		o.CompleteArg(o.WithWatch(newSharesCommand(o)), client.WorkflowIDs))
	return o.CompleteFlags(cmd)
}

// parseVersion parses the argument VERSION.
func parseVersion(argument string) (int32, error) {
	n, err := strconv.ParseInt(argument, 10, 32)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("the version %q is not a whole number from 1 up", argument)
	}
	return int32(n), nil
}

func newPutCommand(o *client.Client) *cobra.Command {
	var file, user string
	cmd := &cobra.Command{
		Use:   "put WORKFLOW VERSION -f FILE",
		Short: "Store the DAG of a workflow version; a version never changes",
		Long: "Without --user, a user's token stores the version for that user. Any other caller stores it for all owners,\n" +
			"but only owners that the workflow is shared with may run it: see `carillon workflow share`.",
		Example: "  carillon workflow put report 3 -f report.json\n  carillon workflow put report 3 -f report.json --user ada",
		Args:    command.ExactArgs("WORKFLOW", "VERSION"),
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return command.Usage(cmd, "-f FILE is required: the DAG as JSON; -f - reads standard input")
			}
			return checkVersion(cmd, args)
		},
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			version, err := parseVersion(args[1])
			if err != nil {
				return err
			}
			dag, err := o.ReadFile(file)
			if err != nil {
				return err
			}
			resp, err := client.Call(ctx, l, l.Workflows().PutWorkflowVersion,
				&carillonv1.PutWorkflowVersionRequest{WorkflowId: args[0], Version: version, UserId: user, Dag: dag})
			if err != nil {
				return err
			}
			return o.Show(resp, func(p *render.Page) {
				w := resp.GetWorkflowVersion()
				p.Line("%s version %d is stored for %s (sha256 %s)", w.GetWorkflowId(), w.GetVersion(), ownerName(w.GetUserId()), render.ShortKey(w.GetSha256()))
			})
		}),
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "`FILE` with the DAG as JSON; - is standard input")
	cmd.Flags().StringVar(&user, "user", "", "`ID` of the owner to store it for (default: see above)")
	return cmd
}

// ownerName is the owner of a version or share; "" means all owners.
func ownerName(userID string) string {
	if userID == "" {
		return "all owners"
	}
	return userID
}

func userFlag(cmd *cobra.Command, user *string) {
	cmd.Flags().StringVar(user, "user", "", "only versions that runs of this owner `ID` load")
}

// checkVersion makes an invalid VERSION a usage error.
func checkVersion(cmd *cobra.Command, args []string) error {
	if len(args) < 2 {
		return nil
	}
	if _, err := parseVersion(args[1]); err != nil {
		return command.Usage(cmd, "%w", err)
	}
	return nil
}

func newGetCommand(o *client.Client) *cobra.Command {
	var dagOnly bool
	var user string
	cmd := &cobra.Command{
		Use:     "get WORKFLOW [VERSION]",
		Short:   "Show a workflow version with its DAG; without VERSION, list the versions",
		Example: "  carillon workflow get report\n  carillon workflow get report 3 --dag > report.json",
		Args:    command.Args([]string{"WORKFLOW"}, 1),
		PreRunE: checkVersion,
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			if len(args) == 1 {
				return showVersions(ctx, o, l, args[0], user, client.DefaultLimit)
			}
			version, err := parseVersion(args[1])
			if err != nil {
				return err
			}
			resp, err := client.Call(ctx, l, l.Workflows().GetWorkflowVersion,
				&carillonv1.GetWorkflowVersionRequest{WorkflowId: args[0], Version: version, UserId: user})
			if err != nil {
				return err
			}
			w := resp.GetWorkflowVersion()
			if dagOnly {
				_, err := o.Out.Write(w.GetDag())
				return err
			}
			return o.Show(resp, func(p *render.Page) {
				p.Fields(
					[2]string{"workflow", w.GetWorkflowId()},
					[2]string{"version", fmt.Sprint(w.GetVersion())},
					[2]string{"owner", ownerName(w.GetUserId())},
					[2]string{"stored", p.When(w.GetCreatedAt())},
					[2]string{"sha256", w.GetSha256()},
				)
				p.Line("\n%s", w.GetDag())
			})
		}),
	}
	cmd.Flags().BoolVar(&dagOnly, "dag", false, "only the DAG, byte for byte as it was stored")
	userFlag(cmd, &user)
	return cmd
}

func newListCommand(o *client.Client) *cobra.Command {
	limit := client.DefaultLimit
	var user string
	cmd := &cobra.Command{
		Use:     "list WORKFLOW",
		Short:   "List the versions of a workflow, newest first",
		Example: "  carillon workflow list report",
		Args:    command.ExactArgs("WORKFLOW"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			return showVersions(ctx, o, l, args[0], user, limit)
		}),
	}
	client.LimitFlag(cmd, &limit)
	userFlag(cmd, &user)
	return cmd
}

func showVersions(ctx context.Context, c *client.Client, l *client.Link, workflow, user string, limit int) error {
	found, next, err := client.Pages(limit, func(size uint32, token string) ([]*carillonv1.WorkflowVersion, string, error) {
		resp, err := client.Call(ctx, l, l.Workflows().ListWorkflowVersions,
			&carillonv1.ListWorkflowVersionsRequest{WorkflowId: workflow, UserId: user, PageSize: size, PageToken: token})
		return resp.GetWorkflowVersions(), resp.GetNextPageToken(), err
	})
	if err != nil {
		return err
	}
	if len(found) == 0 { // a workflow without versions does not exist
		return &client.CallError{Code: codes.NotFound, Err: fmt.Errorf("workflow %q has no versions", workflow)}
	}
	return c.Show(&carillonv1.ListWorkflowVersionsResponse{WorkflowVersions: found, NextPageToken: next}, func(p *render.Page) {
		rows := make([][]string, len(found))
		for i, w := range found {
			rows[i] = []string{w.GetWorkflowId(), fmt.Sprint(w.GetVersion()), ownerName(w.GetUserId()), p.When(w.GetCreatedAt()), p.Key(w.GetSha256())}
		}
		p.List([]string{"workflow", "version", "owner", "stored", "sha256"}, rows, next)
	})
}
