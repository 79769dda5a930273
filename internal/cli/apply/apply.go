package apply

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// defaultSet is the set without --set.
const defaultSet = "default"

// fileFlags are the flags of apply and drift.
type fileFlags struct {
	*client.Client
	files []string
	set   string
	user  string
}

func newFileFlags(c *command.CLI, cmd *cobra.Command) *fileFlags {
	a := &fileFlags{Client: client.New(c), set: defaultSet}
	a.Flags(cmd)
	a.LongTimeout(cmd)
	f := cmd.Flags()
	f.StringArrayVarP(&a.files, "file", "f", nil, "`FILE` as YAML or JSON, or a folder of them; may be repeated; - is standard input")
	f.StringVar(&a.set, "set", a.set, "`NAME` of the set that the files define")
	f.StringVar(&a.user, "user", "", "`ID` of the owner of schedules without user_id, and of workflows' schedules")
	a.CompleteFlags(cmd)
	return a
}

func NewApplyCommand(c *command.CLI) *cobra.Command {
	req := &carillonv1.ApplySchedulesRequest{}
	cmd := &cobra.Command{
		Use:   "apply -f FILE|DIR... [--set NAME]",
		Short: "Create, change and delete schedules to match files, all or nothing",
		Long: "Reads schedules and workflows (DAGs with triggers) from YAML and JSON files and brings the schedules of the\n" +
			"set in line with them, in one transaction: it creates new schedules, changes others, and with --prune deletes\n" +
			"those that are no longer in the files. Unchanged schedules are not touched, and paused schedules stay paused.\n\n" +
			"In a folder, every *.yaml, *.yml and *.json is read, also in subfolders, except hidden files and symbolic links.\n" +
			"A document with schedule_id is a schedule, with the fields of `schedule upsert -f`; a document with triggers is a\n" +
			"workflow; a list holds several. Schedules that another set or a deployment manages are refused without --adopt.\n\n" +
			"--dry-run shows what would change, which runs would be removed and added, and the load of the busiest minute.\n" +
			"It exits with 3 if anything would change.",
		Example: "  carillon apply -f schedules/ --set billing --user ada --dry-run --prune\n" +
			"  carillon apply -f schedules/ --set billing --user ada --prune --request-id ci-4711\n" +
			"  carillon apply -f nightly.yaml",
		Args: cobra.ArbitraryArgs, // a shell expands -f *.yaml to one flag and arguments
	}
	a := newFileFlags(c, cmd)
	f := cmd.Flags()
	f.BoolVar(&req.DryRun, "dry-run", false, "change nothing, show what would change; exit with 3 if anything would")
	f.BoolVar(&req.Prune, "prune", false, "delete the schedules of the set that are not in the files; needs --set")
	f.BoolVar(&req.AllowEmpty, "allow-empty", false, "let --prune delete the whole set if the files are empty")
	f.BoolVar(&req.Adopt, "adopt", false, "take over schedules that another set or a deployment manages")
	f.StringVar(&req.RequestId, "request-id", "", "`ID` that makes a repeat safe even after another apply")
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if a.files = append(a.files, args...); len(a.files) == 0 {
			return command.Usage(cmd, "-f is required: a file or folder to apply")
		}
		if req.Prune && !cmd.Flags().Changed("set") {
			return command.Usage(cmd, "--prune needs --set: it deletes the schedules of the set that are not in the files")
		}
		return nil
	}
	cmd.RunE = a.Ask(func(ctx context.Context, l *client.Link, _ []string) error {
		resp, err := a.send(ctx, l, req)
		if err != nil {
			return err
		}
		err = a.Show(resp, func(p *render.Page) { WriteChanges(p, resp, a.set, req.GetDryRun()) })
		if err == nil && req.GetDryRun() && resp.GetChanged() {
			return command.ErrDiffers
		}
		return err
	})
	return cmd
}

// send fills req from the files and sends it. Errors name the place in the files.
func (a *fileFlags) send(ctx context.Context, l *client.Link, req *carillonv1.ApplySchedulesRequest) (*carillonv1.ApplySchedulesResponse, error) {
	l.Progress.Describe("reading files")
	files, err := filesOfSet(a.Client.CLI, a.files)
	if err != nil {
		return nil, err
	}
	s := &fileSet{user: a.user, req: req}
	for _, name := range files {
		text, err := a.ReadFile(name)
		if err != nil {
			return nil, err
		}
		s.read(name, text)
	}
	if err := s.problems.Err(); err != nil {
		return nil, err
	}
	if len(s.schedules)+len(s.workflows) == 0 && !req.GetAllowEmpty() {
		return nil, fmt.Errorf("the files contain no schedule and no workflow")
	}
	req.Set = a.set
	if size := proto.Size(req); size > schedule.MaxApplyBytes {
		return nil, fmt.Errorf("the set has %d bytes, more than %d for one apply: split it into several sets", size, schedule.MaxApplyBytes)
	}
	l.Progress.Describe("%s set %s: %d schedules, %d workflows", Verb(req.GetDryRun()), a.set, len(s.schedules), len(s.workflows))
	resp, err := client.Call(ctx, l, l.Schedules().ApplySchedules, req)
	return resp, s.locateError(err)
}

// Verb is the activity of an apply, for the progress.
func Verb(dry bool) string {
	if dry {
		return "comparing"
	}
	return "applying"
}

func NewDriftCommand(c *command.CLI) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drift -f FILE|DIR... [--set NAME]",
		Short: "Show how schedules differ from the files: changed by hand, missing, or left over",
		Long: "Compares the schedules of a set with the files that it was applied from. Changes nothing. Exits with 3 if\n" +
			"they differ. A pause does not count as a difference.",
		Example: "  carillon drift -f schedules/ --set billing --user ada",
		Args:    cobra.ArbitraryArgs,
	}
	a := newFileFlags(c, cmd)
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if a.files = append(a.files, args...); len(a.files) == 0 {
			return command.Usage(cmd, "-f is required: a file or folder to compare with")
		}
		return nil
	}
	cmd.RunE = a.Ask(func(ctx context.Context, l *client.Link, _ []string) error {
		resp, err := a.send(ctx, l, &carillonv1.ApplySchedulesRequest{DryRun: true, Prune: true, AllowEmpty: true, Adopt: true})
		if err != nil {
			return err
		}
		if err := a.Show(resp, func(p *render.Page) { writeDrift(p, resp, a.set) }); err != nil || !resp.GetChanged() {
			return err
		}
		return command.ErrDiffers
	})
	return a.WithWatch(cmd)
}
