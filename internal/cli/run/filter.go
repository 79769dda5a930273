package run

import (
	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/schedule"
)

// filterFlags are the fields that all requests for several runs have.
type filterFlags struct {
	scheduleID, workflowID, userID *string
	status                         *[]string
	reason, trigger                **string
}

// flags adds the flags that set the fields.
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
