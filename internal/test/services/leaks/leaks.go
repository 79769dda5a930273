// Package leaks fails a package's tests if goroutines are left when they are over.
package leaks

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// timeout is how long goroutines have to end by themselves after the last test:
// long, because a package that leaks is not run again.
const timeout = 30 * time.Second

// Main runs the tests for a TestMain and exits. Goroutines are looked for only
// after a success: a test that failed rarely cleans up.
func Main(m *testing.M) { os.Exit(check(m.Run(), timeout, os.Stderr)) }

func check(code int, timeout time.Duration, out io.Writer) int {
	if code != 0 {
		return code
	}
	left := stacks()
	for until := time.Now().Add(timeout); len(left) > 0 && time.Now().Before(until); left = stacks() {
		time.Sleep(10 * time.Millisecond)
	}
	if len(left) == 0 {
		return 0
	}
	_, _ = fmt.Fprintf(out, "%d goroutines are left after the tests:\n\n%s\n", len(left), strings.Join(left, "\n\n"))
	return 1
}

// stacks are those of all goroutines but the caller's and the runtime's own.
func stacks() []string {
	text := make([]byte, 1<<16)
	for {
		n := runtime.Stack(text, true)
		if n < len(text) {
			text = text[:n]
			break
		}
		text = make([]byte, 2*len(text))
	}
	var left []string
	for _, stack := range strings.Split(strings.TrimSpace(string(text)), "\n\n")[1:] { // the caller's comes first
		if !isRuntimes(stack) {
			left = append(left, stack)
		}
	}
	return left
}

// isRuntimes reports whether the goroutine runs tests, waits for signals or is in C
// code: every process that uses testing, os/signal or cgo may have one.
func isRuntimes(stack string) bool {
	head, calls, _ := strings.Cut(stack, "\n")
	return strings.HasPrefix(calls, "testing.(*T).Run(") || strings.HasPrefix(calls, "os/signal.") ||
		strings.Contains(calls, "runtime.ensureSigM") || strings.Contains(head, "[syscall") && strings.HasPrefix(calls, "runtime.goexit")
}
