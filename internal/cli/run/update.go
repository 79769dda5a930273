package run

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func newUpdateCommand(o *client.Client) *cobra.Command {
	var input string
	req := &carillonv1.UpdateRunRequest{}
	cmd := &cobra.Command{
		Use:   "update KEY",
		Short: "Change a run that waits in a dispatch queue",
		Long:  "Changes input, priority, limits or start of a run that waits in a dispatch queue. Once it was dispatched nothing changes.",
		Example: "  carillon run update 5f0c5a3d9b1e --priority 100\n" +
			"  carillon run update 5f0c5a3d9b1e --input @new.json",
		Args: command.ExactArgs("KEY"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req.IdempotencyKey = args[0]
			if input != "" {
				raw, err := o.Content(input)
				if err != nil {
					return err
				}
				req.Input = raw
			}
			return client.ShowAnswer(ctx, o, l, l.Runs().UpdateRun, req, func(p *render.Page, resp *carillonv1.UpdateRunResponse) {
				p.Line("%s updated: %s", p.RunKey(resp.GetRun().GetIdempotencyKey(), resp.GetRun().GetQueueId()), placeInQueue(p, resp.GetRun()))
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&input, "input", "", "`JSON` for the executor, or @FILE")
	f.Func("priority", "`NUMBER`; higher goes first", command.Int32(&req.Priority))
	f.StringSliceVar(&req.Limits, "limit", nil, "`LIMIT` that it uses, instead of its own: an id, or ID=KEY; may be repeated")
	f.BoolVar(&req.ClearLimits, "clear-limits", false, "keep only the limits of its queue")
	f.Func("at", "earliest start: a `TIME` (RFC 3339), or a duration from now such as 2h", o.TimeFromNow(&req.RunAt, 1))
	return cmd
}

// placeInQueue is where a run of a queue is; empty outside queues and after its end.
func placeInQueue(p *render.Page, r *carillonv1.Run) string {
	switch state := r.GetQueueState(); {
	case state == "waiting" && r.GetPosition() > 0:
		return fmt.Sprintf("waiting, position %d of priority %d", r.GetPosition(), r.GetPriority())
	case state == "delayed":
		return "delayed until " + p.When(r.GetFireAt())
	default:
		return state
	}
}
