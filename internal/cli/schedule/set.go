package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func newSetCommand(o *client.Client) *cobra.Command {
	var input string
	var unset []string
	var revision uint32
	flagged := &carillonv1.UpsertScheduleRequest{}
	cmd := &cobra.Command{
		Use:   "set ID",
		Short: "Change single fields of a schedule",
		Long: "Changes the fields that flags name, and keeps all others. --cron, --every and --at replace each other.\n" +
			"--unset names fields of the API that take their default, and labels.NAME for one label.",
		Example: "  carillon schedule set nightly --cron '0 4 * * *'\n" +
			"  carillon schedule set nightly --overlap queue --label team=data --unset labels.old,priority\n" +
			"  carillon schedule set nightly --version 8 --if-revision 3",
		Args: command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			req := &carillonv1.PatchScheduleRequest{ScheduleId: args[0], Schedule: flagged, Adopt: flagged.GetAdopt()}
			if revision > 0 {
				req.Etag = fmt.Sprint(revision)
			}
			if input != "" {
				raw, err := o.Content(input)
				if err != nil {
					return err
				}
				flagged.Input = raw
			}
			if flagged.GetExpect() != nil || flagged.GetRetry() != nil || flagged.GetConsume() != nil { // their flags set parts of one field
				if err := completeParts(ctx, l, req); err != nil {
					return err
				}
			}
			req.UpdateMask = &fieldmaskpb.FieldMask{Paths: append(setPaths(flagged), unset...)}
			if len(req.GetUpdateMask().GetPaths()) == 0 {
				return errors.New("nothing to change: give a flag such as --cron, or --unset FIELD")
			}
			resp, err := client.Call(ctx, l, l.Schedules().PatchSchedule, req)
			if err != nil {
				return err
			}
			return showPatched(o, resp)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&input, "input", "", "`JSON` for the executor, or @FILE")
	f.StringSliceVar(&unset, "unset", nil, "`FIELDS` that take their default, by the API's names")
	f.Uint32Var(&revision, "if-revision", 0, "fail unless the schedule has this revision `NUMBER`")
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	identityFlags(all, flagged)
	for _, fixed := range []string{"id", "user", "request-id"} {
		all.Lookup(fixed).Hidden = true
	}
	all.VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden {
			f.AddFlag(flag)
		}
	})
	timingFlags(f, flagged)
	policyFlags(o.CLI, f, flagged)
	expectFlags(f, flagged)
	command.RetryFlags(f, &flagged.Retry, command.OfSchedules)
	return cmd
}

// completeParts adds the stored parts of expect, retry and consume that no flag sets. The etag makes the
// call fail if they have changed meanwhile.
func completeParts(ctx context.Context, l *client.Link, req *carillonv1.PatchScheduleRequest) error {
	found, err := client.Call(ctx, l, l.Schedules().GetSchedule, &carillonv1.GetScheduleRequest{ScheduleId: req.GetScheduleId()})
	if err != nil {
		return err
	}
	if req.Etag == "" {
		req.Etag = fmt.Sprint(found.GetSchedule().GetRevision())
	}
	now, flagged := found.GetSchedule(), req.GetSchedule()
	if now.GetExpect() != nil && flagged.GetExpect() != nil {
		whole := proto.CloneOf(now.GetExpect())
		proto.Merge(whole, flagged.GetExpect())
		flagged.Expect = whole
	}
	if now.GetRetry() != nil && flagged.GetRetry() != nil {
		whole := proto.CloneOf(now.GetRetry())
		if len(flagged.GetRetry().GetOn()) > 0 {
			whole.On = nil // a list is replaced
		}
		proto.Merge(whole, flagged.GetRetry())
		flagged.Retry = whole
	}
	if now.GetConsume() != nil && flagged.GetConsume() != nil {
		whole := proto.CloneOf(now.GetConsume())
		if len(flagged.GetConsume().GetTopics()) > 0 {
			whole.Topics = nil
		}
		proto.Merge(whole, flagged.GetConsume())
		flagged.Consume = whole
	}
	return nil
}

// setPaths is the mask of the fields that flags have set. A rule replaces the other
// kinds of rules; a label keeps other labels.
func setPaths(req *carillonv1.UpsertScheduleRequest) []string {
	var paths []string
	rules := []string{"cron_expr", "interval_ms", "once_at"}
	req.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		switch name := string(field.Name()); {
		case name == "adopt":
		case name == "labels":
			for label := range req.GetLabels() {
				paths = append(paths, "labels."+label)
			}
		case slices.Contains(rules, name):
			paths = append(paths, rules...)
		default:
			paths = append(paths, name)
		}
		return true
	})
	slices.Sort(paths)
	return slices.Compact(paths)
}

func showPatched(c *client.Client, resp *carillonv1.PatchScheduleResponse) error {
	if resp.GetWarning() != "" {
		if _, err := fmt.Fprintln(c.ErrOut, "warning:", resp.GetWarning()); err != nil {
			return err
		}
	}
	return c.Show(resp, func(p *render.Page) {
		s := resp.GetSchedule()
		next := "no next run (paused, exhausted, or started by hand or by events)"
		if s.GetNextRunAt() != nil {
			next = "next run " + p.When(s.GetNextRunAt())
		}
		if !resp.GetChanged() {
			p.Line("%s: unchanged; %s", s.GetScheduleId(), next)
			return
		}
		p.Line("%s: changed, revision %d; %s", s.GetScheduleId(), s.GetRevision(), next)
	})
}
