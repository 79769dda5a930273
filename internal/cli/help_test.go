package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli"
	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/command"
)

// commands calls visit for every command of ours.
func commands(cmd *cobra.Command, visit func(*cobra.Command)) {
	if cmd.Name() == "help" || cmd.Name() == "completion" {
		return
	}
	visit(cmd)
	for _, sub := range cmd.Commands() {
		commands(sub, visit)
	}
}

func TestEveryCommandHasAnExampleThatItUnderstands(t *testing.T) {
	newRoot := func() *cobra.Command {
		return cli.NewRootCommand(&command.CLI{Now: time.Now, Env: func(string) string { return "" }})
	}
	commands(newRoot(), func(cmd *cobra.Command) {
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: the short text %q is missing or ends with a full stop", cmd.CommandPath(), cmd.Short)
		}
		if cmd.Example == "" && !cmd.HasSubCommands() {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		for example := range strings.Lines(cmd.Example) {
			words := clitest.Split(example)
			for len(words) > 0 && strings.Contains(words[0], "=") { // the environment
				words = words[1:]
			}
			if len(words) == 0 || words[0] != "carillon" {
				t.Errorf("%s: the example %q does not run carillon", cmd.CommandPath(), example)
				continue
			}
			found, rest, err := newRoot().Find(words[1:])
			if err == nil {
				err = found.ParseFlags(rest)
			}
			if err == nil {
				err = found.ValidateArgs(found.Flags().Args())
			}
			if err != nil {
				t.Errorf("%s: example %q: %v", cmd.CommandPath(), example, err)
			}
		}
	})
}

func TestHelpGroupsTheCommands(t *testing.T) {
	got := clitest.Run(t, clitest.Env{}, "--help")
	if got.Code != command.ExitOK {
		t.Fatalf("exit %d: %s", got.Code, got.ErrOut)
	}
	for _, title := range []string{"Server:\n", "Client:\n", "Operate:\n"} {
		if !strings.Contains(got.Out, title) {
			t.Errorf("no group %q in\n%s", title, got.Out)
		}
	}
	if strings.Contains(got.Out, "Additional Commands") {
		t.Errorf("a command is in no group:\n%s", got.Out)
	}
}

func TestVersionNamesTheZoneData(t *testing.T) {
	got := clitest.Run(t, clitest.Env{}, "version", "-o", "json")
	var v map[string]string
	if err := json.Unmarshal([]byte(got.Out), &v); err != nil || v["tzdata"] == "" || v["version"] == "" {
		t.Errorf("%v: %s", err, got.Out)
	}
	if short := clitest.Run(t, clitest.Env{}, "--version"); short.Out != "carillon "+v["version"]+"\n" {
		t.Errorf("got %q", short.Out)
	}
}

func TestCompletionKnowsTheClosedSets(t *testing.T) {
	for _, tt := range []struct{ args, want []string }{
		{args: []string{"schedule", "upsert", "--overlap", ""}, want: []string{"allow", "skip", "queue", "replace"}},
		{args: []string{"run", "list", "--status", ""}, want: []string{"PLANNED", "LAUNCHING", "ENQUEUED", "STARTED", "SUCCESS", "FAILED", "SKIPPED", "CANCELLED"}},
		{args: []string{"run", "list", "-o", ""}, want: []string{"table", "wide", "json", "yaml"}},
	} {
		got := clitest.Run(t, clitest.Env{}, append([]string{"__complete"}, tt.args...)...)
		words := strings.Split(got.Out, "\n")
		if diff := cmp.Diff(tt.want, words[:min(len(words), len(tt.want))]); diff != "" {
			t.Errorf("%v: %s", tt.args, diff)
		}
	}
}

func TestManPagesOfEveryCommand(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	got := clitest.Run(t, clitest.Env{}, "man", dir)
	if got.Code != command.ExitOK {
		t.Fatal(got.ErrOut)
	}
	page, err := os.ReadFile(filepath.Join(dir, "carillon-explain.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`.TH "CARILLON" "1"`, `carillon explain SCHEDULE [TIME] | KEY`, `--watch`} {
		if !strings.Contains(strings.ReplaceAll(string(page), `\-`, "-"), part) {
			t.Errorf("no %q in the page:\n%s", part, page)
		}
	}
}
