package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/alert"
	"github.com/carillon/carillon/internal/cli/apply"
	"github.com/carillon/carillon/internal/cli/backfill"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/crontab"
	"github.com/carillon/carillon/internal/cli/event"
	"github.com/carillon/carillon/internal/cli/explain"
	"github.com/carillon/carillon/internal/cli/grant"
	"github.com/carillon/carillon/internal/cli/group"
	"github.com/carillon/carillon/internal/cli/limit"
	"github.com/carillon/carillon/internal/cli/overlap"
	"github.com/carillon/carillon/internal/cli/preview"
	"github.com/carillon/carillon/internal/cli/queue"
	"github.com/carillon/carillon/internal/cli/run"
	"github.com/carillon/carillon/internal/cli/schedule"
	"github.com/carillon/carillon/internal/cli/server"
	"github.com/carillon/carillon/internal/cli/topic"
	"github.com/carillon/carillon/internal/cli/workflow"
)

const (
	groupRun     = "run"
	groupAsk     = "ask"
	groupOperate = "operate"
)

func newRootCommand(c *command.CLI) *cobra.Command {
	root := command.Group("carillon", "Carillon starts workflows on time")
	root.Long = "Carillon starts workflows on time: a durable cron scheduler that starts each run once in effect\n" +
		"and can always say why a run did or did not happen.\n\n" +
		"Exit codes: 0 success, 1 failed, 2 invalid command line, 3 a dry run or drift found changes,\n" +
		"4 not found."
	root.Example = "  carillon dev\n" +
		"  carillon schedule upsert --id nightly --workflow report --version 1 --user ada --cron '30 2 * * *' --tz Europe/Berlin\n" +
		"  carillon preview --cron '30 2 * * *' --tz America/New_York"
	root.Version = c.Version
	root.SetVersionTemplate("carillon {{.Version}}\n")
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return command.Usage(cmd, "%w", undashed(err)) })
	root.AddGroup(
		&cobra.Group{ID: groupRun, Title: "Server:"},
		&cobra.Group{ID: groupAsk, Title: "Client:"},
		&cobra.Group{ID: groupOperate, Title: "Operate:"},
	)
	root.SetHelpCommandGroupID(groupAsk)
	root.SetCompletionCommandGroupID(groupAsk)
	add := func(group string, commands ...*cobra.Command) {
		for _, cmd := range commands {
			cmd.GroupID = group
			refuseArguments(cmd)
		}
		root.AddCommand(commands...)
	}
	add(groupRun, server.NewDevCommand(c), server.NewServeCommand(c), server.NewMigrateCommand(c), server.NewShardsCommand(c), server.NewTokenCommand(c))
	add(groupRun, server.NewDoctorCommand(c), server.NewHealthCommand(c))
	add(groupAsk, preview.NewPreviewCommand(c), explain.NewCommand(c), preview.NewForecastCommand(c), preview.NewSimulateCommand(c), newVersionCommand(c), newManCommand())
	add(groupOperate, schedule.NewCommand(c), workflow.NewCommand(c), grant.NewCommand(c), run.NewCommand(c), queue.NewCommand(c), queue.NewEnqueueCommand(c), queue.NewReserveCommand(c), queue.NewPullCommand(c), group.NewCommand(c), limit.NewCommand(c), event.NewCommand(c), topic.NewCommand(c), overlap.NewCommand(c), run.NewWebhookCommand(c), backfill.NewCommand(c), server.NewWorkerCommand(c), server.NewAuditCommand(c), alert.NewCommand(c), alert.NewNotifyCommand(c),
		apply.NewApplyCommand(c), apply.NewDriftCommand(c), apply.NewExportCommand(c), crontab.NewImportCommand(c))
	return root
}

// undashed adds a hint to the error of a time such as -2h, which pflag reads as flags.
func undashed(err error) error {
	_, flag, found := strings.Cut(err.Error(), "unknown shorthand flag: ")
	if !found || len(flag) < 3 || flag[1] < '0' || flag[1] > '9' {
		return err
	}
	return fmt.Errorf("%w; write a time in the past without a dash, such as 2h", err)
}

// refuseArguments makes the errors of Args usage errors.
func refuseArguments(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		refuseArguments(sub)
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return command.Usage(cmd, "%w", err)
			}
			return nil
		}
	}
}
