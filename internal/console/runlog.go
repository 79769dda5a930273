package console

import (
	"strings"

	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/output"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// shownOutput bounds what the run's page shows of its output: the end of it.
const shownOutput = 64 << 10

// runOutput is a run's output as its page shows it.
type runOutput struct {
	Text string
	Note string // why there is none, or not all
	Tail bool   // the run may write more
}

func (c *Console) outputOf(v *visit, key string) runOutput {
	var all strings.Builder
	req := &carillonv1.GetRunLogsRequest{IdempotencyKey: key}
	for {
		resp, err := c.runs.GetRunLogs(v.Context(), req)
		if err != nil {
			return runOutput{Note: "The output cannot be read: " + status.Convert(err).Message()}
		}
		for _, p := range resp.GetParts() {
			writePart(&all, p)
		}
		if len(resp.GetParts()) > 0 && !resp.GetComplete() {
			req.After = resp.GetNextAfter()
			continue
		}
		return shown(all.String(), !resp.GetComplete())
	}
}

// writePart writes a part as carillon run logs does: each line behind its step.
func writePart(to *strings.Builder, p *carillonv1.LogPart) {
	text := output.Clean([]byte(p.GetText()))
	if p.GetSkippedBytes() > 0 {
		text = output.CutNote(int64(p.GetSkippedBytes())) + "\n" + text
	}
	for line := range strings.Lines(text) {
		if p.GetStep() != "" {
			to.WriteString(p.GetStep() + " | ")
		}
		to.WriteString(strings.TrimSuffix(line, "\n") + "\n")
	}
}

func shown(text string, more bool) runOutput {
	o := runOutput{Tail: more}
	var left int
	if o.Text, left = output.KeepEnd(text, shownOutput); left > 0 {
		o.Note = "Only the end is shown. All of it: carillon run logs KEY"
	}
	if text == "" && more {
		o.Note = "Nothing yet."
	} else if text == "" {
		o.Note = "No output is kept: the executor reported none, or LOG_RETENTION_DAYS are over."
	}
	return o
}
