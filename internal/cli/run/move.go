package run

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func newMoveCommand(o *client.Client) *cobra.Command {
	var (
		first, last   bool
		before, after string
		position      *uint32
	)
	cmd := &cobra.Command{
		Use:   "move KEY...",
		Short: "Move runs that wait in a dispatch queue",
		Long:  "Moves a run among the waiting runs of its priority; several runs as one block, in the order given. Nothing moves if one of them was admitted.",
		Example: "  carillon run move 5f0c5a3d9b1e --first\n" +
			"  carillon run move 5f0c5a3d9b1e 71d2e0a94c55 --before 0e7ab90c1f44",
		Args: command.Args([]string{"KEY"}, 999),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req := &carillonv1.MoveRunRequest{IdempotencyKey: args[0], Then: args[1:]}
			chosen := 0
			for _, place := range []struct {
				to  string
				set bool
			}{{"first", first}, {"last", last}, {"before", before != ""}, {"after", after != ""}, {"position", position != nil}} {
				if place.set {
					req.To = place.to
					chosen++
				}
			}
			if chosen != 1 {
				return errors.New("give one of --first, --last, --before, --after, --position")
			}
			if req.RelativeTo = before; after != "" {
				req.RelativeTo = after
			}
			if position != nil {
				req.Position = *position
			}
			return client.ShowAnswer(ctx, o, l, l.Runs().MoveRun, req, func(p *render.Page, resp *carillonv1.MoveRunResponse) {
				p.Line("%s moved: %s", p.RunKey(resp.GetRun().GetIdempotencyKey(), resp.GetRun().GetQueueId()), placeInQueue(p, resp.GetRun()))
			})
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&first, "first", false, "next of its priority")
	f.BoolVar(&last, "last", false, "behind all others of its priority")
	f.StringVar(&before, "before", "", "`KEY` of the waiting run to go before")
	f.StringVar(&after, "after", "", "`KEY` of the waiting run to go behind")
	f.Func("position", "`NUMBER`; 1 is next", command.Uint32(&position))
	return cmd
}
