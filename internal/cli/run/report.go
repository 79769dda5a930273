package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/metadata"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	runoutput "github.com/carillon/carillon/internal/output"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func newReportCommand(o *client.Client) *cobra.Command {
	var token, written string
	var exitCode int32
	var returned resultFlags
	req := &carillonv1.ReportRunRequest{}
	cmd := &cobra.Command{
		Use:   "report KEY STATUS",
		Short: "Report the state of a run, as an executor does: STARTED, SUCCESS or FAILED",
		Long: "Reports the state of a run, as an executor does: STARTED (repeat it as a heartbeat), SUCCESS or\n" +
			"FAILED. A duplicate or late report changes nothing and is not an error.",
		Example: "  carillon run report 5f0c5a3d9b1e SUCCESS --run-id r-17\n" +
			"  carillon run report 5f0c5a3d9b1e FAILED --error-code EXIT_3 --error-message 'disk full' --exit-code 3 --output-file job.log",
		Args: command.ExactArgs("KEY", "STATUS"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) (err error) {
			if req.IdempotencyKey, err = wholeKey(ctx, l, args[0]); err != nil {
				return err
			}
			req.Status = strings.ToUpper(args[1])
			if written != "" {
				if req.Output, err = readOutput(o, written); err != nil {
					return err
				}
			}
			if err := returned.addTo(o, req); err != nil {
				return err
			}
			if exitCode >= 0 {
				req.ExitCode = &exitCode
			}
			if token == "" {
				token = o.Env("CARILLON_REPORT_TOKEN")
			}
			if token != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
			}
			return client.ShowAnswer(ctx, o, l, l.Runs().ReportRun, req, func(p *render.Page, resp *carillonv1.ReportRunResponse) {
				verb := "is now"
				if !resp.GetMoved() {
					verb = "was not changed by this report; it is"
				}
				p.Line("run %s %s %s", render.ShortKey(resp.GetRun().GetIdempotencyKey()), verb, outcome(resp.GetRun()))
				writeProblem(p, resp.GetResultProblem())
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&req.RunId, "run-id", "", "the executor's own `ID` of the run")
	f.StringVar(&req.ErrorCode, "error-code", "", "error code, for programs")
	f.StringVar(&req.ErrorMessage, "error-message", "", "error message, for people")
	f.StringVar(&written, "output-file", "", "`FILE` with what the run wrote (- reads it from stdin); its last 64 KiB are sent")
	f.Int32Var(&exitCode, "exit-code", -1, "exit code of the run's process")
	returned.register(f, req)
	f.StringVar(&req.LogUrl, "log-url", "", "`URL` where people find the run's log")
	f.StringVar(&token, "token", "", "report `TOKEN` that came with the run (CARILLON_REPORT_TOKEN)")
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return []cobra.Completion{"STARTED", "SUCCESS", "FAILED"}, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

// readOutput reads the end of a file or of stdin, as long as the API allows.
func readOutput(c *client.Client, path string) (string, error) {
	in := c.In
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return "", fmt.Errorf("--output-file: %w", err)
		}
		defer file.Close()
		in = file
	}
	var end []byte
	for chunk := make([]byte, schedule.MaxReportedOutput); ; {
		n, err := in.Read(chunk)
		end = append(end, chunk[:n]...)
		end = end[max(0, len(end)-schedule.MaxReportedOutput):]
		if errors.Is(err, io.EOF) {
			text, _ := runoutput.KeepEnd(runoutput.Clean(end), schedule.MaxReportedOutput)
			return text, nil
		}
		if err != nil {
			return "", fmt.Errorf("--output-file: %w", err)
		}
	}
}
