package run

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/rawjson"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func newWatchCommand(o *client.Client) *cobra.Command {
	filter := &carillonv1.WatchRunsRequest{}
	cmd := &cobra.Command{
		Use:     "watch",
		Short:   "Follow runs as they change, one line per change, until Ctrl-C",
		Long:    "Follows runs as they change, a line for each change, until Ctrl-C. With -o json each line is one JSON object.",
		Example: "  carillon run watch --schedule nightly\n  carillon run watch --status FAILED -o json",
		Args:    command.ExactArgs(),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if o.Format == render.FormatYAML {
				return command.Usage(cmd, "-o yaml is not supported for a stream; use -o json")
			}
			return nil
		},
		RunE: o.Ask(func(ctx context.Context, l *client.Link, _ []string) error {
			filter.Status = upper(filter.Status)
			stream, err := l.Runs().WatchRuns(ctx, filter)
			for err == nil {
				var change *carillonv1.WatchRunsResponse
				if change, err = stream.Recv(); err == nil {
					err = showChange(o, change)
				}
			}
			if errors.Is(err, io.EOF) || ctx.Err() != nil {
				return nil // ended by the server or the user
			}
			return l.Explain(ctx, err, false)
		}),
	}
	filterFlags{&filter.ScheduleId, &filter.WorkflowId, &filter.UserId, &filter.Status, &filter.Reason, &filter.Trigger}.flags(cmd)
	return cmd
}

// showChange prints a change as one line.
func showChange(c *client.Client, change *carillonv1.WatchRunsResponse) error {
	if c.Format == render.FormatJSON {
		text, err := rawjson.Marshal(change)
		if err != nil {
			return err
		}
		_, err = c.Out.Write(append(text, '\n'))
		return err
	}
	r := change.GetRun()
	status := fmt.Sprintf("%-27s", render.Legible(outcome(r)))
	if c.Color {
		status = render.PaintState(status)
	}
	at := c.Now()
	if r.GetUpdatedAt() != nil {
		at = r.GetUpdatedAt().AsTime()
	}
	_, err := fmt.Fprintf(c.Out, "%-24s  %s  %s  %s  %s  %s  %s\n", at.UTC().Format("2006-01-02T15:04:05.000Z"),
		render.ShortKey(r.GetIdempotencyKey()), status, render.Stamp(r.GetRunAt().AsTime()), r.GetTrigger(), render.Legible(r.GetScheduleId()), render.Legible(versioned(r)))
	return err
}
