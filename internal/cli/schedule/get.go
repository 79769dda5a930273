package schedule

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/preview"
	"github.com/carillon/carillon/internal/cli/render"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func newGetCommand(o *client.Client) *cobra.Command {
	return &cobra.Command{
		Use:     "get ID",
		Short:   "Show a schedule: its definition, state and next five runs",
		Example: "  carillon schedule get nightly\n  carillon schedule get nightly -o json",
		Args:    command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			return client.ShowAnswer(ctx, o, l, l.Schedules().GetSchedule, &carillonv1.GetScheduleRequest{ScheduleId: args[0]},
				func(p *render.Page, resp *carillonv1.GetScheduleResponse) {
					writeDefinition(p, resp.GetSchedule())
					p.Line("")
					writeState(p, resp.GetSchedule())
					p.Line("")
					writeExpectations(p, resp.GetSchedule().GetExpectations())
					preview.WriteFires(p, resp.GetPreview())
				})
		}),
	}
}
