package limit

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

// NewCommand is limit with its subcommands.
func NewCommand(c *command.CLI) *cobra.Command {
	cmd := command.Group("limit", "Create, show, change and delete limits that queues and runs share")
	cmd.Aliases = []string{"limits"}
	cmd.Long = "A limit bounds the runs in flight, or the starts per time, of all queues and runs that name it. A keyed limit\n" +
		"does so for each key, such as each customer. An ordered one lets the runs of a key go one after the other, each\n" +
		"with all its attempts. Queues and runs name it with --limit ID or --limit ID=KEY."
	o := client.New(c)
	o.Flags(cmd)
	cmd.AddCommand(
		o.CompleteArg(newUpsertCommand(o), client.LimitIDs), o.CompleteArg(o.WithWatch(newGetCommand(o)), client.LimitIDs), o.WithWatch(newListCommand(o)),
		o.CompleteArg(newSetKeyCommand(o), client.LimitIDs), o.CompleteArg(newDeleteCommand(o), client.LimitIDs),
	)
	return o.CompleteFlags(cmd)
}

func newUpsertCommand(o *client.Client) *cobra.Command {
	req := &carillonv1.UpsertLimitRequest{}
	cmd := &cobra.Command{
		Use:   "upsert ID",
		Short: "Create a limit, or replace its whole definition",
		Long: "Creates a limit or replaces its whole definition. Unset flags take their defaults. The numbers of its keys, and\n" +
			"the runs in flight, stay. The same definition again changes nothing. --max or --rate is required.",
		Example: "  carillon limit upsert gpu --user ada --max 1\n" +
			"  carillon limit upsert customer --user ops --shared --keyed --max 3\n" +
			"  carillon limit upsert account --user ops --ordered\n" +
			"  carillon limit upsert mail-api --user ops --rate 10/1s --burst 2",
		Args: command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.LimitId, req.Keyed = args[0], req.GetKeyed() || req.GetOrdered()
			resp, err := client.Call(ctx, l, l.Limits().UpsertLimit, req)
			if err == nil {
				err = warn(o, resp.GetWarning())
			}
			if err != nil {
				return err
			}
			return o.Show(resp, func(p *render.Page) {
				p.Line("%s: revision %d, %s", resp.GetLimit().GetLimitId(), resp.GetLimit().GetRevision(), bounds(resp.GetLimit()))
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&req.UserId, "user", "", "`ID` of the owner")
	f.BoolVar(&req.Shared, "shared", false, "let runs of other owners use it")
	f.BoolVar(&req.Keyed, "keyed", false, "count for each key, such as each customer")
	f.BoolVar(&req.Ordered, "ordered", false, "let the runs of a key go one after the other, each with all its attempts; implies --keyed and --max 1")
	f.Func("max", "`NUMBER` of runs that use it at the same time, 1 to 10000 (default: any)", command.Uint32(&req.MaxInFlight))
	command.RateFlags(cmd, &req.Rate)
	f.StringVar(&req.Note, "note", "", "what it is for")
	return cmd
}

// warn prints a warning of a successful call.
func warn(o *client.Client, text string) error {
	if text == "" {
		return nil
	}
	_, err := fmt.Fprintln(o.ErrOut, "warning:", text)
	return err
}

// numbers are the bounds of a limit or of one of its keys.
type numbers interface {
	GetMaxInFlight() uint32
	GetRate() *carillonv1.Rate
}

func bounds(n numbers) string {
	var parts []string
	if most := maxInFlight(n); most != "" {
		parts = append(parts, "at most "+most+" in flight")
	}
	if rate := render.Rate(n.GetRate()); rate != "" {
		parts = append(parts, "starts "+rate)
	}
	text := strings.Join(parts, ", ")
	if l, ok := n.(*carillonv1.Limit); ok && l.GetKeyed() {
		text += " for each key"
		if l.GetOrdered() {
			text += ", ordered"
		}
	}
	return text
}

// maxInFlight is "" if it is not set.
func maxInFlight(n numbers) string {
	switch n := n.(type) {
	case *carillonv1.Limit:
		if n.MaxInFlight == nil {
			return ""
		}
	case *carillonv1.LimitKey:
		if n.MaxInFlight == nil {
			return ""
		}
	}
	return fmt.Sprint(n.GetMaxInFlight())
}

// used is how many runs in flight there are, of how many: "3 of 4". Over several keys there is no
// one maximum.
func used(l *carillonv1.Limit) string {
	if l.MaxInFlight == nil || l.GetKeyed() {
		return fmt.Sprint(l.GetUsed())
	}
	return fmt.Sprintf("%d of %d", l.GetUsed(), l.GetMaxInFlight())
}

func newGetCommand(o *client.Client) *cobra.Command {
	limit := client.DefaultLimit
	cmd := &cobra.Command{
		Use:     "get ID",
		Short:   "Show a limit with its keys and the runs that use it",
		Example: "  carillon limit get customer",
		Args:    command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			var first *carillonv1.GetLimitResponse
			keys, next, err := client.Pages(limit, func(size uint32, token string) ([]*carillonv1.LimitKey, string, error) {
				resp, err := client.Call(ctx, l, l.Limits().GetLimit, &carillonv1.GetLimitRequest{LimitId: args[0], PageSize: size, PageToken: token})
				if first == nil {
					first = resp
				}
				return resp.GetKeys(), resp.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			first.Keys, first.NextPageToken = keys, next
			return o.Show(first, func(p *render.Page) { writeLimit(p, first) })
		}),
	}
	client.LimitFlag(cmd, &limit)
	return cmd
}

func writeLimit(p *render.Page, resp *carillonv1.GetLimitResponse) {
	l := resp.GetLimit()
	most, shared, perKey := maxInFlight(l), "", ""
	if most == "" {
		most = "any number"
	}
	if l.GetKeyed() {
		perKey = "counts for each key"
		if l.GetOrdered() {
			perKey += "; the runs of a key go one after the other, each with all its attempts"
		}
	}
	if l.GetShared() {
		shared = "with all owners"
	}
	p.Fields(
		[2]string{"limit", l.GetLimitId()},
		[2]string{"used", fmt.Sprint(l.GetUsed())},
		[2]string{"max in flight", most},
		[2]string{"rate", render.Rate(l.GetRate())},
		[2]string{"keyed", perKey},
		[2]string{"owner", l.GetUserId()},
		[2]string{"shared", shared},
		[2]string{"note", l.GetNote()},
		[2]string{"revision", fmt.Sprint(l.GetRevision())},
		[2]string{"created", p.When(l.GetCreatedAt())},
		[2]string{"updated", p.When(l.GetUpdatedAt())},
	)
	if len(resp.GetKeys()) > 0 || resp.GetNextPageToken() != "" {
		rows := make([][]string, len(resp.GetKeys()))
		for i, k := range resp.GetKeys() {
			rows[i] = []string{k.GetKey(), fmt.Sprint(k.GetUsed()), maxInFlight(k), render.Rate(k.GetRate()), p.When(k.GetUntil()), k.GetNote()}
		}
		p.Line("")
		p.List([]string{"own numbers of", "used", "max", "rate", "until", "note"}, rows, resp.GetNextPageToken())
	}
	if l.GetKeyed() && len(resp.GetUses()) > 0 {
		rows := make([][]string, len(resp.GetUses()))
		for i, u := range resp.GetUses() {
			rows[i] = []string{u.GetKey(), fmt.Sprint(u.GetUsed())}
		}
		p.Line("")
		p.Table([]string{"most used keys", "used"}, rows)
	}
	writeUsers(p, resp)
}

func writeUsers(p *render.Page, resp *carillonv1.GetLimitResponse) {
	if len(resp.GetUsers()) > 0 {
		rows := make([][]string, len(resp.GetUsers()))
		for i, u := range resp.GetUsers() {
			rows[i] = []string{p.RunKey(u.GetIdempotencyKey(), u.GetQueueId()), u.GetKey(), u.GetQueueId(), u.GetWorkflowId(), u.GetUserId(), u.GetStatus(), dispatched(p, u)}
		}
		p.Line("")
		p.Table([]string{"used by", "limit key", "queue", "workflow", "owner", "status", "dispatched"}, rows)
	}
	if n := resp.GetMoreUsers(); n > 0 {
		p.Line("")
		p.Line("and %s more", render.Count(int(n), "run"))
	}
}

// dispatched is when a run was admitted. A retry that waits keeps the limit.
func dispatched(p *render.Page, u *carillonv1.LimitUser) string {
	if u.GetKept() && u.GetDispatchedAt() == nil {
		return "waits to be tried again"
	}
	return p.When(u.GetDispatchedAt())
}

func newListCommand(o *client.Client) *cobra.Command {
	limit := client.DefaultLimit
	filter := &carillonv1.ListLimitsRequest{}
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List limits, ordered by id",
		Example: "  carillon limit list",
		Args:    command.ExactArgs(),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, _ []string) error {
			found, next, err := client.Pages(limit, func(size uint32, token string) ([]*carillonv1.Limit, string, error) {
				filter.PageSize, filter.PageToken = size, token
				resp, err := client.Call(ctx, l, l.Limits().ListLimits, filter)
				return resp.GetLimits(), resp.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return o.Show(&carillonv1.ListLimitsResponse{Limits: found, NextPageToken: next}, func(p *render.Page) {
				rows := make([][]string, len(found))
				for i, l := range found {
					rows[i] = p.WideCells([]string{l.GetLimitId(), l.GetUserId(), used(l), bounds(l)}, l.GetNote(), p.When(l.GetUpdatedAt()))
				}
				p.List(p.WideCells([]string{"limit", "owner", "used", "allows"}, "note", "updated"), rows, next)
			})
		}),
	}
	cmd.Flags().StringVar(&filter.UserId, "user", "", "only of this owner `ID`, and shared ones")
	client.LimitFlag(cmd, &limit)
	return cmd
}

func newSetKeyCommand(o *client.Client) *cobra.Command {
	req := &carillonv1.SetLimitKeyRequest{}
	cmd := &cobra.Command{
		Use:   "set-key ID KEY",
		Short: "Give one key of a limit its own numbers, or take them away",
		Long: "Gives one key of a keyed limit its own numbers. --max 0 stops its runs; those in flight go on. Without --max and\n" +
			"--rate the key has the numbers of the limit again.",
		Example: "  carillon limit set-key customer a7 --max 10\n" +
			"  carillon limit set-key customer a7 --max 0 --note unpaid --until 24h\n" +
			"  carillon limit set-key customer a7",
		Args: command.ExactArgs("ID", "KEY"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.LimitId, req.Key = args[0], args[1]
			resp, err := client.Call(ctx, l, l.Limits().SetLimitKey, req)
			if err == nil {
				err = warn(o, resp.GetWarning())
			}
			if err != nil {
				return err
			}
			return o.Show(resp, func(p *render.Page) {
				text := bounds(resp.GetKey())
				if text == "" {
					text = "the numbers of the limit"
				}
				if resp.GetKey().GetUntil() != nil {
					text += ", until " + p.When(resp.GetKey().GetUntil())
				}
				p.Line("%s=%s: %s; %d in flight now", args[0], args[1], text, resp.GetKey().GetUsed())
			})
		}),
	}
	f := cmd.Flags()
	f.Func("max", "`NUMBER` of runs of the key at the same time, 0 to 10000 (default: that of the limit)", command.Uint32(&req.MaxInFlight))
	command.RateFlags(cmd, &req.Rate)
	f.StringVar(&req.Note, "note", "", "why, for the next reader")
	f.Func("until", "end of the numbers: a `TIME` (RFC 3339), or a duration such as 2h", o.TimeFromNow(&req.Until, 1))
	return cmd
}

func newDeleteCommand(o *client.Client) *cobra.Command {
	return &cobra.Command{
		Use:     "delete ID",
		Short:   "Delete a limit that no queue names and no run in flight uses",
		Example: "  carillon limit delete gpu",
		Args:    command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			return client.ShowAnswer(ctx, o, l, l.Limits().DeleteLimit, &carillonv1.DeleteLimitRequest{LimitId: args[0]},
				func(p *render.Page, _ *carillonv1.DeleteLimitResponse) { p.Line("%s deleted", args[0]) })
		}),
	}
}
