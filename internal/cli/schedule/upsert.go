package schedule

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/rawjson"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar/api/editable"
)

func newUpsertCommand(o *client.Client) *cobra.Command {
	var file, input string
	flagged := &carillonv1.UpsertScheduleRequest{}
	cmd := &cobra.Command{
		Use:   "upsert",
		Short: "Create a schedule, or replace its whole definition",
		Long: "Creates a schedule or replaces its whole definition. Unset fields take their defaults, except that a paused\n" +
			"schedule stays paused and a managed schedule keeps its manager. The same definition again changes nothing.\n" +
			"With -f the definition is JSON or YAML with the API's field names, or what `schedule get -o yaml` prints; flags\n" +
			"then replace single fields. Unset fields take their defaults: to change single fields, use `schedule set`.",
		Example: "  carillon schedule upsert --id nightly --workflow report --version 1 --user ada --cron '30 2 * * *' --tz Europe/Berlin\n" +
			"  carillon schedule upsert --id poll --workflow fetch --version 2 --user ada --every 30s --jitter 5s --input @input.json\n" +
			"  carillon schedule upsert -f nightly.yaml",
		Args: command.ExactArgs(),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, _ []string) error {
			req := &carillonv1.UpsertScheduleRequest{}
			if file != "" {
				if err := readDefinitionFile(o.CLI, file, req); err != nil {
					return err
				}
			}
			proto.Merge(req, flagged)
			if input != "" {
				raw, err := o.Content(input)
				if err != nil {
					return err
				}
				req.Input = raw
			}
			var header metadata.MD
			upsert := func(ctx context.Context, req *carillonv1.UpsertScheduleRequest, options ...grpc.CallOption) (*carillonv1.UpsertScheduleResponse, error) {
				return l.Schedules().UpsertSchedule(ctx, req, append(options, grpc.Header(&header))...)
			}
			resp, err := client.Call(ctx, l, upsert, req)
			if err != nil {
				return err
			}
			return showUpserted(o, resp, slices.Equal(header.Get("carillon-changed"), []string{"false"}))
		}),
	}
	f := cmd.Flags()
	f.StringVarP(&file, "file", "f", "", "definition `FILE` as JSON or YAML; - is standard input")
	f.StringVar(&input, "input", "", "`JSON` for the executor, or @FILE")
	identityFlags(f, flagged)
	timingFlags(f, flagged)
	policyFlags(o.CLI, f, flagged)
	expectFlags(f, flagged)
	command.RetryFlags(f, &flagged.Retry, command.OfSchedules)
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "timeout-run" {
			name = "run-timeout"
		}
		return pflag.NormalizedName(name)
	})
	command.CompleteValues(cmd, "dst", []cronexpr.DST{cronexpr.Vixie, cronexpr.Literal})
	command.CompleteValues(cmd, "tz", cronexpr.Zones())
	command.CompleteValues(cmd, "overlap", schedule.OverlapPolicies)
	command.CompleteValues(cmd, "catchup", schedule.CatchupPolicies)
	return cmd
}

func showUpserted(c *client.Client, resp *carillonv1.UpsertScheduleResponse, unchanged bool) error {
	if resp.GetWarning() != "" {
		if _, err := fmt.Fprintln(c.ErrOut, "warning:", resp.GetWarning()); err != nil {
			return err
		}
	}
	return c.Show(resp, func(p *render.Page) {
		next := "no next run (paused, exhausted, or started by hand or by events)"
		if resp.GetNextRunAt() != nil {
			next = "next run " + p.When(resp.GetNextRunAt())
		}
		if unchanged {
			next = "unchanged; " + next
		}
		p.Line("%s: %s", resp.GetScheduleId(), next)
	})
}

func identityFlags(f *pflag.FlagSet, req *carillonv1.UpsertScheduleRequest) {
	f.StringVar(&req.ScheduleId, "id", "", "`ID` of the schedule (default: derived from --user and --request-id)")
	f.StringVar(&req.WorkflowId, "workflow", "", "`ID` of the workflow to start")
	f.Int32Var(&req.Version, "version", 0, "`NUMBER` of the workflow's version")
	f.StringVar(&req.UserId, "user", "", "`ID` of the owner")
	f.Func("label", "`NAME=VALUE`; may be repeated", command.Label(&req.Labels))
	f.StringVar(&req.ExecutionGrantId, "grant", "", "`ID` of the execution grant")
	f.StringVar(&req.ManagedBy, "managed-by", "", "`NAME` of the tool that manages the schedule (default: unchanged)")
	f.BoolVar(&req.Adopt, "adopt", false, "take over a schedule that has another manager; without --managed-by it ends up unmanaged")
	f.BoolFunc("paused", "pause it, or resume it with --paused=false (default: unchanged)", command.Bool(&req.Paused))
	f.StringVar(&req.RequestId, "request-id", "", "`ID` that makes a repeat safe without --id")
}

func timingFlags(f *pflag.FlagSet, req *carillonv1.UpsertScheduleRequest) {
	f.Func("cron", "cron `EXPR`: 5 fields, 6 with leading seconds, or a macro", command.Text(&req.CronExpr))
	f.Func("every", "`DURATION` between runs, in real time", command.Millis(&req.IntervalMs))
	f.Func("at", "`TIME` (RFC 3339) of a single run", command.Time(&req.OnceAt))
	f.Func("tz", "IANA time `ZONE` of --cron (default UTC)", command.Text(&req.Timezone))
	f.Func("start-at", "no run before this `TIME`", command.Time(&req.StartAt))
	f.Func("end-at", "no run after this `TIME`", command.Time(&req.EndAt))
	f.Func("jitter", "shift each run by up to this `DURATION` either way", command.Millis(&req.JitterMs))
	f.Func("dst", "`POLICY` when the clock changes: vixie (default) or literal", command.Text(&req.Dst))
}

func policyFlags(c *command.CLI, f *pflag.FlagSet, req *carillonv1.UpsertScheduleRequest) {
	f.Func("overlap", "`POLICY` while a run is in flight: allow, skip (default), queue, replace or coalesce", command.Text(&req.OverlapPolicy))
	f.Func("overlap-key", "`KEY` of schedules that count as one for --overlap (default: the id)", command.Text(&req.OverlapKey))
	f.Func("max-queued", "`NUMBER` of slots that may wait with --overlap queue, or of manual runs with coalesce", command.Uint32(&req.MaxQueued))
	f.Func("catchup", "`POLICY` for missed runs: none (default), fire_immediately, spread or latest", command.Text(&req.CatchupPolicy))
	f.Func("catchup-window", "how far back missed runs are caught up: a `DURATION`", command.Millis(&req.CatchupWindowMs))
	f.Func("run-timeout", "`DURATION` after which a run without a report fails", command.Millis(&req.RunTimeoutMs))
	f.Func("max-run", "`DURATION` after its acceptance at which a run fails (default: with --queue that of the queue, else never)", command.Millis(&req.MaxRunMs))
	f.Func("expires", "with --queue: `DURATION` for which a run may wait in it (default: that of the queue)", command.Millis(&req.ExpiresMs))
	f.Func("launch-timeout", "`DURATION` after its fire time in which a run must be accepted (default: LAUNCH_RETRY_FOR_MS)", command.Millis(&req.LaunchTimeoutMs))
	f.Func("priority", "`NUMBER`; higher goes first among due runs", command.Int32(&req.Priority))
	f.StringVar(&req.QueueId, "queue", "", "`ID` of the dispatch queue that its runs enter (default: they are launched at once)")
	f.StringSliceVar(&req.Limits, "limit", nil, "with --queue: `LIMIT` that each run uses: its id, or ID=KEY; may be repeated")
	f.Func("fair-key", "with --queue: `KEY` that its runs count for in a fair queue (default: the owner)", command.FairKey(&req.FairKey))
	f.StringVar(&req.Group, "group", "", "with --queue: `NAME` of the group that its runs of one instant join, with those of other schedules")
	consume := func() *carillonv1.Consume {
		if req.Consume == nil {
			req.Consume = &carillonv1.Consume{}
		}
		return req.Consume
	}
	f.Func("consume", "`TOPIC` of events that start its runs: an id, or a beginning such as orders.*; may be repeated", func(text string) error {
		consume().Topics = append(consume().Topics, text)
		return nil
	})
	f.Func("max-events", "with --consume: `NUMBER` of events that one run gets at most (default 100)", func(text string) error {
		var most *uint32
		err := command.Uint32(&most)(text)
		if err == nil {
			consume().MaxEvents = *most
		}
		return err
	})
	f.Func("filter", "with --consume: pattern of the events that start its runs, as `JSON` or @FILE (default: all of the topics)", func(text string) (err error) {
		consume().Filter, err = c.Content(text)
		return err
	})
	f.StringVar(&req.Webhook, "webhook", "", "`NAME` of the target that is told of the ends of runs (default: with --queue that of the queue)")
}

// readDefinitionFile reads an upsert: JSON if the text begins with a brace, else YAML.
func readDefinitionFile(c *command.CLI, name string, req *carillonv1.UpsertScheduleRequest) error {
	text, err := c.ReadFile(name)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		if text, err = render.JSONFromYAML(text); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := readDefinition(text, req); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// readDefinition reads an upsert, or the output of `schedule get`: then req is the
// upsert that does not change that schedule.
func readDefinition(text []byte, req *carillonv1.UpsertScheduleRequest) error {
	var shown struct {
		Schedule json.RawMessage `json:"schedule"`
		Revision json.RawMessage `json:"revision"`
	}
	if json.Unmarshal(text, &shown) != nil || shown.Schedule == nil && shown.Revision == nil {
		return rawjson.Unmarshal(text, req)
	}
	got := &carillonv1.GetScheduleResponse{Schedule: &carillonv1.Schedule{}}
	var into proto.Message = got
	if shown.Schedule == nil {
		into = got.GetSchedule()
	}
	if err := rawjson.Unmarshal(text, into); err != nil {
		return err
	}
	proto.Merge(req, editable.Definition(got.GetSchedule()))
	return nil
}
