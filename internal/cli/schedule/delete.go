package schedule

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func newDeleteCommand(o *client.Client) *cobra.Command {
	return &cobra.Command{
		Use:     "delete ID",
		Short:   "Delete a schedule; its planned runs are cancelled, runs in flight continue",
		Example: "  carillon schedule delete nightly",
		Args:    command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			return client.ShowAnswer(ctx, o, l, l.Schedules().DeleteSchedule, &carillonv1.DeleteScheduleRequest{ScheduleId: args[0]},
				func(p *render.Page, resp *carillonv1.DeleteScheduleResponse) { p.Line("%s deleted", args[0]) })
		}),
	}
}
