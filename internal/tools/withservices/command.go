package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/carillon/carillon/internal/tools/servers"
)

// signalGrace is how long a command may take to end after a signal before it
// is killed.
const signalGrace = 15 * time.Second

// runCommand runs the command with our own input and output and the extra
// environment, hands on the signals that we get, and returns its exit code.
// setup is done when a signal came before the command started.
func runCommand(setup context.Context, args, extraEnv []string) (int, error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, forwarded...)
	defer signal.Stop(signals)
	// From here on no signal is lost: it came before (setup is done) or it is
	// in the channel.
	if setup.Err() != nil {
		return exitInterrupted, errors.New("interrupted before the command started")
	}

	command := exec.Command(args[0], args[1:]...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.Env = append(os.Environ(), extraEnv...)
	// Without us, and soon without servers, there is nothing left to run for.
	command.SysProcAttr = &syscall.SysProcAttr{}
	servers.DieWithParent(command.SysProcAttr, syscall.SIGTERM)
	if err := servers.StartChild(command); err != nil {
		return exitFailure, fmt.Errorf("start the command: %w", err)
	}

	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	for {
		select {
		case received := <-signals:
			// It fails only when the command has just ended: nothing to do.
			_ = command.Process.Signal(received)
			last := time.AfterFunc(signalGrace, func() { _ = command.Process.Kill() })
			defer last.Stop()
		case err := <-ended:
			return exitCode(err)
		}
	}
}

// exitCode turns the result of Wait into the code that a shell would give.
func exitCode(err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case !errors.As(err, &exit):
		return exitFailure, fmt.Errorf("wait for the command: %w", err)
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), fmt.Errorf("the command was ended by %v", status.Signal())
	}
	return exit.ExitCode(), nil
}
