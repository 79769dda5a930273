package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newGroup is a command that only holds others. Cobra would answer a mistyped
// one with the help text and success.
func newGroup(use, short string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
				return usage(cmd, "unknown command %q; did you mean %s?", args[0], strings.Join(similar, " or "))
			}
			return usage(cmd, "unknown command %q", args[0])
		},
		SuggestionsMinimumDistance: 2,
	}
}

// arguments demands the arguments that the use line names: all of required,
// and up to so many optional ones.
func arguments(required []string, optional int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < len(required) {
			return fmt.Errorf("%s is required", required[len(args)])
		}
		if most := len(required) + optional; len(args) > most {
			return fmt.Errorf("unexpected argument %q", args[most])
		}
		return nil
	}
}

func exactly(names ...string) cobra.PositionalArgs { return arguments(names, 0) }

// words completes a flag that takes one of a closed set. The server judges the
// value, so that a newer one may know more.
func words[W ~string](cmd *cobra.Command, flag string, set []W) {
	list := make([]cobra.Completion, len(set))
	for i, word := range set {
		list[i] = string(word)
	}
	// It fails only for a flag that does not exist or is completed twice.
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}

// onlyFlags refuses flags that this use of a command would not look at.
func onlyFlags(cmd *cobra.Command, allowed ...string) error {
	var idle error
	if slices.Contains(allowed, "server") { // and so whatever says how it is spoken to
		allowed = slices.Concat([]string{"tls", "cacert", "cert", "key", "token-file"}, allowed)
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if idle == nil && !slices.Contains(allowed, f.Name) {
			idle = usage(cmd, "--%s has no effect with --%s", f.Name, allowed[len(allowed)-1])
		}
	})
	return idle
}
