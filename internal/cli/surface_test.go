package cli_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli"
	"github.com/carillon/carillon/internal/cli/command"
)

// leaves are the commands that do something.
func leaves(cmd *cobra.Command) (all []*cobra.Command) {
	for _, sub := range cmd.Commands() {
		all = append(all, leaves(sub)...)
	}
	if len(all) == 0 || len(cmd.ValidArgs) > 0 || cmd.Use == "backfill SCHEDULE" {
		all = append(all, cmd)
	}
	return all
}

// A command that joins later is held to what its neighbours can.
func TestEveryCommandThatListsOrShowsCanBeWatchedAndCompleted(t *testing.T) {
	shows := []string{"list", "get", "events", "revisions", "deliveries", "explain", "forecast", "drift", "doctor"}
	seen := 0
	for _, cmd := range leaves(cli.NewRootCommand(&command.CLI{Env: func(string) string { return "" }})) {
		if slices.Contains(shows, cmd.Name()) {
			seen++
			for _, flag := range []string{"output", "watch"} {
				if cmd.Flag(flag) == nil {
					t.Errorf("%s has no --%s", cmd.CommandPath(), flag)
				}
			}
		}
		// preview --id is any text; the rest name something that exists.
		_, argument, _ := strings.Cut(cmd.Use, " ")
		first, _, _ := strings.Cut(argument, " ")
		if ids := []string{"ID", "KEY", "SCHEDULE", "DELIVERY", "WORKFLOW"}; slices.Contains(ids, first) && cmd.ValidArgsFunction == nil && cmd.CommandPath() != "carillon workflow put" {
			t.Errorf("%s does not complete %s", cmd.CommandPath(), first)
		}
		for _, name := range []string{"schedule", "workflow", "user", "managed-by", "set", "alert", "grant"} {
			if _, done := cmd.GetFlagCompletionFunc(name); cmd.Flags().Lookup(name) != nil && !done {
				t.Errorf("%s does not complete --%s", cmd.CommandPath(), name)
			}
		}
	}
	if seen < 15 {
		t.Errorf("only %d commands list or show", seen)
	}
}
