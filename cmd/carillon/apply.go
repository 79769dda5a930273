package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// applyTimeout is what a call with thousands of schedules may take.
const applyTimeout = time.Minute

const defaultSet = "default"

// applied is what the flags of apply and drift say.
type applied struct {
	*client
	files []string
	set   string
	user  string
}

func newApplied(c *cli, cmd *cobra.Command) *applied {
	a := &applied{client: newClient(c), set: defaultSet}
	a.flags(cmd)
	a.patient(cmd)
	f := cmd.Flags()
	f.StringArrayVarP(&a.files, "file", "f", nil, "`FILE` as YAML or JSON, or a folder of them; may be repeated; - is standard input")
	f.StringVar(&a.set, "set", a.set, "`NAME` of the set that the files are the whole of")
	f.StringVar(&a.user, "user", "", "`ID` of the owner of schedules that name none, and of those of workflows")
	a.completesFlags(cmd)
	return a
}

// patient makes the timeout of one call longer than others need.
func (c *client) patient(cmd *cobra.Command) {
	c.timeout = applyTimeout
	cmd.PersistentFlags().Lookup("timeout").DefValue = applyTimeout.String()
}

func newApplyCommand(c *cli) *cobra.Command {
	req := &carillonv1.ApplySchedulesRequest{}
	cmd := &cobra.Command{
		Use:   "apply -f FILE|DIR... [--set NAME]",
		Short: "Make the schedules of a set what the files say, all or nothing",
		Long: "Reads schedules and workflows (DAGs with their triggers) from YAML and JSON files, and makes the schedules\n" +
			"of the set what they say, in one transaction: new ones are created, others changed, and with --prune those\n" +
			"that the files no longer hold deleted. What is as it should be is not touched, and a pause stays a pause.\n\n" +
			"Of a folder, every *.yaml, *.yml and *.json in it and below; hidden files and symbolic links are passed over.\n" +
			"A document with schedule_id is a schedule, with the fields of `schedule upsert -f`; one with triggers is a\n" +
			"workflow; a list holds several. Schedules that another set or a deployment manages are refused without --adopt.\n\n" +
			"--dry-run shows what would change, which fires would go and come, and what the busiest minute would launch;\n" +
			"it exits with 3 if there is anything.",
		Example: "  carillon apply -f schedules/ --set billing --user ada --dry-run --prune\n" +
			"  carillon apply -f schedules/ --set billing --user ada --prune --request-id ci-4711\n" +
			"  carillon apply -f nightly.yaml",
		Args: cobra.ArbitraryArgs, // what a shell makes of -f *.yaml
	}
	a := newApplied(c, cmd)
	f := cmd.Flags()
	f.BoolVar(&req.DryRun, "dry-run", false, "change nothing, and show what would; exits with 3 if anything would")
	f.BoolVar(&req.Prune, "prune", false, "delete the schedules of the set that the files no longer hold; needs --set")
	f.BoolVar(&req.AllowEmpty, "allow-empty", false, "let --prune delete the whole set where the files hold nothing")
	f.BoolVar(&req.Adopt, "adopt", false, "take over schedules that another set or a deployment manages")
	f.StringVar(&req.RequestId, "request-id", "", "`ID` that makes a repeat harmless even after another apply")
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if a.files = append(a.files, args...); len(a.files) == 0 {
			return usage(cmd, "there is nothing to apply: give -f FILE or -f DIR")
		}
		if req.Prune && !cmd.Flags().Changed("set") {
			return usage(cmd, "--prune deletes what the files do not hold: name the --set that they are the whole of")
		}
		return nil
	}
	cmd.RunE = a.ask(func(ctx context.Context, l *link, _ []string) error {
		resp, err := a.apply(ctx, l, req)
		if err != nil {
			return err
		}
		err = a.show(resp, func(p *page) { p.applied(resp, a.set, req.GetDryRun()) })
		if err == nil && req.GetDryRun() && resp.GetChanged() {
			return errDiffers
		}
		return err
	})
	return cmd
}

// apply fills req from the files and sends it. What is refused is named by its
// place in the files.
func (a *applied) apply(ctx context.Context, l *link, req *carillonv1.ApplySchedulesRequest) (*carillonv1.ApplySchedulesResponse, error) {
	l.work.say("reading files")
	files, err := a.setFiles(a.files)
	if err != nil {
		return nil, err
	}
	s := &fileSet{user: a.user, req: req}
	for _, name := range files {
		text, err := a.file(name)
		if err != nil {
			return nil, err
		}
		s.read(name, text)
	}
	if err := s.problems.Err(); err != nil {
		return nil, err
	}
	if len(s.schedules)+len(s.workflows) == 0 && !req.GetAllowEmpty() {
		return nil, fmt.Errorf("the files hold no schedule and no workflow")
	}
	req.Set = a.set
	if size := proto.Size(req); size > schedule.MaxApplyBytes {
		return nil, fmt.Errorf("the set has %d bytes, more than the %d that one apply may have: make more than one set of it", size, schedule.MaxApplyBytes)
	}
	l.work.say("%s set %s: %d schedules, %d workflows", doing(req.GetDryRun()), a.set, len(s.schedules), len(s.workflows))
	resp, err := call(ctx, l, schedules(l).ApplySchedules, req)
	return resp, s.located(err)
}

func doing(dry bool) string {
	if dry {
		return "comparing"
	}
	return "applying"
}

func newDriftCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drift -f FILE|DIR... [--set NAME]",
		Short: "What differs from the files: changed by hand, missing, or left over",
		Long: "Compares the schedules of a set with the files that it was applied from, and changes nothing. Exits with 3 if\n" +
			"they differ. Pauses are the operators' and no difference.",
		Example: "  carillon drift -f schedules/ --set billing --user ada",
		Args:    cobra.ArbitraryArgs,
	}
	a := newApplied(c, cmd)
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if a.files = append(a.files, args...); len(a.files) == 0 {
			return usage(cmd, "what is to be compared? give -f FILE or -f DIR")
		}
		return nil
	}
	cmd.RunE = a.ask(func(ctx context.Context, l *link, _ []string) error {
		resp, err := a.apply(ctx, l, &carillonv1.ApplySchedulesRequest{DryRun: true, Prune: true, AllowEmpty: true, Adopt: true})
		if err != nil {
			return err
		}
		if err := a.show(resp, func(p *page) { p.drift(resp, a.set) }); err != nil || !resp.GetChanged() {
			return err
		}
		return errDiffers
	})
	return a.watched(cmd)
}
