package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/carillon/carillon/internal/tools/servers"
)

// Exit codes of our own, as shells use them.
const (
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// forwarded are the signals that the command gets to see, and that end the
// servers once it has acted on them.
var forwarded = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "withservices:", err)
	}
	os.Exit(code)
}

// run starts the missing servers, runs the command, and stops what it started:
// also when it panics, since the stopping is deferred.
func run(args []string) (int, error) {
	var options servers.Options
	if len(args) > 0 && args[0] == "-durable" {
		options.Durable, args = true, args[1:]
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return exitUsage, errors.New("no command given (withservices -- COMMAND ARGUMENTS)")
	}

	ctx, release := signal.NotifyContext(context.Background(), forwarded...)
	defer release()

	servers.RemoveLeftovers(options.Base())
	var started servers.Set
	defer func() { started.Stop() }()
	if err := started.Start(ctx, options, os.Getenv); err != nil {
		if ctx.Err() != nil {
			return exitInterrupted, errors.New("interrupted while the servers started")
		}
		return exitFailure, err
	}
	return runCommand(ctx, args, started.Environ())
}
