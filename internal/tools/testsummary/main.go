package main

import (
	"bufio"
	"bytes"
	"cmp"
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
	r := newReport(out)
	defer func() { r.close(time.Since(began)) }()
	dirs, args := modules(args)
	code := 0
	var problems []error
	for _, dir := range dirs {
		got, interrupted, err := testIn(dir, args, signals, r)
		code, problems = cmp.Or(code, got), append(problems, err)
		if interrupted {
			break
		}
	}
	return code, errors.Join(problems...)
}

// modules are the directories to run go test in: this one, and one for each -also
// DIR at the beginning of args.
func modules(args []string) (dirs, rest []string) {
	dirs = []string{"."}
	for len(args) >= 2 && args[0] == "-also" {
		dirs, args = append(dirs, args[1]), args[2:]
	}
	return dirs, args
}

// testIn runs go test in one directory.
func testIn(dir string, args []string, signals <-chan os.Signal, r *report) (code int, interrupted bool, err error) {
	// By no profile: go test would compile all that cmd/carillon needs once more.
	command := exec.Command("go", append([]string{"test", "-json", "-pgo=off"}, args...)...)
	command.Dir = dir
	command.Stderr = os.Stderr
	// go test does not hand signals on to the tests: in a group of their own
	// they can all be reached.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	events, err := command.StdoutPipe()
	if err != nil {
		return 1, false, fmt.Errorf("read from go test: %w", err)
	}
	if err := command.Start(); err != nil {
		return 1, false, fmt.Errorf("start go test: %w", err)
	}

	stop := interruptOn(signals, command.Process.Pid)
	readErr := readEvents(events, r)
	waitErr := command.Wait()
	interrupted = stop()
	code, err = exitCode(waitErr, readErr)
	return code, interrupted, err
}

// interruptOn interrupts the process group at each signal, until stop is
// called, which reports whether there was one. What go test and the tests then say
// is still read and printed.
func interruptOn(signals <-chan os.Signal, group int) (stop func() bool) {
	stopped, interrupted := make(chan struct{}), false
	var forwarder sync.WaitGroup
	forwarder.Go(func() {
		for {
			select {
			case <-signals:
				interrupted = true
				// It fails only when all have just ended: nothing to do.
				_ = syscall.Kill(-group, syscall.SIGINT)
			case <-stopped:
				return
			}
		}
	})
	return func() bool {
		close(stopped)
		forwarder.Wait()
		return interrupted
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
