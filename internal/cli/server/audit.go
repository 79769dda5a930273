package server

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func NewAuditCommand(c *command.CLI) *cobra.Command {
	cmd := command.Group("audit", "Show who changed what")
	o := client.New(c)
	o.Flags(cmd)
	cmd.AddCommand(o.WithWatch(newAuditListCommand(o)))
	return cmd
}

func newAuditListCommand(o *client.Client) *cobra.Command {
	limit := client.DefaultLimit
	req := &carillonv1.ListAuditRequest{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List changing and refused calls, newest first",
		Long: "Lists calls that changed something, one line per changed schedule, and refused calls of known callers.\n" +
			"Equal refusals within one minute share a line; COUNT is their number. For operators.",
		Example: "  carillon audit list --target nightly\n  carillon audit list --subject ada --method PauseSchedule --limit 10",
		Args:    command.ExactArgs(),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, _ []string) error {
			found, next, err := client.Pages(limit, func(size uint32, token string) ([]*carillonv1.AuditEntry, string, error) {
				req.PageSize, req.PageToken = size, token
				resp, err := client.Call(ctx, l, l.Audit().ListAudit, req)
				return resp.GetEntries(), resp.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return o.Show(&carillonv1.ListAuditResponse{Entries: found, NextPageToken: next}, func(p *render.Page) {
				rows := make([][]string, len(found))
				for i, e := range found {
					rows[i] = p.WideCells([]string{p.When(e.GetTime()), e.GetSubject(), e.GetVia(), e.GetMethod(), targets(e), revisions(e), e.GetCode(), fmt.Sprint(max(e.GetCount(), 1)), e.GetRequestId()},
						e.GetUserId())
				}
				p.List(p.WideCells([]string{"time", "subject", "via", "call", "target", "revision", "code", "count", "request"}, "owner"), rows, next)
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&req.Subject, "subject", "", "only calls of this `NAME`")
	f.StringVar(&req.Target, "target", "", "only calls about this `ID`")
	f.StringVar(&req.Method, "method", "", "only this `CALL`, such as PauseSchedule")
	f.Func("since", "from this `TIME` (RFC 3339), or a duration back such as 2h or 7d", o.TimeFromNow(&req.From, -1))
	f.Func("until", "before this `TIME` (RFC 3339), or a duration back", o.TimeFromNow(&req.To, -1))
	client.LimitFlag(cmd, &limit)
	return cmd
}

// targets are the objects of the calls of a line.
func targets(e *carillonv1.AuditEntry) string {
	if e.GetOtherTargets() {
		return e.GetTarget() + " and others"
	}
	return e.GetTarget()
}

// revisions is the revision of a schedule before and after a call: 3 → 4.
func revisions(e *carillonv1.AuditEntry) string {
	switch before, after := e.GetRevisionBefore(), e.GetRevisionAfter(); {
	case after == 0:
		return ""
	case before == after:
		return fmt.Sprint(after)
	default:
		return fmt.Sprintf("%d → %d", before, after)
	}
}
