package preview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const (
	defaultFires = 5
	maxFires     = 10_000
)

// previewFlags are the flags of preview.
type previewFlags struct {
	*client.Client
	schedule string // id of a saved schedule; needs a server
	batch    bool
	count    int
	// The rule and the window as a request.
	request carillonv1.PreviewScheduleRequest
}

func NewPreviewCommand(c *command.CLI) *cobra.Command {
	v := &previewFlags{Client: client.New(c), count: defaultFires}
	cmd := &cobra.Command{
		Use:   "preview",
		Short: "Show the next run times of a rule or a saved schedule",
		Long: "Lists the next run times of a rule, with notes on daylight saving time. It needs no server, except\n" +
			"with --schedule, which previews a saved schedule.\n\n" +
			"With --batch it reads JSON Lines from standard input,\n" +
			`  {"expr": "30 2 * * *", "tz": "America/New_York", "after": "2024-03-09T12:00:00Z", "count": 2}` + "\n" +
			"and answers each with one line, in their order: {\"times\": [\"2024-03-10T07:00:00Z\", …]} or {\"error\": \"…\"}.\n" +
			"The times are later than after. Without tz it is UTC, without after now, without count 5 (at most 10000);\n" +
			"\"dst\": \"literal\" as with --dst.",
		Example: "  carillon preview --cron '30 2 * * *' --tz America/New_York --from 2024-03-09T00:00:00Z\n" +
			"  carillon preview --every 15m --jitter 1m --id poll\n" +
			"  carillon preview --schedule nightly -n 20 -o json\n" +
			"  carillon preview --batch < questions.jsonl",
		Args:    command.ExactArgs(),
		PreRunE: v.check,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case v.batch:
				return answerBatch(c.In, c.Out, c.Now)
			case v.schedule != "":
				return v.Ask(v.showSaved)(cmd, args)
			}
			return v.showUnsaved()
		},
	}
	v.Flags(cmd)
	f, req := cmd.Flags(), &v.request
	f.StringVar(&v.schedule, "schedule", "", "a saved schedule's `ID`")
	f.BoolVar(&v.batch, "batch", false, "read JSON Lines from standard input")
	f.IntVarP(&v.count, "count", "n", v.count, fmt.Sprintf("`NUMBER` of runs, at most %d", maxFires))
	f.Func("cron", "cron `EXPR`: 5 fields, 6 with leading seconds, or a macro", command.Text(&req.CronExpr))
	f.Func("every", "`DURATION` between runs, counted from --start-at or from now", command.Millis(&req.IntervalMs))
	f.Func("at", "`TIME` (RFC 3339) of a single run", command.Time(&req.OnceAt))
	f.Func("tz", "IANA time `ZONE` (default UTC)", command.Text(&req.Timezone))
	f.Func("dst", "`POLICY` when the clock changes: vixie (default) or literal", command.Text(&req.Dst))
	f.Func("jitter", "`DURATION` of random shift, either way; exact with the --id of the schedule", command.Millis(&req.JitterMs))
	f.StringVar(&req.ScheduleId, "id", "", "`ID` of the schedule, which determines the jitter")
	f.Func("start-at", "no run before this `TIME`", command.Time(&req.StartAt))
	f.Func("end-at", "no run after this `TIME`", command.Time(&req.EndAt))
	f.Func("from", "start of the window: a `TIME` (RFC 3339), or a duration from now (default: after now)", v.TimeFromNow(&req.From, 1))
	f.Func("to", "end of the window: before this `TIME`, or a duration from now", v.TimeFromNow(&req.To, 1))
	command.CompleteValues(cmd, "dst", []cronexpr.DST{cronexpr.Vixie, cronexpr.Literal})
	command.CompleteValues(cmd, "tz", cronexpr.Zones())
	return v.CompleteFlags(cmd)
}

// check refuses flags that contradict each other.
func (v *previewFlags) check(cmd *cobra.Command, _ []string) error {
	rules := 0
	for _, name := range []string{"cron", "every", "at", "schedule", "batch"} {
		if cmd.Flags().Changed(name) {
			rules++
		}
	}
	switch {
	case rules == 0:
		return command.Usage(cmd, "give one of --cron, --every, --at, --schedule and --batch")
	case rules > 1:
		return command.Usage(cmd, "give only one of --cron, --every, --at, --schedule and --batch")
	case v.count < 1 || v.count > maxFires:
		return command.Usage(cmd, "--count %d is not within 1 to %d", v.count, maxFires)
	}
	allowed := []string{"count", "from", "to", "output", "server", "timeout", "schedule"}
	if v.batch {
		allowed = []string{"batch"}
	}
	if v.batch || v.schedule != "" {
		return command.OnlyFlags(cmd, allowed...)
	}
	return nil
}

// showSaved shows the fires of a saved schedule.
func (v *previewFlags) showSaved(ctx context.Context, l *client.Link, _ []string) error {
	req := &carillonv1.PreviewScheduleRequest{
		ScheduleId: v.schedule, From: v.request.GetFrom(), To: v.request.GetTo(), PageSize: uint32(v.count),
	}
	resp, err := client.Call(ctx, l, l.Schedules().PreviewSchedule, req)
	if err != nil {
		return err
	}
	return v.showFires(resp.GetFires())
}

// showUnsaved computes the fires of a rule without a server.
func (v *previewFlags) showUnsaved() error {
	fires, err := offline(&v.request, v.Now(), v.count)
	if err != nil {
		return err
	}
	out := make([]*carillonv1.Fire, len(fires))
	for i, f := range fires {
		out[i] = &carillonv1.Fire{RunAt: timestamppb.New(f.slot.RunAt), FireAt: timestamppb.New(f.slot.FireAt), Local: f.local}
		if f.note != "" {
			out[i].Note = &f.note
		}
	}
	return v.showFires(out)
}

// showFires prints a table; for programs the times alone, and all fields.
func (v *previewFlags) showFires(fires []*carillonv1.Fire) error {
	if v.Format.ForPeople() {
		p := v.Page()
		WriteFires(p, fires)
		return p.Print(v.Out)
	}
	type fire struct {
		RunAt  string `json:"run_at"`
		FireAt string `json:"fire_at"`
		Local  string `json:"local"`
		Note   string `json:"note,omitempty"`
	}
	document := struct {
		Times []string `json:"times"`
		Fires []fire   `json:"fires"`
	}{make([]string, len(fires)), make([]fire, len(fires))}
	for i, f := range fires {
		at, fireAt := render.Stamp(f.GetRunAt().AsTime()), render.Stamp(f.GetFireAt().AsTime())
		document.Times[i], document.Fires[i] = at, fire{at, fireAt, f.GetLocal(), f.GetNote()}
	}
	text, err := json.Marshal(document)
	if err != nil {
		return err
	}
	return v.Document(text)
}

// invalidField is an error as the API returns it.
func invalidField(field string, err error) error {
	var c schedule.Collect
	c.Note(field, err.Error(), "")
	return c.Err()
}

var errNoWindow = errors.New("is not later than the start of the window")

// window is the instant after which the preview begins, and the last one.
func window(req *carillonv1.PreviewScheduleRequest, now time.Time) (after, until time.Time, err error) {
	after = now
	if req.GetFrom() != nil {
		after = schedule.CeilSecond(req.GetFrom().AsTime()).Add(-time.Second)
	}
	if req.GetTo() != nil {
		until = req.GetTo().AsTime().Add(-time.Nanosecond)
		if !until.After(after) {
			return after, until, invalidField("to", errNoWindow)
		}
	}
	return after, until, nil
}

// WriteFires writes a table of fires, without columns that would be empty.
func WriteFires(p *render.Page, fires []*carillonv1.Fire) {
	if len(fires) == 0 {
		p.Line("no next run")
		return
	}
	var jittered, noted bool
	for _, f := range fires {
		jittered = jittered || !f.GetRunAt().AsTime().Equal(f.GetFireAt().AsTime())
		noted = noted || f.GetNote() != ""
	}
	head := []string{"run at", "when", "local"}
	if jittered {
		head = append(head, "fires at")
	}
	if noted {
		head = append(head, "note")
	}
	rows := make([][]string, len(fires))
	for i, f := range fires {
		at := f.GetRunAt().AsTime()
		rows[i] = []string{render.Stamp(at), p.Ago(at), f.GetLocal()}
		if jittered {
			rows[i] = append(rows[i], render.Stamp(f.GetFireAt().AsTime()))
		}
		if noted {
			rows[i] = append(rows[i], f.GetNote())
		}
	}
	p.Table(head, rows)
}
