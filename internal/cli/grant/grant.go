package grant

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func NewCommand(c *command.CLI) *cobra.Command {
	cmd := command.Group("grant", "Create, show and revoke execution grants: permissions to run on a billing account")
	cmd.Aliases = []string{"grants"}
	o := client.New(c)
	o.Flags(cmd)
	cmd.AddCommand(newCreateCommand(o), o.CompleteArg(o.WithWatch(newGetCommand(o)), client.GrantIDs), o.WithWatch(newListCommand(o)),
		o.CompleteArg(newRevokeCommand(o), client.GrantIDs))
	return o.CompleteFlags(cmd)
}

func newCreateCommand(o *client.Client) *cobra.Command {
	req := &carillonv1.CreateGrantRequest{}
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Permit an owner's schedules to run workflows on a billing account",
		Long: "A grant never changes; it can only be revoked. --scope says what may run:\n" +
			"graph:execute:WORKFLOW_ID, graph:execute:PREFIX:* for ids that begin with PREFIX and a colon, or\n" +
			"graph:execute:* for everything, which needs --allow-all-workflows.",
		Example: "  carillon grant create --id ada-reports --user ada --account acme --scope 'graph:execute:report'\n" +
			"  carillon grant create --user ada --account acme --scope 'graph:execute:langgraph:*' --expires 90d",
		Args: command.ExactArgs(),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, _ []string) error {
			return client.ShowAnswer(ctx, o, l, l.Grants().CreateGrant, req,
				func(p *render.Page, resp *carillonv1.CreateGrantResponse) { writeGrant(p, resp.GetGrant()) })
		}),
	}
	f := cmd.Flags()
	f.StringVar(&req.GrantId, "id", "", "`ID` of the grant (default: a new one)")
	f.StringVar(&req.UserId, "user", "", "`ID` of the owner; its schedules may name the grant")
	f.StringVar(&req.BillingAccountId, "account", "", "`ID` of the billing account that pays")
	f.StringArrayVar(&req.Scopes, "scope", nil, "`SCOPE` to permit; may be repeated")
	f.BoolVar(&req.AllowAllWorkflows, "allow-all-workflows", false, "consent to the scope graph:execute:*")
	f.Func("expires", "end of the grant: a `TIME` (RFC 3339), or a duration such as 90d (default: none)", o.TimeFromNow(&req.ExpiresAt, 1))
	f.StringVar(&req.RequestId, "request-id", "", "`ID` that makes a repeat safe without --id")
	return cmd
}

func newGetCommand(o *client.Client) *cobra.Command {
	req := &carillonv1.GetGrantRequest{}
	cmd := &cobra.Command{
		Use:     "get ID",
		Short:   "Show a grant",
		Example: "  carillon grant get ada-reports",
		Args:    command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.GrantId = args[0]
			return client.ShowAnswer(ctx, o, l, l.Grants().GetGrant, req,
				func(p *render.Page, resp *carillonv1.GetGrantResponse) { writeGrant(p, resp.GetGrant()) })
		}),
	}
	ownerFlag(cmd, &req.UserId)
	return cmd
}

func ownerFlag(cmd *cobra.Command, userID *string) {
	cmd.Flags().StringVar(userID, "user", "", "`ID` of the owner, if several owners have a grant with this id")
}

func newListCommand(o *client.Client) *cobra.Command {
	limit := client.DefaultLimit
	filter := &carillonv1.ListGrantsRequest{}
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List grants, ordered by id",
		Example: "  carillon grant list --user ada --state active",
		Args:    command.ExactArgs(),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, _ []string) error {
			found, next, err := client.Pages(limit, func(size uint32, token string) ([]*carillonv1.Grant, string, error) {
				filter.PageSize, filter.PageToken = size, token
				resp, err := client.Call(ctx, l, l.Grants().ListGrants, filter)
				return resp.GetGrants(), resp.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return o.Show(&carillonv1.ListGrantsResponse{Grants: found, NextPageToken: next}, func(p *render.Page) {
				rows := make([][]string, len(found))
				for i, g := range found {
					rows[i] = p.WideCells([]string{
						g.GetGrantId(), g.GetUserId(), g.GetBillingAccountId(), strings.Join(g.GetScopes(), " "),
						g.GetState(), p.When(g.GetExpiresAt()),
					}, p.When(g.GetCreatedAt()), g.GetCreatedBy(), p.When(g.GetRevokedAt()), g.GetRevokedBy(), g.GetRevokeNote())
				}
				p.List(p.WideCells([]string{"grant", "owner", "account", "scopes", "state", "expires"},
					"created", "created by", "revoked", "revoked by", "revoke note"), rows, next)
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&filter.UserId, "user", "", "only of this owner `ID`")
	f.StringVar(&filter.BillingAccountId, "account", "", "only of this billing account `ID`")
	f.Func("state", "only in this `STATE`: active, expired or revoked", command.Text(&filter.State))
	client.LimitFlag(cmd, &limit)
	command.CompleteValues(cmd, "state", []string{"active", "expired", "revoked"})
	return cmd
}

func newRevokeCommand(o *client.Client) *cobra.Command {
	req := &carillonv1.RevokeGrantRequest{}
	cmd := &cobra.Command{
		Use:   "revoke ID",
		Short: "Revoke a grant permanently",
		Long: "Within a second nothing more is launched on the grant. Schedules that name it stay:\n" +
			"their runs are SKIPPED (grant_revoked) until they name another. Runs in flight continue; see run cancel.",
		Example: "  carillon grant revoke ada-reports --note 'ada has left'",
		Args:    command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.GrantId = args[0]
			return client.ShowAnswer(ctx, o, l, l.Grants().RevokeGrant, req, func(p *render.Page, resp *carillonv1.RevokeGrantResponse) {
				p.Line("%s revoked %s", args[0], p.When(resp.GetGrant().GetRevokedAt()))
			})
		}),
	}
	ownerFlag(cmd, &req.UserId)
	cmd.Flags().StringVar(&req.Note, "note", "", "why, for the next reader")
	return cmd
}

// writeGrant writes one grant.
func writeGrant(p *render.Page, g *carillonv1.Grant) {
	p.Fields(
		[2]string{"grant", g.GetGrantId()},
		[2]string{"owner", g.GetUserId()},
		[2]string{"account", g.GetBillingAccountId()},
		[2]string{"scopes", strings.Join(g.GetScopes(), " ")},
		[2]string{"state", g.GetState()},
		[2]string{"expires", p.When(g.GetExpiresAt())},
		[2]string{"revoked", p.When(g.GetRevokedAt())},
		[2]string{"revoked by", g.GetRevokedBy()},
		[2]string{"revoke note", g.GetRevokeNote()},
		[2]string{"created", p.When(g.GetCreatedAt())},
		[2]string{"created by", g.GetCreatedBy()},
	)
}
