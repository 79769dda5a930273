package schedule

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func newStateCommand(o *client.Client) *cobra.Command {
	var set string
	var revision uint32
	cmd := &cobra.Command{
		Use:   "state SCHEDULE",
		Short: "Show or replace what runs of a schedule have kept for the next one",
		Long: "Shows the state that the last run of a schedule has committed. --set replaces it if it has the revision that\n" +
			"--revision names, and no run of the schedule is in flight.",
		Example: "  carillon schedule state poll-mail\n" +
			"  carillon schedule state poll-mail --set '{\"cursor\": 12}' --revision 7",
		Args: command.ExactArgs("SCHEDULE"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			if set == "" {
				return client.ShowAnswer(ctx, o, l, l.Events().GetHandlerState, &carillonv1.GetHandlerStateRequest{ScheduleId: args[0]},
					func(p *render.Page, resp *carillonv1.GetHandlerStateResponse) { writeKept(p, resp.GetHandler()) })
			}
			state, err := o.Content(set)
			if err != nil {
				return err
			}
			req := &carillonv1.SetHandlerStateRequest{ScheduleId: args[0], State: state, StateRevision: revision}
			return client.ShowAnswer(ctx, o, l, l.Events().SetHandlerState, req,
				func(p *render.Page, resp *carillonv1.SetHandlerStateResponse) { writeKept(p, resp.GetHandler()) })
		}),
	}
	f := cmd.Flags()
	f.StringVar(&set, "set", "", "`JSON` of the new state, or @FILE")
	f.Uint32Var(&revision, "revision", 0, "revision `N` that --set replaces; 0: there is no state yet")
	return cmd
}

func writeKept(p *render.Page, h *carillonv1.HandlerState) {
	if h.GetStateRevision() == 0 {
		p.Line("no run of %s has kept a state", h.GetScheduleId())
		return
	}
	by := "a person"
	if h.GetRun() != "" {
		by = p.RunKey(h.GetRun(), "")
	}
	p.Fields([2]string{"revision", fmt.Sprint(h.GetStateRevision())}, [2]string{"kept by", by}, [2]string{"at", p.When(h.GetUpdatedAt())}, [2]string{"state", string(h.GetState())})
}
