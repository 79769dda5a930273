package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Group is a command that only has subcommands. Without this RunE, cobra answers a
// mistyped subcommand with the help text and exit code 0.
func Group(use, short string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
				return Usage(cmd, "unknown command %q; did you mean %s?", args[0], strings.Join(similar, " or "))
			}
			return Usage(cmd, "unknown command %q", args[0])
		},
		SuggestionsMinimumDistance: 2,
	}
}

// Args requires the arguments in required, and allows up to optional more.
func Args(required []string, optional int) cobra.PositionalArgs {
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

// ExactArgs requires exactly the named arguments.
func ExactArgs(names ...string) cobra.PositionalArgs { return Args(names, 0) }

// CompleteValues completes a flag with the values of a closed set. Only the server
// checks the value: a newer server may know more.
func CompleteValues[W ~string](cmd *cobra.Command, flag string, set []W) {
	list := make([]cobra.Completion, len(set))
	for i, word := range set {
		list[i] = string(word)
	}
	// An error means that the flag does not exist or is completed twice.
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}

// OnlyFlags refuses flags that have no effect in this use of a command. The error
// names the last of allowed.
func OnlyFlags(cmd *cobra.Command, allowed ...string) error {
	var idle error
	if slices.Contains(allowed, "server") { // the flags of the connection go with it
		allowed = slices.Concat([]string{"tls", "cacert", "cert", "key", "token-file"}, allowed)
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if idle == nil && !slices.Contains(allowed, f.Name) {
			idle = Usage(cmd, "--%s has no effect with --%s", f.Name, allowed[len(allowed)-1])
		}
	})
	return idle
}
