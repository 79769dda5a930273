package crontab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/apply"
	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func NewImportCommand(c *command.CLI) *cobra.Command {
	cmd := command.Group("import", "Import from another scheduler")
	cmd.AddCommand(newCrontabCommand(c))
	return cmd
}

// importFlags are the flags of import crontab.
type importFlags struct {
	*client.Client
	read    Options
	naming  Naming
	set     string
	user    string
	print   bool
	partial bool
	dryRun  bool
}

func newCrontabCommand(c *command.CLI) *cobra.Command {
	i := &importFlags{Client: client.New(c), set: "crontab", naming: Naming{Version: 1, Overlap: string(schedule.OverlapAllow)}}
	cmd := &cobra.Command{
		Use:   "crontab FILE",
		Short: "Import a crontab as workflows and schedules, or print them as YAML",
		Long: "Reads a crontab (- is standard input) and turns each line into a workflow with one command and one schedule, as a\n" +
			"set, in one transaction; --print writes them as YAML for `carillon apply` instead. The commands run where the\n" +
			"executor runs (EXECUTOR=local), in the home of its user, under the file's own SHELL and settings.\n\n" +
			"CRON_TZ sets the zone of the lines below it; --tz that of the lines above. % ends a command and begins its standard\n" +
			"input. What cannot be imported (@reboot, mail, users) is listed line by line on standard error. If that includes\n" +
			"a command, nothing is applied without --partial. A second import changes what differs; a changed\n" +
			"command needs another --version.",
		Example: "  carillon import crontab my.crontab --user ada --tz Europe/Berlin --print\n" +
			"  carillon import crontab /etc/crontab --user ops --tz Europe/Berlin --dry-run",
		Args:    command.ExactArgs("FILE"),
		PreRunE: i.check,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := c.ReadFile(args[0])
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("system") {
				i.read.System = systemCrontab(args[0])
			}
			found := Parse(string(text), i.read)
			workflows, err := found.Workflows(i.naming)
			if err != nil {
				return err
			}
			if err := i.showNotes(found); err != nil {
				return err
			}
			switch {
			case len(workflows) == 0:
				return errors.New("no command in the file can be imported")
			case i.print:
				return i.printYAML(args[0], workflows)
			case found.Lost() && !i.partial:
				return errors.New("nothing was applied: some commands cannot be imported, see above; --partial applies the others")
			}
			return i.Ask(func(ctx context.Context, l *client.Link, _ []string) error {
				return i.apply(ctx, l, args[0], workflows)
			})(cmd, args)
		},
	}
	i.Flags(cmd)
	i.LongTimeout(cmd)
	f := cmd.Flags()
	f.StringVar(&i.user, "user", "", "`ID` of the owner of the schedules")
	f.StringVar(&i.set, "set", i.set, "`NAME` of their set")
	f.StringVar(&i.read.Timezone, "tz", "UTC", "IANA `ZONE` that the machine's cron runs in, for lines before any CRON_TZ")
	f.BoolVar(&i.read.System, "system", false, "a system crontab: each line names a user (default for /etc/crontab and /etc/cron.d)")
	f.StringVar(&i.naming.Prefix, "prefix", "", "`TEXT` before the names of the workflows")
	f.Int32Var(&i.naming.Version, "version", i.naming.Version, "`NUMBER` of the workflows' version")
	f.StringVar(&i.naming.Overlap, "overlap", i.naming.Overlap, "`POLICY` while the previous run is in flight; cron's is allow")
	f.BoolVar(&i.print, "print", false, "print YAML for carillon apply instead of applying it")
	f.BoolVar(&i.partial, "partial", false, "apply the rest if some commands cannot be imported")
	f.BoolVar(&i.dryRun, "dry-run", false, "change nothing, show what would change; exit with 3 if anything would")
	command.CompleteValues(cmd, "tz", cronexpr.Zones())
	command.CompleteValues(cmd, "overlap", schedule.OverlapPolicies)
	return i.CompleteFlags(cmd)
}

// systemCrontab reports whether cron reads a file as one with a user column.
func systemCrontab(name string) bool {
	path, err := filepath.Abs(name)
	return err == nil && (path == "/etc/crontab" || filepath.Dir(path) == "/etc/cron.d")
}

func (i *importFlags) check(cmd *cobra.Command, _ []string) error {
	if i.user == "" && !i.print {
		return command.Usage(cmd, "--user is required: the owner of the schedules")
	}
	if _, err := cronexpr.LoadLocation(i.read.Timezone); err != nil {
		return command.Usage(cmd, "--tz: %w", err)
	}
	if i.naming.Version < 1 {
		return command.Usage(cmd, "--version %d is below 1", i.naming.Version)
	}
	return nil
}

// showNotes lists the lines that are not imported on standard error.
func (i *importFlags) showNotes(found *File) error {
	for _, n := range found.Notes {
		if _, err := io.WriteString(i.ErrOut, render.Legible(n.String())+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// printYAML prints the workflows as YAML documents.
func (i *importFlags) printYAML(from string, workflows []Workflow) error {
	var out strings.Builder
	if from == "-" {
		from = "standard input"
	}
	fmt.Fprintf(&out, "# Made from %s by carillon import crontab. Apply with:\n#   carillon apply -f FILE --set %s --user %s\n", render.Legible(from), i.set, orPlaceholder(i.user))
	for _, w := range workflows {
		text, err := render.YAMLFromJSON(w.DAG)
		if err != nil {
			return fmt.Errorf("line %d: %w", w.Entry.Line, err)
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	_, err := io.WriteString(i.Out, out.String())
	return err
}

func orPlaceholder(user string) string {
	if user == "" {
		return "OWNER"
	}
	return user
}

func (i *importFlags) apply(ctx context.Context, l *client.Link, from string, workflows []Workflow) error {
	req := &carillonv1.ApplySchedulesRequest{Set: i.set, DryRun: i.dryRun}
	var lines []int
	for _, w := range workflows {
		lines = append(lines, w.Entry.Line)
		req.Workflows = append(req.Workflows, &carillonv1.DeployWorkflowRequest{
			WorkflowId: w.ID, Version: i.naming.Version, UserId: i.user, Dag: w.DAG,
		})
	}
	l.Progress.Describe("%s set %s: %d commands", apply.Verb(i.dryRun), i.set, len(workflows))
	resp, err := client.Call(ctx, l, l.Schedules().ApplySchedules, req)
	if err != nil {
		return apply.LocateWorkflows(err, from, lines)
	}
	err = i.Show(resp, func(p *render.Page) { apply.WriteChanges(p, resp, i.set, i.dryRun) })
	if err == nil && i.dryRun && resp.GetChanged() {
		return command.ErrDiffers
	}
	return err
}
