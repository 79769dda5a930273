package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/rawjson"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// simulated is what the flags of simulate say.
type simulated struct {
	*client
	file    string
	shown   int
	request carillonv1.SimulateSchedulesRequest
	rule    carillonv1.SimulatedSchedule // of the flags
	run     carillonv1.AssumedRun
	saved   []string
	p95     *uint32
	fails   *uint32
	seed    *uint32
}

func newSimulateCommand(c *cli) *cobra.Command {
	v := &simulated{client: newClient(c), shown: defaultLimit}
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "What would become of every slot, with assumed run times, outages and pauses",
		Long: "Plays schedules on a virtual clock, over any window, by the planner and the worker that fire schedules, and\n" +
			"says what would become of every slot: fired when and how late, skipped and why, queued, missed, caught up,\n" +
			"replaced. Saved schedules are named with --schedule, several if they share an overlap key; --cron, --every\n" +
			"and --at make one that is not saved; the policies given replace those of the saved ones. --file takes a whole\n" +
			"request as REST does, for run times and pauses of each schedule. Nothing is written.",
		Example: "  carillon simulate --every 1m --duration 90s --overlap queue --from 2027-03-01T00:00:00Z --until 2027-03-01T01:00:00Z\n" +
			"  carillon simulate --schedule nightly --schedule hourly --from 7d --until 14d --outage 2027-03-01T01:00:00Z/2h --catchup latest\n" +
			"  carillon simulate --file scenario.json -o json",
		Args: exactly(),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if v.file != "" {
				return onlyFlags(cmd, "limit", "output", "server", "timeout", "file")
			}
			return v.gather(cmd)
		},
		RunE: v.ask(v.simulate),
	}
	v.flags(cmd)
	v.ruleFlags(cmd)
	f := cmd.Flags()
	f.StringVarP(&v.file, "file", "f", "", "a whole request, as JSON: a `FILE`, or - for standard input")
	f.Func("from", "beginning of the window: a `TIME` (RFC 3339), or a duration from now (default: now)", v.fromNow(&v.request.From, 1))
	f.Func("until", "end of the window: a `TIME` (RFC 3339), or a duration from now (default: 24h after its beginning)", v.fromNow(&v.request.Until, 1))
	f.Func("outage", "when no worker is alive: `TIME/DURATION` or TIME/TIME; may be given again", spans(&v.request.Outages))
	f.Func("pause", "when the schedules are paused: `TIME/DURATION` or TIME/TIME; may be given again", spans(&v.rule.Pauses))
	f.Func("duration", "how long each run takes, a `DURATION` (default 1s); with --p95, what half of them stay below", millis(&v.run.DurationMs))
	f.Func("p95", "what 95 % of the runs stay below, a `DURATION`", millis(&v.p95))
	f.Func("failures", "how many of a hundred runs fail: a `NUMBER`", number32(&v.fails))
	f.Func("seed", "`NUMBER` that run times and failures are drawn from", number32(&v.seed))
	f.IntVar(&v.shown, "limit", v.shown, "show at most this `NUMBER` of slots in the table; 0 = all")
	return v.completesFlags(cmd)
}

// ruleFlags are those of a schedule.
func (v *simulated) ruleFlags(cmd *cobra.Command) {
	f, rule := cmd.Flags(), &v.rule
	f.StringArrayVar(&v.saved, "schedule", nil, "a saved schedule's `ID`; may be given again")
	f.Func("cron", "cron `EXPR` of a schedule that is not saved", optional(&rule.CronExpr))
	f.Func("every", "`DURATION` between slots of one that is not saved", millis(&rule.IntervalMs))
	f.Func("at", "`TIME` (RFC 3339) of the single slot of one that is not saved", instant(&rule.OnceAt))
	f.Func("tz", "IANA time `ZONE` (default UTC)", optional(&rule.Timezone))
	f.Func("dst", "`POLICY` when the clock changes: vixie (default) or literal", optional(&rule.Dst))
	f.Func("jitter", "`DURATION` by which slots are moved", millis(&rule.JitterMs))
	f.Func("overlap", "`POLICY` while a run is in flight: allow, skip, queue or replace", optional(&rule.OverlapPolicy))
	f.Func("overlap-key", "`KEY`: schedules with the same one count as one", optional(&rule.OverlapKey))
	f.Func("max-queued", "`NUMBER` of slots that may wait", number32(&rule.MaxQueued))
	f.Func("catchup", "`POLICY` for missed slots: none, fire_immediately, spread or latest", optional(&rule.CatchupPolicy))
	f.Func("catchup-window", "`DURATION`: nothing older is caught up", millis(&rule.CatchupWindowMs))
	f.Func("run-timeout", "`DURATION` after which a run without a sign of life has failed", millis(&rule.RunTimeoutMs))
	words(cmd, "overlap", schedule.OverlapPolicies)
	words(cmd, "catchup", schedule.CatchupPolicies)
	words(cmd, "dst", []cronexpr.DST{cronexpr.Vixie, cronexpr.Literal})
	words(cmd, "tz", cronexpr.Zones())
}

// gather makes a request of the flags.
func (v *simulated) gather(cmd *cobra.Command) error {
	ruled := v.rule.CronExpr != nil || v.rule.IntervalMs != nil || v.rule.OnceAt != nil
	switch {
	case !ruled && len(v.saved) == 0:
		return usage(cmd, "what is to be simulated? give --schedule, or a rule with --cron, --every or --at, or a whole request with --file")
	case ruled && len(v.saved) > 1:
		return usage(cmd, "a rule takes one --schedule at most, the id that its jitter is drawn from; write several with --file")
	case v.shown < 0:
		return usage(cmd, "--limit %d is negative; 0 = all", v.shown)
	}
	if v.request.From == nil {
		v.request.From = timestamppb.New(v.now().Truncate(time.Second))
	}
	if v.request.Until == nil {
		v.request.Until = timestamppb.New(v.request.From.AsTime().Add(day))
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
		v.request.Schedules = append(v.request.Schedules, v.of(id))
	}
	return nil
}

// of is what the flags say, for one schedule.
func (v *simulated) of(id string) *carillonv1.SimulatedSchedule {
	r := &v.rule
	return &carillonv1.SimulatedSchedule{
		ScheduleId: id, CronExpr: r.CronExpr, IntervalMs: r.IntervalMs, OnceAt: r.OnceAt, Timezone: r.Timezone, JitterMs: r.JitterMs, Dst: r.Dst,
		OverlapPolicy: r.OverlapPolicy, OverlapKey: r.OverlapKey, MaxQueued: r.MaxQueued, CatchupPolicy: r.CatchupPolicy,
		CatchupWindowMs: r.CatchupWindowMs, RunTimeoutMs: r.RunTimeoutMs, Run: r.Run, Pauses: r.Pauses,
	}
}

func (v *simulated) simulate(ctx context.Context, l *link, _ []string) error {
	req := &v.request
	if v.file != "" {
		text, err := v.client.file(v.file)
		if err != nil {
			return err
		}
		if err := rawjson.Unmarshal(text, req); err != nil {
			return fmt.Errorf("read %s: %w", v.file, err)
		}
	}
	resp, err := call(ctx, l, schedules(l).SimulateSchedules, req)
	if err != nil {
		return err
	}
	return v.show(resp, func(p *page) { p.simulation(resp, v.shown) })
}

// spans reads TIME/DURATION or TIME/TIME, one at each call.
func spans(field *[]*carillonv1.SimulatedSpan) func(string) error {
	return func(s string) error {
		begin, end, _ := strings.Cut(s, "/")
		from, err := parseInstant(begin)
		if err != nil {
			return fmt.Errorf("write TIME/DURATION, such as 2027-03-01T01:00:00Z/2h, or TIME/TIME")
		}
		until, err := parseInstant(end)
		if d, notSpan := parseSpan(end); notSpan == nil {
			until, err = from.Add(d), nil
		}
		if err != nil {
			return fmt.Errorf("write TIME/DURATION, such as 2027-03-01T01:00:00Z/2h, or TIME/TIME")
		}
		*field = append(*field, &carillonv1.SimulatedSpan{From: timestamppb.New(from), Until: timestamppb.New(until)})
		return nil
	}
}
