package e2e_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// logTail keeps the end of what a process wrote, and every line that must
// never be written.
type logTail struct {
	mu      sync.Mutex
	partial []byte
	lines   []string
	alarm   []string
}

const keptLines = 50_000

// alarming are parts of lines that show a broken promise: the product logs at
// level error only when it broke one.
var alarming = []string{"panic:", "fatal error:", "DATA RACE", "planner panicked", `"level":"ERROR"`, "level=ERROR"}

func (l *logTail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.partial = append(l.partial, p...)
	for {
		line, rest, found := bytes.Cut(l.partial, []byte("\n"))
		if !found {
			return len(p), nil
		}
		l.keep(string(line))
		l.partial = bytes.Clone(rest)
	}
}

// note is a line of the test's own.
func (l *logTail) note(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keep(line)
}

func (l *logTail) keep(line string) {
	if slices.ContainsFunc(alarming, func(part string) bool { return strings.Contains(line, part) }) {
		l.alarm = append(l.alarm, line)
	}
	l.lines = append(l.lines, line)
	if len(l.lines) > keptLines {
		l.lines = slices.Clone(l.lines[keptLines/2:])
	}
}

func (l *logTail) alarms() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.alarm)
}

// save writes what is kept to a file that outlives the test.
func (l *logTail) save(t testing.TB) string {
	t.Helper()
	file, err := os.CreateTemp("", "carillon-e2e-*.log")
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if _, err := file.WriteString(l.last(keptLines)); err != nil {
		return err.Error()
	}
	return file.Name()
}

// last is the end of the log.
func (l *logTail) last(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines[max(0, len(l.lines)-n):], "\n")
}

// about is what the log says of a word, such as a key.
func (l *logTail) about(word string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, line := range l.lines {
		if strings.Contains(line, word) {
			found = append(found, line)
		}
	}
	return found
}
