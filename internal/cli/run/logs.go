package run

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	runoutput "github.com/carillon/carillon/internal/output"
	"github.com/carillon/carillon/internal/rawjson"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// maxTailLines is the limit of GetRunLogsRequest.tail_lines.
const maxTailLines = 10_000

// logsInterval is the pause between calls with --follow.
const logsInterval = time.Second

func newLogsCommand(o *client.Client) *cobra.Command {
	var follow bool
	tail := -1
	req := &carillonv1.GetRunLogsRequest{}
	cmd := &cobra.Command{
		Use:   "logs KEY",
		Short: "Show what a run wrote",
		Long: "Shows what a run wrote: the steps of the local executor, each line behind its step's name, or the output\n" +
			"that an executor reported. Secrets are masked. With -f it follows the run until that has ended. With -o json\n" +
			"each part is one JSON object on a line.",
		Example: "  carillon run logs 5f0c5a3d9b1e\n  carillon run logs 5f0c5a3d9b1e -f --step fetch\n  carillon run logs 5f0c5a3d9b1e --tail 20",
		Args:    command.ExactArgs("KEY"),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if o.Format == render.FormatYAML {
				return command.Usage(cmd, "logs have no YAML form; use -o json")
			}
			if tail < -1 || tail > maxTailLines {
				return command.Usage(cmd, "--tail %d is not within 0 to %d, or -1 for all lines", tail, maxTailLines)
			}
			if tail >= 0 {
				req.TailLines = new(uint32(tail))
			}
			return nil
		},
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) (err error) {
			if req.IdempotencyKey, err = wholeKey(ctx, l, args[0]); err != nil {
				return err
			}
			p := &logPrinter{out: o.Out, json: o.Format == render.FormatJSON, names: req.GetStep() == "", tail: tail >= 0}
			resp, err := followLogs(ctx, l, req, follow, p)
			if err != nil || p.any || tail == 0 || !o.Format.ForPeople() || resp == nil {
				return err
			}
			_, err = fmt.Fprintln(o.ErrOut, noOutput(resp, req))
			return err
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the run has ended")
	cmd.Flags().IntVar(&tail, "tail", tail, "only the last `NUMBER` of lines, 0 to 10000; with -f, and what follows; -1 = all")
	cmd.Flags().StringVar(&req.Step, "step", "", "only the step `NAME` of the local executor")
	return cmd
}

// followLogs prints all pages; with follow it goes on until the run has ended.
func followLogs(ctx context.Context, l *client.Link, req *carillonv1.GetRunLogsRequest, follow bool, p *logPrinter) (*carillonv1.GetRunLogsResponse, error) {
	answered := time.Now()
	for {
		resp, err := client.Call(ctx, l, l.Runs().GetRunLogs, req)
		switch {
		case ctx.Err() != nil:
			return nil, nil // the user ended it
		case err != nil && (!follow || !client.Unanswered(err) || time.Since(answered) > client.OutageTimeout):
			return nil, err
		case err == nil:
			answered = time.Now()
			if err := p.print(resp); err != nil {
				return nil, err
			}
			more := resp.GetNextAfter() != req.GetAfter()
			req.After, req.TailLines = resp.GetNextAfter(), nil
			if resp.GetComplete() || !follow && !more {
				return resp, nil
			}
			if more {
				continue // there may be another page
			}
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(logsInterval):
		}
	}
}

// noOutput explains why there is no output.
func noOutput(resp *carillonv1.GetRunLogsResponse, req *carillonv1.GetRunLogsRequest) string {
	key := render.ShortKey(req.GetIdempotencyKey())
	if req.GetStep() != "" {
		return fmt.Sprintf("run %s (%s): no output of a step %s is kept", key, resp.GetStatus(), render.Legible(req.GetStep()))
	}
	return fmt.Sprintf("run %s (%s): no output is kept: it was not launched, its executor reported none so far, or LOG_RETENTION_DAYS are over. `carillon run get %s` shows its error and links to logs elsewhere", key, resp.GetStatus(), key)
}

// logPrinter prints parts of a run's output.
type logPrinter struct {
	out      io.Writer
	json     bool
	names    bool   // begin each line with the name of its step
	tail     bool   // only the last lines were requested
	reported string // the output of the last report that was printed
	any      bool
}

func (p *logPrinter) print(resp *carillonv1.GetRunLogsResponse) error {
	for _, part := range resp.GetParts() {
		p.any = true
		if p.json {
			text, err := rawjson.Marshal(part)
			if err != nil {
				return err
			}
			if _, err := p.out.Write(append(text, '\n')); err != nil {
				return err
			}
			continue
		}
		if _, err := io.WriteString(p.out, p.text(part)); err != nil {
			return err
		}
	}
	return nil
}

// added is the part of a report's output after what was printed last; false: the
// output is a different one.
func (p *logPrinter) added(text string) (string, bool) {
	if p.reported == "" {
		return "", false
	}
	if rest, ok := strings.CutPrefix(text, p.reported); ok || !p.tail {
		return rest, ok
	}
	_, rest, ok := strings.Cut(text, "\n"+p.reported) // the lines before were not requested
	return rest, ok
}

// text is a part without control characters. The server removes them too, but the
// safety of the terminal must not depend on the server.
func (p *logPrinter) text(part *carillonv1.LogPart) string {
	text := part.GetText()
	if part.GetStep() == "" { // a report has the whole output again: print the new part only
		if rest, ok := p.added(text); ok {
			p.reported, text = text, rest
		} else {
			p.reported = text
		}
	}
	text = runoutput.Clean([]byte(text))
	if part.GetSkippedBytes() > 0 {
		text = runoutput.CutNote(int64(part.GetSkippedBytes())) + "\n" + text
	}
	if text == "" {
		return ""
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if !p.names || part.GetStep() == "" {
		return text
	}
	name := render.Legible(part.GetStep()) + " | "
	return name + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+name) + "\n"
}
