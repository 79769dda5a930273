package schedule

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func newPauseCommand(o *client.Client) *cobra.Command {
	req := &carillonv1.PauseScheduleRequest{}
	cmd := &cobra.Command{
		Use:   "pause ID",
		Short: "Pause a schedule until it is resumed, or until a time",
		Long: "Within a second no more scheduled runs are launched. Manual runs, retries, runs in\n" +
			"flight and runs that wait in a dispatch queue continue. Runs that fall into the pause\n" +
			"are not caught up.",
		Example: "  carillon schedule pause nightly --note 'warehouse is moving' --until 2h",
		Args:    command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.ScheduleId = args[0]
			return client.ShowAnswer(ctx, o, l, l.Schedules().PauseSchedule, req, func(p *render.Page, resp *carillonv1.PauseScheduleResponse) {
				until := ""
				if resp.GetSchedule().GetPausedUntil() != nil {
					until = " until " + p.When(resp.GetSchedule().GetPausedUntil())
				}
				p.Line("%s paused%s", args[0], until)
				if n := resp.GetEnded(); n > 0 {
					p.Line("%s in queues ended", render.Count(int(n), "waiting run"))
				}
				if n := resp.GetQueued(); n > 0 {
					p.Line("%s in queues will run; --queued end ends them", render.Count(int(n), "waiting run"))
				}
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&req.Note, "note", "", "why, for the next reader")
	f.StringVar(&req.Queued, "queued", "", "what becomes of its runs that wait in queues: `keep` (default) or end")
	f.Func("until", "end of the pause: a `TIME` (RFC 3339), or a duration such as 2h", o.TimeFromNow(&req.Until, 1))
	return cmd
}

func newResumeCommand(o *client.Client) *cobra.Command {
	req := &carillonv1.ResumeScheduleRequest{}
	cmd := &cobra.Command{
		Use:     "resume ID",
		Short:   "Resume a paused schedule from now on",
		Example: "  carillon schedule resume nightly",
		Args:    command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.ScheduleId = args[0]
			return client.ShowAnswer(ctx, o, l, l.Schedules().ResumeSchedule, req, func(p *render.Page, resp *carillonv1.ResumeScheduleResponse) {
				next := "no next run"
				if resp.GetSchedule().GetNextRunAt() != nil {
					next = "next run " + p.When(resp.GetSchedule().GetNextRunAt())
				}
				p.Line("%s resumed; %s", args[0], next)
			})
		}),
	}
	cmd.Flags().StringVar(&req.Note, "note", "", "why, for the event log")
	return cmd
}
