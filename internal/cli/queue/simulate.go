package queue

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// simulateFlags are the flags of queue simulate.
type simulateFlags struct {
	file     string
	request  carillonv1.SimulateQueueRequest
	settings carillonv1.ProposedQueue
	arrivals carillonv1.SimulatedArrivals
	run      carillonv1.AssumedRun
	every    *uint32
	p95      *uint32
	seed     *uint32
}

func newSimulateCommand(o *client.Client) *cobra.Command {
	v := &simulateFlags{}
	cmd := &cobra.Command{
		Use:   "simulate ID",
		Short: "Simulate a queue with other settings, side by side with the saved ones",
		Long: "Plays the admissions of a queue on a virtual clock, with what is in it now and the run times of the last runs\n" +
			"that ended, and shows how long runs wait, when all have ended, and how much of each limit is used. Proposed\n" +
			"settings are compared with the saved ones. Nothing is written. --file takes a whole request as the API does,\n" +
			"for several arrivals and durations.",
		Example: "  carillon queue simulate gpu --max-in-flight 2\n" +
			"  carillon queue simulate gpu --limit customer:4 --for 8h\n" +
			"  carillon queue simulate gpu --backlog none --arrive-every 30s --duration 2m --p95 10m",
		Args: command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req, err := v.requestFor(o, args[0])
			if err != nil {
				return err
			}
			return client.ShowAnswer(ctx, o, l, l.Queues().SimulateQueue, req, writeSimulation)
		}),
	}
	f := cmd.Flags()
	f.StringVarP(&v.file, "file", "f", "", "a request `FILE` as JSON or YAML; - is standard input")
	f.Func("max-in-flight", "proposed `NUMBER` of runs with the executor at the same time", command.Uint32(&v.settings.MaxInFlight))
	command.RateFlags(cmd, &v.settings.Rate)
	f.Lookup("rate").Usage = "proposed `STARTS/DURATION`: how many may start per time, evenly spaced, such as 10/1s"
	f.Func("promote-after", "proposed `DURATION` after which a run passes runs of higher priorities", command.Millis(&v.settings.PromoteAfterMs))
	f.BoolVar(&v.settings.Resumed, "resumed", false, "as if a pause of the queue ended now")
	f.Func("limit", "proposed max_in_flight of a limit: `LIMIT:NUMBER`, with an id or ID=KEY; may be repeated", v.limit)
	f.StringVar(&v.request.Backlog, "backlog", "", "`WORD`: now (default) with what is in the queue, or none")
	f.Func("arrive-every", "`DURATION` between two runs that enter the queue (default: none enters)", command.Millis(&v.every))
	f.Func("arrive-runs", "`NUMBER` of runs that enter each time (default 1)", command.Uint32(&v.arrivals.Runs))
	f.BoolVar(&v.arrivals.Random, "arrive-random", false, "runs enter at random; --arrive-every is the mean")
	f.StringSliceVar(&v.arrivals.Limits, "arrive-limit", nil, "`LIMIT` that these runs use: its id, or ID=KEY; may be repeated")
	f.Func("duration", "`DURATION` of each run (default: as the last runs of its workflow); with --p95, the median", command.Millis(&v.run.DurationMs))
	f.Func("p95", "95th percentile `DURATION` of the runs", command.Millis(&v.p95))
	f.Func("for", "`DURATION` to simulate (default 1h)", command.Millis(&v.request.ForMs))
	f.Func("seed", "random seed `NUMBER` for durations and arrivals", command.Uint32(&v.seed))
	command.CompleteValues(cmd, "backlog", []string{"now", "none"})
	return cmd
}

func (v *simulateFlags) limit(text string) error {
	at := strings.LastIndex(text, ":")
	if at < 0 {
		return fmt.Errorf("write LIMIT:NUMBER, such as gpu:2 or customer=a7:1")
	}
	n, err := strconv.ParseUint(text[at+1:], 10, 32)
	if err != nil {
		return fmt.Errorf("write LIMIT:NUMBER, such as gpu:2 or customer=a7:1")
	}
	most := uint32(n)
	v.request.Limits = append(v.request.Limits, &carillonv1.ProposedLimit{Limit: text[:at], MaxInFlight: &most})
	return nil
}

// requestFor is the request of the file, with the flags on top.
func (v *simulateFlags) requestFor(o *client.Client, id string) (*carillonv1.SimulateQueueRequest, error) {
	req := &carillonv1.SimulateQueueRequest{}
	if v.file != "" {
		if err := readMessage(o.CLI, v.file, req); err != nil {
			return nil, err
		}
	}
	flagged := &v.request
	if v.seed != nil {
		flagged.Seed = *v.seed
	}
	if v.every != nil {
		v.arrivals.EveryMs = *v.every
	}
	if !proto.Equal(&v.arrivals, &carillonv1.SimulatedArrivals{}) {
		flagged.Arrivals = []*carillonv1.SimulatedArrivals{&v.arrivals}
	}
	if v.p95 != nil {
		v.run.P95Ms = *v.p95
	}
	if !proto.Equal(&v.run, &carillonv1.AssumedRun{}) {
		flagged.Durations = []*carillonv1.SimulatedDuration{{Run: &v.run}}
	}
	if !proto.Equal(&v.settings, &carillonv1.ProposedQueue{}) {
		flagged.Definition = &v.settings
	}
	flagged.Compare = flagged.Definition != nil || len(flagged.Limits) > 0
	proto.Merge(req, flagged)
	req.QueueId = id
	return req, nil
}

// writeSimulation writes the queues side by side, then limits, keys and the longest waits.
func writeSimulation(p *render.Page, resp *carillonv1.SimulateQueueResponse) {
	names, queues := []string{"simulated"}, []*carillonv1.SimulatedQueue{resp.GetProposed()}
	if resp.GetSaved() != nil {
		names, queues = []string{"saved", "proposed"}, []*carillonv1.SimulatedQueue{resp.GetSaved(), resp.GetProposed()}
	}
	n := func(n uint32) string { return fmt.Sprint(n) }
	var rows, limits, keys, waits [][]string
	for i, q := range queues {
		ends := "no"
		switch {
		case q.GetLastEndAt() != nil:
			ends = p.When(q.GetLastEndAt())
		case q.GetRuns() == 0:
			ends = ""
		}
		rows = append(rows, []string{
			names[i], n(q.GetMaxInFlight()), n(q.GetRuns()), n(q.GetStarted()), n(q.GetWaiting()), render.Millis(q.GetWaitP50Ms()), render.Millis(q.GetWaitP90Ms()),
			render.Millis(q.GetWaitMaxMs()), fmt.Sprintf("%.3g", q.GetStartsPerMinute()), n(q.GetUsedPercent()) + " %", ends,
		})
		for _, l := range q.GetLimits() {
			most := "any"
			if l.MaxInFlight != nil {
				most = n(l.GetMaxInFlight())
			}
			limits = append(limits, []string{names[i], l.GetLimit(), most, n(l.GetMostUsed()), n(l.GetUsedPercent()) + " %"})
		}
		if len(q.GetKeys()) > 1 {
			keys = append(keys, keyRows(names[i], q)...)
		}
		waits = append(waits, waitRows(p, names[i], q)...)
	}
	p.Table([]string{"settings", "max in flight", "runs", "started", "waiting", "wait p50", "wait p90", "longest", "starts/min", "used", "all ended"}, rows)
	for _, t := range []struct {
		header []string
		rows   [][]string
	}{
		{[]string{"settings", "limit", "max in flight", "most used", "used"}, limits},
		{[]string{"settings", "limits of the runs", "runs", "started", "wait p50", "wait p90", "longest"}, keys},
		{[]string{"settings", "longest waits", "wait", "started"}, waits},
	} {
		if len(t.rows) > 0 {
			p.Line("")
			p.Table(t.header, t.rows)
		}
	}
	p.Line("")
	for _, sentence := range resp.GetAssumes() {
		p.Line("%s.", sentence)
	}
}

// keyRows are the waits by the limits of the runs.
func keyRows(name string, q *carillonv1.SimulatedQueue) (rows [][]string) {
	for _, k := range q.GetKeys() {
		rows = append(rows, []string{
			name, strings.Join(k.GetLimits(), " "), fmt.Sprint(k.GetRuns()), fmt.Sprint(k.GetStarted()), render.Millis(k.GetWaitP50Ms()), render.Millis(k.GetWaitP90Ms()), render.Millis(k.GetWaitMaxMs()),
		})
	}
	return rows
}

// waitsShown bounds the longest waits in the table.
const waitsShown = 3

func waitRows(p *render.Page, name string, q *carillonv1.SimulatedQueue) (rows [][]string) {
	for _, w := range q.GetLongest()[:min(len(q.GetLongest()), waitsShown)] {
		run, started := w.GetArrivals(), "still waits"
		if key := w.GetIdempotencyKey(); key != "" {
			run = render.ShortKey(key)
		}
		if w.GetStartedAt() != nil {
			started = p.When(w.GetStartedAt())
		}
		rows = append(rows, []string{name, run, render.Millis(w.GetWaitMs()), started})
	}
	return rows
}
