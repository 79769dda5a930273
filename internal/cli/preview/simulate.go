package preview

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/rawjson"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// simulateFlags are the flags of simulate.
type simulateFlags struct {
	*client.Client
	file    string
	shown   int
	request carillonv1.SimulateSchedulesRequest
	rule    carillonv1.SimulatedSchedule // the rule and the policies of the flags
	run     carillonv1.AssumedRun
	saved   []string
	p95     *uint32
	fails   *uint32
	seed    *uint32
}

func NewSimulateCommand(c *command.CLI) *cobra.Command {
	v := &simulateFlags{Client: client.New(c), shown: client.DefaultLimit}
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Simulate every slot with assumed run durations, outages and pauses",
		Long: "Simulates schedules on a virtual clock with the real planner and worker, over any window, and shows the outcome\n" +
			"of every slot: launched when and how late, skipped and why, queued, missed, caught up,\n" +
			"replaced. --schedule names saved schedules, several if they share an overlap key; --cron, --every\n" +
			"and --at define one that is not saved; policy flags replace the saved policies. --file takes a whole\n" +
			"request as REST does, for run times and pauses of each schedule. Nothing is written.",
		Example: "  carillon simulate --every 1m --duration 90s --overlap queue --from 2027-03-01T00:00:00Z --until 2027-03-01T01:00:00Z\n" +
			"  carillon simulate --schedule nightly --schedule hourly --from 7d --until 14d --outage 2027-03-01T01:00:00Z/2h --catchup latest\n" +
			"  carillon simulate --file scenario.json -o json",
		Args: command.ExactArgs(),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if v.file != "" {
				return command.OnlyFlags(cmd, "limit", "output", "server", "timeout", "file")
			}
			return v.buildRequest(cmd)
		},
		RunE: v.Ask(v.simulate),
	}
	v.Flags(cmd)
	v.ruleFlags(cmd)
	f := cmd.Flags()
	f.StringVarP(&v.file, "file", "f", "", "a whole request, as JSON: a `FILE`, or - for standard input")
	f.Func("from", "start of the window: a `TIME` (RFC 3339), or a duration from now (default: now)", v.TimeFromNow(&v.request.From, 1))
	f.Func("until", "end of the window: a `TIME` (RFC 3339), or a duration from now (default: 24h after its start)", v.TimeFromNow(&v.request.Until, 1))
	f.Func("outage", "when no worker runs: `TIME/DURATION` or TIME/TIME; may be repeated", timeSpans(&v.request.Outages))
	f.Func("executor-outage", "when the executor accepts no connection: `TIME/DURATION` or TIME/TIME; may be repeated", timeSpans(&v.request.ExecutorOutages))
	f.Func("pause", "when the schedules are paused: `TIME/DURATION` or TIME/TIME; may be repeated", timeSpans(&v.rule.Pauses))
	f.Func("duration", "`DURATION` of each run (default 1s); with --p95, the median", command.Millis(&v.run.DurationMs))
	f.Func("p95", "95th percentile `DURATION` of the runs", command.Millis(&v.p95))
	f.Func("failures", "failure rate in percent: a `NUMBER`", command.Uint32(&v.fails))
	f.Func("seed", "random seed `NUMBER` for durations and failures", command.Uint32(&v.seed))
	f.IntVar(&v.shown, "limit", v.shown, "show at most this `NUMBER` of slots in the table; 0 = all")
	return v.CompleteFlags(cmd)
}

// ruleFlags adds the flags of a schedule.
func (v *simulateFlags) ruleFlags(cmd *cobra.Command) {
	f, rule := cmd.Flags(), &v.rule
	f.StringArrayVar(&v.saved, "schedule", nil, "`ID` of a saved schedule; may be repeated")
	f.Func("cron", "cron `EXPR` of an unsaved schedule", command.Text(&rule.CronExpr))
	f.Func("every", "`DURATION` between slots of an unsaved schedule", command.Millis(&rule.IntervalMs))
	f.Func("at", "`TIME` (RFC 3339) of the only slot of an unsaved schedule", command.Time(&rule.OnceAt))
	f.Func("tz", "IANA time `ZONE` (default UTC)", command.Text(&rule.Timezone))
	f.Func("dst", "`POLICY` when the clock changes: vixie (default) or literal", command.Text(&rule.Dst))
	f.Func("jitter", "`DURATION` of random shift, either way", command.Millis(&rule.JitterMs))
	f.Func("overlap", "`POLICY` while a run is in flight: allow, skip, queue, replace or coalesce", command.Text(&rule.OverlapPolicy))
	f.Func("overlap-key", "`KEY`: schedules with the same key count as one", command.Text(&rule.OverlapKey))
	f.Func("max-queued", "`NUMBER` of slots that may wait", command.Uint32(&rule.MaxQueued))
	f.Func("catchup", "`POLICY` for missed slots: none, fire_immediately, spread or latest", command.Text(&rule.CatchupPolicy))
	f.Func("catchup-window", "`DURATION`: older slots are not caught up", command.Millis(&rule.CatchupWindowMs))
	f.Func("run-timeout", "`DURATION` after which a run without a report fails", command.Millis(&rule.RunTimeoutMs))
	f.Func("launch-timeout", "`DURATION` after its fire time in which a run must be accepted; matters with --executor-outage", command.Millis(&rule.LaunchTimeoutMs))
	command.CompleteValues(cmd, "overlap", schedule.OverlapPolicies)
	command.CompleteValues(cmd, "catchup", schedule.CatchupPolicies)
	command.CompleteValues(cmd, "dst", []cronexpr.DST{cronexpr.Vixie, cronexpr.Literal})
	command.CompleteValues(cmd, "tz", cronexpr.Zones())
}

// buildRequest makes the request from the flags.
func (v *simulateFlags) buildRequest(cmd *cobra.Command) error {
	ruled := v.rule.CronExpr != nil || v.rule.IntervalMs != nil || v.rule.OnceAt != nil
	switch {
	case !ruled && len(v.saved) == 0:
		return command.Usage(cmd, "give one of --schedule, --cron, --every, --at and --file")
	case ruled && len(v.saved) > 1:
		return command.Usage(cmd, "--cron, --every and --at allow one --schedule, which determines the jitter; use --file for several")
	case v.shown < 0:
		return command.Usage(cmd, "--limit %d is negative; 0 = all", v.shown)
	}
	if v.request.From == nil {
		v.request.From = timestamppb.New(v.Now().Truncate(time.Second))
	}
	if v.request.Until == nil {
		v.request.Until = timestamppb.New(v.request.From.AsTime().Add(render.Day))
	}
	set := func(to *uint32, from *uint32) {
		if from != nil {
			*to = *from
		}
	}
	set(&v.run.P95Ms, v.p95)
	set(&v.run.FailurePercent, v.fails)
	set(&v.request.Seed, v.seed)
	v.rule.Run = &v.run
	if len(v.saved) == 0 {
		v.saved = []string{""}
	}
	for _, id := range v.saved {
		v.request.Schedules = append(v.request.Schedules, v.ofSchedule(id))
	}
	return nil
}

// ofSchedule is the rule of the flags for one schedule.
func (v *simulateFlags) ofSchedule(id string) *carillonv1.SimulatedSchedule {
	r := &v.rule
	return &carillonv1.SimulatedSchedule{
		ScheduleId: id, CronExpr: r.CronExpr, IntervalMs: r.IntervalMs, OnceAt: r.OnceAt, Timezone: r.Timezone, JitterMs: r.JitterMs, Dst: r.Dst,
		OverlapPolicy: r.OverlapPolicy, OverlapKey: r.OverlapKey, MaxQueued: r.MaxQueued, CatchupPolicy: r.CatchupPolicy,
		CatchupWindowMs: r.CatchupWindowMs, RunTimeoutMs: r.RunTimeoutMs, LaunchTimeoutMs: r.LaunchTimeoutMs, Run: r.Run, Pauses: r.Pauses,
	}
}

func (v *simulateFlags) simulate(ctx context.Context, l *client.Link, _ []string) error {
	req := &v.request
	if v.file != "" {
		text, err := v.Client.ReadFile(v.file)
		if err != nil {
			return err
		}
		if err := rawjson.Unmarshal(text, req); err != nil {
			return fmt.Errorf("read %s: %w", v.file, err)
		}
	}
	resp, err := client.Call(ctx, l, l.Schedules().SimulateSchedules, req)
	if err != nil {
		return err
	}
	return v.Show(resp, func(p *render.Page) { writeSimulation(p, resp, v.shown) })
}

// timeSpans parses TIME/DURATION or TIME/TIME. Each call adds one.
func timeSpans(field *[]*carillonv1.SimulatedSpan) func(string) error {
	return func(s string) error {
		begin, end, _ := strings.Cut(s, "/")
		from, err := command.ParseTime(begin)
		if err != nil {
			return fmt.Errorf("write TIME/DURATION, such as 2027-03-01T01:00:00Z/2h, or TIME/TIME")
		}
		until, err := command.ParseTime(end)
		if d, notSpan := command.ParseDuration(end); notSpan == nil {
			until, err = from.Add(d), nil
		}
		if err != nil {
			return fmt.Errorf("write TIME/DURATION, such as 2027-03-01T01:00:00Z/2h, or TIME/TIME")
		}
		*field = append(*field, &carillonv1.SimulatedSpan{From: timestamppb.New(from), Until: timestamppb.New(until)})
		return nil
	}
}
