package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
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

// durable is whether Postgres is to survive a crash, as benchmarks want it.
var durable bool

// serverFolders is where the servers' folders go.
func serverFolders() string {
	if durable {
		return os.TempDir() // folderBase may be memory
	}
	return folderBase()
}

func main() {
	// The kernel ends the servers when the thread that started them ends
	// (see dieWithParent): so this one must stay for as long as we do.
	runtime.LockOSThread()

	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "withservices:", err)
	}
	os.Exit(code)
}

// run starts what is missing, runs the command, and stops what it started:
// also when it panics, since the stopping is deferred.
func run(args []string) (int, error) {
	if len(args) > 0 && args[0] == "-durable" {
		durable, args = true, args[1:]
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return exitUsage, errors.New("no command given (withservices -- COMMAND ARGUMENTS)")
	}

	ctx, release := signal.NotifyContext(context.Background(), forwarded...)
	defer release()

	removeLeftovers(serverFolders())
	var servers running
	defer func() { servers.stop() }()
	if err := servers.start(ctx, wanted(os.Getenv)); err != nil {
		if ctx.Err() != nil {
			return exitInterrupted, errors.New("interrupted while the servers started")
		}
		return exitFailure, err
	}
	return runCommand(ctx, args, servers.environ())
}
