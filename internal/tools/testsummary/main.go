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
	// go test sees the same signals and ends; its last words are worth
	// printing, so stay until its output ends.
	signal.Ignore(os.Interrupt, syscall.SIGHUP)
	began := time.Now()
	command := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	command.Stderr = os.Stderr
	events, err := command.StdoutPipe()
	if err != nil {
		return 1, fmt.Errorf("read from go test: %w", err)
	}
	if err := command.Start(); err != nil {
		return 1, fmt.Errorf("start go test: %w", err)
	}

	r := newReport(out)
	readErr := readEvents(events, r)
	waitErr := command.Wait()
	r.close(time.Since(began))
	return exitCode(waitErr, readErr)
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
