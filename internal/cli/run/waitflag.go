package run

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/carillon/carillon/internal/cli/command"
)

// waitAny is the value of --wait without one.
const waitAny = "any"

// Wait is the flag --wait: whether, and for how long, a command waits for the end of a run.
type Wait struct {
	On  bool
	For time.Duration // 0: any time

	until time.Time // the end of For, once the command has begun
}

// begin starts For, once.
func (w *Wait) begin() {
	if w.For > 0 && w.until.IsZero() {
		w.until = time.Now().Add(w.For)
	}
}

// left is how much of For is left, or of another time if the wait takes any.
func (w *Wait) left(other time.Duration) time.Duration {
	if w.until.IsZero() {
		return other
	}
	return max(time.Until(w.until), 0)
}

// Register adds the flag.
func (w *Wait) Register(f *pflag.FlagSet, usage string) {
	f.Var(w, "wait", usage)
	f.Lookup("wait").NoOptDefVal = waitAny
}

// Args says how a duration is written that would be one argument too many.
func (w *Wait) Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if err == nil || !w.On || w.For > 0 {
			return err
		}
		for _, arg := range args {
			if _, notSpan := command.ParseDuration(arg); notSpan == nil {
				return command.Usage(cmd, "write --wait=%s", arg)
			}
		}
		return err
	}
}

// Set reads the value.
func (w *Wait) Set(text string) error {
	switch text {
	case waitAny, "true":
		*w = Wait{On: true}
		return nil
	case "false":
		*w = Wait{}
		return nil
	}
	d, err := command.ParseDuration(text)
	if err == nil && d <= 0 {
		err = errors.New("write a duration above 0, or --wait alone for any time")
	}
	if err == nil {
		*w = Wait{On: true, For: d}
	}
	return err
}

func (w *Wait) String() string {
	switch {
	case !w.On:
		return ""
	case w.For == 0:
		return waitAny
	}
	return w.For.String()
}

// Type names the value in the help.
func (*Wait) Type() string { return "DURATION" }
