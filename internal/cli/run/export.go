package run

import (
	"bufio"
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

func newExportCommand(o *client.Client) *cobra.Command {
	filter := &carillonv1.ExportRunsRequest{}
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write runs as JSON Lines, oldest first",
		Long: "Writes runs as JSON Lines to standard output: one run per line, oldest run_at first. An export that breaks off\n" +
			"prints the --after to continue with.",
		Example: "  carillon run export --since 2026-03-01T00:00:00Z --until 2026-04-01T00:00:00Z\n" +
			"  carillon run export --status FAILED,SKIPPED --since 30d\n" +
			"  carillon run export --after 5f0c5a3d9b1e6a6f0d0c4b5e7a8f9b2c1d3e4f5a6b7c8d9e0f1a2b3c4d5e6f70",
		Args: command.ExactArgs(),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if o.Format == render.FormatYAML {
				return command.Usage(cmd, "-o yaml is not supported: the export is JSON Lines")
			}
			return nil
		},
		RunE: o.Ask(func(ctx context.Context, l *client.Link, _ []string) error {
			filter.Status = upper(filter.Status)
			return exportRuns(ctx, o, l, filter)
		}),
	}
	filterFlags{&filter.ScheduleId, &filter.WorkflowId, &filter.UserId, &filter.Status, &filter.Reason, &filter.Trigger}.flags(cmd)
	f := cmd.Flags()
	f.Func("since", "run at from this `TIME` (RFC 3339), or a duration back such as 2h or 7d", o.TimeFromNow(&filter.From, -1))
	f.Func("until", "run at before this `TIME` (RFC 3339), or a duration back (default now)", o.TimeFromNow(&filter.To, -1))
	f.StringVar(&filter.After, "after", "", "continue after the run with this full `KEY`")
	return cmd
}

// exportProgress counts runs, unless the runs themselves are printed on the terminal.
func exportProgress(c *client.Client) *render.Progress {
	if c.Terminal {
		return render.NewProgress(nil, "exporting")
	}
	return render.NewProgress(c.Screen, "exporting")
}

// exportRuns writes each run as it arrives, to keep memory constant.
func exportRuns(ctx context.Context, c *client.Client, l *client.Link, filter *carillonv1.ExportRunsRequest) error {
	out := bufio.NewWriter(c.Out)
	last := filter.GetAfter()
	written, m := 0, exportProgress(c)
	defer m.End()
	stream, err := l.Runs().ExportRuns(ctx, filter)
	for err == nil {
		var line *carillonv1.ExportRunsResponse
		if line, err = stream.Recv(); err != nil {
			break
		}
		text, invalid := rawjson.Marshal(line.GetRun())
		if invalid != nil {
			return invalid
		}
		if _, lost := out.Write(append(text, '\n')); lost != nil {
			return fmt.Errorf("write the export: %w", lost)
		}
		last = line.GetRun().GetIdempotencyKey()
		if written++; written%1000 == 0 {
			m.Describe("%d runs written, until %s", written, render.Stamp(line.GetRun().GetRunAt().AsTime()))
		}
	}
	if lost := out.Flush(); lost != nil {
		return fmt.Errorf("write the export: %w", lost)
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err = l.Explain(ctx, err, false); last != filter.GetAfter() {
		err = fmt.Errorf("%w; every written line is complete; continue with --after %s", err, last)
	}
	return err
}
