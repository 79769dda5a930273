package console

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/output"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const (
	maxLines  = 2000 // of output on a page, so that a browser stays fast
	lastLines = 10   // on the page of a run that ended
	lastBytes = 4 << 10
)

// outputView is the output of one run.
type outputView struct {
	Run   runRow
	Step  string // only its lines are shown; "": all
	Steps []string
	Lines []outputLine
	Cut   bool // there were more than maxLines
	Most  int
	// Whole: Lines replace what the browser shows. Otherwise they follow it.
	Whole  bool
	Follow bool   // the run may write more
	More   string // the address of the output after Lines
	Reload string
	Note   string // why there are no lines
}

type outputLine struct{ Step, Text string }

// showOutput shows a run's output. With the parameter after it shows only the output after that
// part, which console.js appends.
func (c *Console) showOutput(v *visit) (page, error) {
	view := outputView{Step: v.param("step"), Most: maxLines}
	after, err := afterOf(v.param("after"))
	if err != nil {
		return page{}, err
	}
	key := v.PathValue("key")
	log, err := c.readLog(v.Context(), key, after)
	// The output of a report replaces that of the report before.
	if err == nil && after > 0 && slices.ContainsFunc(log.parts, func(p *carillonv1.LogPart) bool { return p.GetStep() == "" }) {
		after = 0
		log, err = c.readLog(v.Context(), key, after)
	}
	if err != nil {
		return page{}, err
	}
	// The run is read after its output: a page that stops following must show
	// how the run ended.
	resp, err := c.runs.GetRun(v.Context(), &carillonv1.GetRunRequest{IdempotencyKey: key})
	if err != nil {
		return page{}, err
	}
	view.Run, view.Whole, view.Follow = v.row(resp.GetRun()), after == 0, !log.complete
	view.fill(log.parts)
	own := view.Run.Path() + "/output?"
	query := url.Values{}
	if view.Step != "" {
		query.Set("step", view.Step)
	}
	view.Reload = strings.TrimSuffix(own+query.Encode(), "?")
	query.Set("after", strconv.FormatUint(uint64(log.next), 10))
	view.More = own + query.Encode()
	return page{name: "output", title: "Output of run " + view.Run.Short(), view: view}, nil
}

func afterOf(text string) (uint32, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, status.Errorf(codes.InvalidArgument, "after: %.40q is not the number of a part", text)
	}
	return uint32(n), nil
}

// fill sets the shown lines: those of one step or of all.
func (o *outputView) fill(parts []*carillonv1.LogPart) {
	for _, p := range parts {
		if step := p.GetStep(); step != "" && !slices.Contains(o.Steps, step) {
			o.Steps = append(o.Steps, step)
		}
		if o.Step == "" || p.GetStep() == o.Step {
			o.Lines = append(o.Lines, linesOf(p)...)
		}
	}
	if o.Step != "" && !slices.Contains(o.Steps, o.Step) {
		o.Steps = append(o.Steps, o.Step)
	}
	if len(o.Lines) > maxLines {
		o.Lines, o.Cut = o.Lines[len(o.Lines)-maxLines:], true
	}
	switch {
	case len(o.Lines) > 0:
	case o.Follow:
		o.Note = "No output yet."
	case o.Step != "":
		o.Note = "No output of this step is kept."
	default:
		o.Note = "No output is kept. The executor reported none, or it is older than LOG_RETENTION_DAYS."
	}
}

// runLog is the output of a run after a given part.
type runLog struct {
	parts    []*carillonv1.LogPart
	next     uint32 // the last part
	complete bool   // nothing can follow
}

func (c *Console) readLog(ctx context.Context, key string, after uint32) (log runLog, err error) {
	req := &carillonv1.GetRunLogsRequest{IdempotencyKey: key, After: after}
	for {
		resp, err := c.runs.GetRunLogs(ctx, req)
		if err != nil {
			return runLog{}, err
		}
		log.parts = append(log.parts, resp.GetParts()...)
		log.next, log.complete = resp.GetNextAfter(), resp.GetComplete()
		if len(resp.GetParts()) == 0 || log.complete {
			return log, nil
		}
		req.After = log.next
	}
}

func linesOf(p *carillonv1.LogPart) (lines []outputLine) {
	if p.GetSkippedBytes() > 0 {
		lines = append(lines, outputLine{p.GetStep(), output.CutNote(int64(p.GetSkippedBytes()))})
	}
	for line := range strings.Lines(p.GetText()) {
		lines = append(lines, outputLine{p.GetStep(), strings.TrimSuffix(line, "\n")})
	}
	return lines
}

// lastLinesOf is the end of the output of a run that ended: mostly the cause of a
// failure. A page without it is still worth showing.
func (c *Console) lastLinesOf(v *visit, run runRow) string {
	if !run.Over() {
		return ""
	}
	resp, err := c.runs.GetRunLogs(v.Context(), &carillonv1.GetRunLogsRequest{IdempotencyKey: run.GetIdempotencyKey(), TailLines: new(uint32(lastLines))})
	if err != nil {
		return ""
	}
	var text strings.Builder
	for _, p := range resp.GetParts() {
		text.WriteString(p.GetText())
	}
	return output.Tail(text.String(), lastLines, lastBytes)
}
