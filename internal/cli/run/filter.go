package run

import (
	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/schedule"
)

// filterFlags is which runs are asked for: the fields that every request for many
// runs has.
type filterFlags struct {
	scheduleID, workflowID, userID *string
	status                         *[]string
	reason, trigger                **string
}

// flags gives a command the flags that fill the filter.
func (f filterFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(f.scheduleID, "schedule", "", "only of this schedule `ID`")
	flags.StringVar(f.workflowID, "workflow", "", "only of this workflow `ID`")
	flags.StringVar(f.userID, "user", "", "only of this owner `ID`")
	flags.StringSliceVar(f.status, "status", nil, "only with one of these `STATUSES`, separated by commas")
	flags.Func("reason", "only with this `REASON`", command.Text(f.reason))
	flags.Func("trigger", "only with this `TRIGGER`", command.Text(f.trigger))
	command.CompleteValues(cmd, "status", schedule.Statuses)
	command.CompleteValues(cmd, "reason", schedule.Reasons)
	command.CompleteValues(cmd, "trigger", schedule.Triggers)
}
