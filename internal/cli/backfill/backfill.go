package backfill

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func NewCommand(c *command.CLI) *cobra.Command {
	o := client.New(c)
	cmd := newStartCommand(o)
	o.Flags(cmd)
	cmd.AddCommand(o.WithWatch(newListCommand(o)), o.CompleteArg(o.WithWatch(newGetCommand(o)), ids),
		o.CompleteArg(newPauseCommand(o), ids), o.CompleteArg(newResumeCommand(o), ids), o.CompleteArg(newCancelCommand(o), ids))
	return o.CompleteArg(o.CompleteFlags(cmd), client.ScheduleIDs)
}

func newStartCommand(o *client.Client) *cobra.Command {
	req := &carillonv1.BackfillScheduleRequest{}
	var wait bool
	cmd := &cobra.Command{
		Use:     "backfill SCHEDULE",
		Aliases: []string{"backfills"},
		Short:   "Run a range of past slots, or run them again",
		Long: "Runs the slots of a schedule in a range of time, from --from until --to (exclusive): the missed slots, also the\n" +
			"failed ones, or all. The server works through them in the background at low priority, whether this command\n" +
			"waits or not. A paused schedule can be backfilled too. --dry-run shows how many slots would run.",
		Example: "  carillon backfill nightly --from 7d --dry-run\n" +
			"  carillon backfill nightly --from 2026-03-01T00:00:00Z --to 2026-03-08T00:00:00Z --reprocess failed --wait\n" +
			"  carillon backfill hourly --from 30d --reprocess all --overlap allow --concurrency 4 --rate 30 --note 'new model'",
		Args: command.ExactArgs("SCHEDULE"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.ScheduleId = args[0]
			resp, err := client.Call(ctx, l, l.Schedules().BackfillSchedule, req)
			if err != nil {
				return err
			}
			if wait && resp.GetBackfill() != nil {
				return waitAndShow(ctx, o, l, resp.GetBackfill())
			}
			err = o.Show(resp, func(p *render.Page) { writeRequested(p, resp, args[0]) })
			if err == nil && req.GetDryRun() && resp.GetCount() > 0 {
				return command.ErrDiffers
			}
			return err
		}),
	}
	f := cmd.Flags()
	f.Func("from", "start of the range: a `TIME` (RFC 3339), or a duration ago such as 7d", o.TimeFromNow(&req.From, -1))
	f.Func("to", "end of the range (exclusive): a `TIME` (RFC 3339), or a duration ago (default: now)", o.TimeFromNow(&req.To, -1))
	f.Func("reprocess", "`WHICH` slots: missed, failed (and missed) or all (default: missed)", command.Text(&req.Reprocess))
	f.Func("order", "`ORDER`: oldest_first or newest_first (default: oldest_first)", command.Text(&req.Order))
	f.Func("concurrency", "at most `N` runs at once (default: 1; more needs --overlap allow)", command.Uint32(&req.Concurrency))
	f.Uint32Var(&req.RatePerMinute, "rate", 0, "starts per minute at most; 0 = as runs end")
	f.Func("overlap", "`POLICY` of its runs: allow, skip or queue (default: the schedule's)", command.Text(&req.OverlapPolicy))
	f.StringVar(&req.Note, "note", "", "why, for the next reader")
	f.StringVar(&req.RequestId, "request-id", "", "`ID` that makes a repeat safe: the same one gives the same backfill")
	f.BoolVar(&req.DryRun, "dry-run", false, "start nothing, show what would run; exit with 3 if anything would")
	f.BoolVar(&wait, "wait", false, "show progress until it ends; fail unless every run succeeds")
	command.CompleteValues(cmd, "reprocess", schedule.Reprocesses)
	command.CompleteValues(cmd, "order", schedule.BackfillOrders)
	command.CompleteValues(cmd, "overlap", []string{"allow", "skip", "queue"})
	return cmd
}

func newListCommand(o *client.Client) *cobra.Command {
	limit := client.DefaultLimit
	filter := &carillonv1.ListBackfillsRequest{}
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "Backfills, newest first",
		Example: "  carillon backfill list --schedule nightly --state running",
		Args:    command.ExactArgs(),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, _ []string) error {
			found, next, err := client.Pages(limit, func(size uint32, token string) ([]*carillonv1.Backfill, string, error) {
				filter.PageSize, filter.PageToken = size, token
				resp, err := client.Call(ctx, l, l.Schedules().ListBackfills, filter)
				return resp.GetBackfills(), resp.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return o.Show(&carillonv1.ListBackfillsResponse{Backfills: found, NextPageToken: next}, func(p *render.Page) {
				rows := make([][]string, len(found))
				for i, b := range found {
					rows[i] = p.WideCells([]string{
						b.GetBackfillId(), b.GetScheduleId(), p.When(b.GetFrom()), p.When(b.GetTo()), b.GetReprocess(), b.GetState(), progressText(b),
					}, b.GetOrder(), pace(b), b.GetUserId(), b.GetCreatedBy(), p.When(b.GetCreatedAt()), p.When(b.GetProgress().GetEta()),
						p.When(b.GetEndedAt()), b.GetNote(), b.GetStateNote())
				}
				p.List(p.WideCells([]string{"backfill", "schedule", "from", "to", "reprocess", "state", "progress"},
					"order", "pace", "owner", "by", "requested", "estimated end", "ended", "note", "state note"), rows, next)
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&filter.ScheduleId, "schedule", "", "only of this schedule `ID`")
	f.StringVar(&filter.UserId, "user", "", "only of this owner `ID`")
	f.Func("state", "only in this `STATE`: running, paused, finished or cancelled", command.Text(&filter.State))
	client.LimitFlag(cmd, &limit)
	command.CompleteValues(cmd, "state", schedule.BackfillStates)
	return cmd
}

func newGetCommand(o *client.Client) *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use:     "get ID",
		Short:   "Show a backfill and its progress",
		Example: "  carillon backfill get 5f0c2b7d9a3e41c8b6d2f7a1\n  carillon backfill get 5f0c2b7d9a3e41c8b6d2f7a1 --wait",
		Args:    command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			resp, err := client.Call(ctx, l, l.Schedules().GetBackfill, &carillonv1.GetBackfillRequest{BackfillId: args[0]})
			if err != nil {
				return err
			}
			if wait {
				return waitAndShow(ctx, o, l, resp.GetBackfill())
			}
			return o.Show(resp, func(p *render.Page) { writeBackfill(p, resp.GetBackfill()) })
		}),
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "show progress until it ends; fail unless every run succeeds")
	return cmd
}

func newPauseCommand(o *client.Client) *cobra.Command {
	req := &carillonv1.PauseBackfillRequest{}
	cmd := &cobra.Command{
		Use:     "pause ID",
		Short:   "Pause a backfill until it is resumed",
		Long:    "Slots that are not sent yet wait until the backfill is resumed. Runs in flight continue.",
		Example: "  carillon backfill pause 5f0c2b7d9a3e41c8b6d2f7a1 --note 'the warehouse is slow'",
		Args:    command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.BackfillId = args[0]
			return client.ShowAnswer(ctx, o, l, l.Schedules().PauseBackfill, req, func(p *render.Page, resp *carillonv1.PauseBackfillResponse) {
				p.Line("%s paused; %s", args[0], progressText(resp.GetBackfill()))
			})
		}),
	}
	cmd.Flags().StringVar(&req.Note, "note", "", "why, for the next reader")
	return cmd
}

func newResumeCommand(o *client.Client) *cobra.Command {
	req := &carillonv1.ResumeBackfillRequest{}
	cmd := &cobra.Command{
		Use:     "resume ID",
		Short:   "Resume a paused backfill",
		Example: "  carillon backfill resume 5f0c2b7d9a3e41c8b6d2f7a1",
		Args:    command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.BackfillId = args[0]
			return client.ShowAnswer(ctx, o, l, l.Schedules().ResumeBackfill, req, func(p *render.Page, resp *carillonv1.ResumeBackfillResponse) {
				p.Line("%s resumed; %s", args[0], progressText(resp.GetBackfill()))
			})
		}),
	}
	cmd.Flags().StringVar(&req.Note, "note", "", "why, for the event log")
	return cmd
}

func newCancelCommand(o *client.Client) *cobra.Command {
	req := &carillonv1.CancelBackfillRequest{}
	cmd := &cobra.Command{
		Use:     "cancel ID",
		Short:   "Cancel a backfill; its runs in flight continue, or are cancelled with --runs",
		Example: "  carillon backfill cancel 5f0c2b7d9a3e41c8b6d2f7a1 --runs --note 'wrong version'",
		Args:    command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.BackfillId = args[0]
			return client.ShowAnswer(ctx, o, l, l.Schedules().CancelBackfill, req, func(p *render.Page, resp *carillonv1.CancelBackfillResponse) {
				p.Line("%s cancelled; %s", args[0], progressText(resp.GetBackfill()))
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&req.Note, "note", "", "why, for the next reader")
	f.BoolVar(&req.CancelRuns, "runs", false, "also cancel its runs in flight")
	return cmd
}

// writeRequested writes the answer to a request for a backfill, or of a dry run.
func writeRequested(p *render.Page, resp *carillonv1.BackfillScheduleResponse, scheduleID string) {
	b := resp.GetBackfill()
	if b == nil {
		if resp.GetCount() == 0 {
			p.Line("no slot of %[2]s would run (%[1]s in the range)", slotCount(resp.GetSlots()), scheduleID)
			return
		}
		p.Line("%d of %s of %s would run, from %s to %s", resp.GetCount(), slotCount(resp.GetSlots()), scheduleID, p.When(resp.GetFirst()), p.When(resp.GetLast()))
		return
	}
	if resp.GetSlots() == 0 { // a repeated request
		p.Line("backfill %s, requested %s, is %s: %s", b.GetBackfillId(), p.When(b.GetCreatedAt()), b.GetState(), progressText(b))
		return
	}
	p.Line("backfill %s is %s: %d of %s of %s to run", b.GetBackfillId(), b.GetState(), b.GetProgress().GetToRun(), slotCount(b.GetProgress().GetTotal()), scheduleID)
	p.Line("to follow it: carillon backfill get %s --wait", b.GetBackfillId())
}

func slotCount(n int32) string {
	return render.Count(int(n), "slot")
}

// progressText is the progress as "3 of 7 done, 1 failed".
func progressText(b *carillonv1.Backfill) string {
	g := b.GetProgress()
	text := fmt.Sprintf("%d of %d done", doneSlots(g), g.GetTotal())
	for _, part := range []struct {
		n    int32
		word string
	}{
		{g.GetInFlight(), "in flight"},
		{g.GetFailed(), "failed"},
		{g.GetSkipped(), "skipped"},
		{g.GetCancelled(), "cancelled"},
		{g.GetPassedOver(), "not selected"},
		{g.GetNotRun(), "not run"},
	} {
		if part.n > 0 {
			text += fmt.Sprintf(", %d %s", part.n, part.word)
		}
	}
	return text
}

// doneSlots is the number of slots that are finished.
func doneSlots(g *carillonv1.BackfillProgress) int32 {
	return g.GetPassedOver() + g.GetSucceeded() + g.GetFailed() + g.GetSkipped() + g.GetCancelled()
}

// pace describes the limits of a backfill: concurrency, rate, overlap policy.
func pace(b *carillonv1.Backfill) string {
	rate := "as runs end"
	if b.GetRatePerMinute() > 0 {
		rate = fmt.Sprintf("%d a minute", b.GetRatePerMinute())
	}
	return fmt.Sprintf("%d at once, %s, overlap %s", b.GetConcurrency(), rate, b.GetOverlapPolicy())
}

// writeBackfill writes all fields of a backfill.
func writeBackfill(p *render.Page, b *carillonv1.Backfill) {
	g := b.GetProgress()
	p.Fields(
		[2]string{"backfill", b.GetBackfillId()},
		[2]string{"schedule", fmt.Sprintf("%s, revision %d", b.GetScheduleId(), b.GetRevision())},
		[2]string{"from", p.When(b.GetFrom())},
		[2]string{"until (exclusive)", p.When(b.GetTo())},
		[2]string{"reprocess", b.GetReprocess() + ", " + b.GetOrder()},
		[2]string{"pace", pace(b)},
		[2]string{"note", b.GetNote()},
		[2]string{"state", b.GetState()},
		[2]string{"reason", b.GetReason()},
		[2]string{"state note", b.GetStateNote()},
		[2]string{"changed by", b.GetChangedBy()},
		[2]string{"progress", progressText(b)},
		[2]string{"succeeded", fmt.Sprint(g.GetSucceeded())},
		[2]string{"remaining", fmt.Sprint(g.GetRemaining())},
		[2]string{"estimated end", p.When(g.GetEta())},
		[2]string{"requested", p.When(b.GetCreatedAt())},
		[2]string{"by", b.GetCreatedBy()},
		[2]string{"ended", p.When(b.GetEndedAt())},
	)
}

// ids are the newest backfills. Old ones are rarely needed.
func ids(ctx context.Context, l *client.Link, typed string) (out []cobra.Completion) {
	resp, err := client.Call(ctx, l, l.Schedules().ListBackfills, &carillonv1.ListBackfillsRequest{PageSize: client.DefaultLimit})
	if err != nil {
		return nil
	}
	for _, b := range resp.GetBackfills() {
		out = client.Described(out, typed, b.GetBackfillId(), b.GetScheduleId()+" "+b.GetState())
	}
	return out
}
