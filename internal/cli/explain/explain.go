package explain

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar/explain"
)

func NewCommand(c *command.CLI) *cobra.Command {
	o := client.New(c)
	cmd := &cobra.Command{
		Use:   "explain SCHEDULE [TIME] | KEY",
		Short: "Explain why a schedule ran or did not run at a time, past or future",
		Long: "Shows whether the schedule has a slot at that time, by which rule, and what happened or will happen.\n\n" +
			"KEY is the key of a run, or its first digits: explains that run, also in a dispatch queue.\n\n" +
			"TIME is one of:\n" +
			"  last                    the newest slot that is due, whatever its outcome (default)\n" +
			"  next                    the next slot\n" +
			"  now\n" +
			"  2026-03-08T07:30:00Z    RFC 3339, with an offset\n" +
			"  2026-03-08T02:30        a local time in the schedule's zone, also one that occurs twice or never\n" +
			"  90m, 7d                 a duration back\n" +
			"  +90m                    a duration ahead",
		Example: "  carillon explain nightly\n" +
			"  carillon explain 5f0c5a3d9b1e\n" +
			"  carillon explain nightly 2026-03-08T07:30:00Z\n" +
			"  carillon explain nightly 2026-03-08T02:30\n" +
			"  carillon explain nightly next -o json",
		Args: command.Args([]string{"SCHEDULE"}, 1),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req, err := explainRequest(ctx, o, l, args[0], strings.Join(args[1:], ""))
			if err != nil {
				return err
			}
			resp, err := client.Call(ctx, l, l.Schedules().ExplainSlot, req)
			if err != nil && len(args) == 1 {
				var run *carillonv1.ExplainRunRequest
				if req, run, err = requestByKey(ctx, l, args[0], err); run != nil {
					return explainRun(ctx, o, l, run)
				}
				if err == nil {
					resp, err = client.Call(ctx, l, l.Schedules().ExplainSlot, req)
				}
			}
			if err != nil {
				return err
			}
			return o.Show(resp, func(p *render.Page) { writeExplanation(p, resp) })
		}),
	}
	o.Flags(cmd)
	return o.CompleteArg(o.WithWatch(cmd), client.ScheduleIDs)
}

// NewRunCommand is `run explain`.
func NewRunCommand(o *client.Client) *cobra.Command {
	return &cobra.Command{
		Use:     "explain KEY",
		Short:   "Explain what a run waits for, or what happened to it",
		Example: "  carillon run explain 5f0c5a3d9b1e",
		Args:    command.ExactArgs("KEY"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			return explainRun(ctx, o, l, &carillonv1.ExplainRunRequest{IdempotencyKey: args[0]})
		}),
	}
}

func explainRun(ctx context.Context, o *client.Client, l *client.Link, req *carillonv1.ExplainRunRequest) error {
	return client.ShowAnswer(ctx, o, l, l.Runs().ExplainRun, req, func(p *render.Page, resp *carillonv1.ExplainRunResponse) {
		for _, sentence := range resp.GetSentences() {
			p.Line("%s", sentence)
		}
		if start := resp.GetWouldStart(); start.GetP50() != nil {
			p.Line("The estimate assumes: %s.", strings.Join(start.GetAssumes(), "; "))
		}
		writeLinks(p, resp.GetRun())
	})
}

// writeLinks writes where the output and the trace of a run are.
func writeLinks(p *render.Page, r *carillonv1.Run) {
	if r != nil && r.ExitCode != nil {
		p.Line("Its output: carillon run logs %s", render.ShortKey(r.GetIdempotencyKey()))
	}
	for _, link := range [][2]string{{"Log", r.GetLogUrl()}, {"Trace", r.GetTraceUrl()}} {
		if link[1] != "" {
			p.Line("%s: %s", link[0], link[1])
		}
	}
}

// writeExplanation writes the verdict, then the sentences that explain it.
func writeExplanation(p *render.Page, a *carillonv1.ExplainSlotResponse) {
	verdict := strings.ReplaceAll(a.GetVerdict(), "_", " ")
	if a.GetReason() != "" {
		verdict += " (" + a.GetReason() + ")"
	}
	at := a.GetTime().AsTime()
	if p.Color {
		verdict = verdictColor(explain.Verdict(a.GetVerdict())).Paint(render.Legible(verdict))
	}
	p.Raw(render.Legible(a.GetScheduleId()+" at "+render.Stamp(at)+" ("+p.Ago(at)+"): ") + verdict + "\n\n")
	for _, sentence := range a.GetSentences() {
		p.Line("%s", sentence)
	}
	writeLinks(p, a.GetRun())
}

func verdictColor(v explain.Verdict) render.Color {
	switch v {
	case explain.VerdictRan:
		return render.Green
	case explain.VerdictFailed, explain.VerdictUnrecorded:
		return render.Red
	case explain.VerdictInFlight, explain.VerdictWillFire, explain.VerdictWaiting, explain.VerdictDue:
		return render.Cyan
	}
	return render.Yellow
}
