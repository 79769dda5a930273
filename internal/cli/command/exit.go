package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/schedule"
)

// Exit codes of every command.
const (
	ExitOK       = 0
	ExitFailed   = 1
	ExitUsage    = 2
	ExitDiffers  = 3
	ExitNotFound = 4
)

// Exit codes of commands that wait for the end of a run; 0 is SUCCESS.
const (
	ExitRunFailed    = 10
	ExitRunSkipped   = 11
	ExitRunCancelled = 12
	ExitRunGoesOn    = 13 // the wait was over before the run
)

// ErrDiffers is the result of a dry run that would change something.
var ErrDiffers error = &shownError{text: "something would change", code: ExitDiffers}

// shownError is an error that the command's output shows already. It only sets the
// exit code.
type shownError struct {
	text string
	code int
}

func (e *shownError) Error() string { return e.text }
func (e *shownError) ExitCode() int { return e.code }

// Shown makes an error that the command's output shows already.
func Shown(text string) error { return &shownError{text: text, code: ExitFailed} }

// Exit ends with a code, and says nothing.
func Exit(code int) error { return &shownError{text: "exit", code: code} }

// codedError is an error with an exit code of its own.
type codedError struct {
	error
	code int
}

func (e *codedError) ExitCode() int { return e.code }
func (e *codedError) Unwrap() error { return e.error }

// WithCode gives an error an exit code.
func WithCode(code int, err error) error { return &codedError{err, code} }

// usageError is an invalid command line.
type usageError struct {
	err     error
	command string
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// Usage is the error of an invalid command line. Report adds where to find the help.
func Usage(cmd *cobra.Command, format string, args ...any) error {
	var known *usageError
	if err := fmt.Errorf(format, args...); !errors.As(err, &known) {
		return &usageError{err: err, command: cmd.CommandPath()}
	}
	return known
}

// IsShown reports whether the command's output shows the error already.
func IsShown(err error) bool {
	var known *shownError
	return errors.As(err, &known)
}

// Report prints the error of a command and returns the exit code. With cmd == nil,
// fields keep their names in the API.
func (c *CLI) Report(cmd *cobra.Command, err error) int {
	if err == nil || IsShown(err) {
		return ExitCode(err)
	}
	message := "carillon: " + errorText(cmd, err) + "\n"
	var mistaken *usageError
	if errors.As(err, &mistaken) {
		message += "see: " + mistaken.command + " --help\n"
	}
	_, _ = io.WriteString(c.ErrOut, message) // if stderr is closed, the exit code still tells
	return ExitCode(err)
}

func ExitCode(err error) int {
	var mistaken *usageError
	var coded interface{ ExitCode() int }
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &mistaken):
		return ExitUsage
	case errors.As(err, &coded):
		return coded.ExitCode()
	case errors.Is(err, schedule.ErrNotFound):
		return ExitNotFound
	}
	return ExitFailed
}

// errorText is the error as one line, followed by one line per invalid field.
func errorText(cmd *cobra.Command, err error) string {
	var invalid *schedule.InvalidError
	if errors.As(err, &invalid) && len(invalid.Violations) > 0 {
		before := strings.TrimSuffix(err.Error(), invalid.Error()) // the text of errors that wrap it
		var out strings.Builder
		out.WriteString(render.Legible(before) + "invalid request:")
		for _, v := range invalid.Violations {
			out.WriteString("\n  " + render.Legible(sentence(withFlagNames(cmd, v))))
		}
		return out.String()
	}
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	return render.Legible(err.Error())
}
