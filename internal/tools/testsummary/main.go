package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

func main() {
	code, err := run(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsummary:", err)
	}
	os.Exit(code)
}

func run(args []string, out io.Writer) (int, error) {
	// Before go test starts, so that no signal can come in between.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)

	began := time.Now()
	// By no profile: go test would compile all that cmd/carillon needs once more.
	command := exec.Command("go", append([]string{"test", "-json", "-pgo=off"}, args...)...)
	command.Stderr = os.Stderr
	// go test does not hand signals on to the tests: in a group of their own
	// they can all be reached.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	events, err := command.StdoutPipe()
	if err != nil {
		return 1, fmt.Errorf("read from go test: %w", err)
	}
	if err := command.Start(); err != nil {
		return 1, fmt.Errorf("start go test: %w", err)
	}

	stop := interruptOn(signals, command.Process.Pid)
	defer stop()
	r := newReport(out)
	readErr := readEvents(events, r)
	waitErr := command.Wait()
	r.close(time.Since(began))
	return exitCode(waitErr, readErr)
}

// interruptOn interrupts the process group at each signal, until stop is
// called. What go test and the tests then say is still read and printed.
func interruptOn(signals <-chan os.Signal, group int) (stop func()) {
	stopped := make(chan struct{})
	var forwarder sync.WaitGroup
	forwarder.Go(func() {
		for {
			select {
			case <-signals:
				// It fails only when all have just ended: nothing to do.
				_ = syscall.Kill(-group, syscall.SIGINT)
			case <-stopped:
				return
			}
		}
	})
	return func() {
		close(stopped)
		forwarder.Wait()
	}
}

// readEvents gives each line of go test -json to the report. What is no event
// is printed as it is.
func readEvents(lines io.Reader, r *report) error {
	reader := bufio.NewReader(lines)
	for {
		line, err := reader.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil {
				r.add(e)
			} else {
				r.print(string(line))
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read from go test: %w", err)
		}
	}
}

// exitCode is go test's, except that a success which could not be read to its
// end is none.
func exitCode(waitErr, readErr error) (int, error) {
	var exit *exec.ExitError
	switch {
	case errors.As(waitErr, &exit) && exit.Exited():
		return exit.ExitCode(), readErr
	case waitErr != nil:
		return 1, errors.Join(fmt.Errorf("go test: %w", waitErr), readErr)
	case readErr != nil:
		return 1, readErr
	}
	return 0, nil
}
