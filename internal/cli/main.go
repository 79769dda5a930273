// Package cli is the command line of Carillon. serve and dev run the roles of a
// server. The other commands call a running server over gRPC, or need none
// (preview, doctor).
//
// A command turns flags into one call and prints a table or JSON. Only the server
// checks values, so that the command line, REST and gRPC refuse the same requests
// with the same texts.
package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/carillon/carillon/internal/app"
	"github.com/carillon/carillon/internal/cli/command"
)

// Main runs the command line of this process and exits with its code. version is
// the release's, or empty in a build without one.
func Main(version string) {
	app.TuneMemory()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	c := &command.CLI{
		In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr,
		Now: time.Now, Env: os.Getenv, Version: release(version),
		Terminal: isTerminal(os.Stdout),
	}
	dumb := os.Getenv("TERM") == "dumb"
	c.Color = c.Terminal && os.Getenv("NO_COLOR") == "" && !dumb
	if isTerminal(os.Stderr) && !dumb {
		c.Screen = os.Stderr
	}
	os.Exit(Run(ctx, c, os.Args[1:]))
}

// isTerminal reports whether f is a terminal: a character device, except the null
// device.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// Run executes one command line and returns the exit code.
func Run(ctx context.Context, c *command.CLI, args []string) int {
	root := newRootCommand(c)
	root.SetArgs(args)
	root.SetIn(c.In)
	root.SetOut(c.Out)
	root.SetErr(c.ErrOut)
	ran, err := root.ExecuteContextC(ctx)
	return c.Report(ran, err)
}
