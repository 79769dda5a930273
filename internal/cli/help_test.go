package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

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
		return newRootCommand(&command.CLI{Now: time.Now, Env: func(string) string { return "" }})
	}
	commands(newRoot(), func(cmd *cobra.Command) {
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: the short text %q is missing or ends with a full stop", cmd.CommandPath(), cmd.Short)
		}
		if cmd.Example == "" && !cmd.HasSubCommands() {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		for example := range strings.Lines(cmd.Example) {
			words := split(example)
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

// split reads a line as a shell would, as far as the examples go.
func split(line string) []string {
	var words []string
	var word strings.Builder
	quoted, begun := false, false
	end := func() {
		if begun {
			words = append(words, word.String())
		}
		word.Reset()
		begun = false
	}
	for _, r := range strings.TrimSpace(line) {
		switch {
		case r == '\'':
			quoted, begun = !quoted, true
		case !quoted && (r == '>' || r == '<'):
			return words
		case !quoted && r == ' ':
			end()
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	end()
	return words
}

func TestHelpGroupsTheCommands(t *testing.T) {
	got := execute(t, surroundings{}, "--help")
	if got.code != command.ExitOK {
		t.Fatalf("exit %d: %s", got.code, got.errs)
	}
	for _, title := range []string{"Server:\n", "Client:\n", "Operate:\n"} {
		if !strings.Contains(got.out, title) {
			t.Errorf("no group %q in\n%s", title, got.out)
		}
	}
	if strings.Contains(got.out, "Additional Commands") {
		t.Errorf("a command is in no group:\n%s", got.out)
	}
}

func TestVersionNamesTheZoneData(t *testing.T) {
	got := execute(t, surroundings{}, "version", "-o", "json")
	var v map[string]string
	if err := json.Unmarshal([]byte(got.out), &v); err != nil || v["tzdata"] == "" || v["version"] == "" {
		t.Errorf("%v: %s", err, got.out)
	}
	if short := execute(t, surroundings{}, "--version"); short.out != "carillon "+v["version"]+"\n" {
		t.Errorf("got %q", short.out)
	}
}

func TestCompletionKnowsTheClosedSets(t *testing.T) {
	for _, tt := range []struct{ args, want []string }{
		{args: []string{"schedule", "upsert", "--overlap", ""}, want: []string{"allow", "skip", "queue", "replace"}},
		{args: []string{"run", "list", "--status", ""}, want: []string{"PLANNED", "LAUNCHING", "ENQUEUED", "STARTED", "SUCCESS", "FAILED", "SKIPPED", "CANCELLED"}},
		{args: []string{"run", "list", "-o", ""}, want: []string{"table", "wide", "json", "yaml"}},
	} {
		got := execute(t, surroundings{}, append([]string{"__complete"}, tt.args...)...)
		words := strings.Split(got.out, "\n")
		if diff := cmp.Diff(tt.want, words[:min(len(words), len(tt.want))]); diff != "" {
			t.Errorf("%v: %s", tt.args, diff)
		}
	}
}
