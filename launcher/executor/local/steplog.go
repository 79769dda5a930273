package local

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
)

const (
	maxStepLog = 1 << 20 // bytes kept of a step's output
	maxTail    = 2 << 10 // bytes kept of the end of its stderr
)

// stepLog keeps up to maxStepLog bytes of a step's output in a file, and the end of
// its stderr in memory for the message of a failure.
type stepLog struct {
	mu   sync.Mutex // stdout and stderr are copied side by side
	file *os.File
	left int
	end  []byte
	live *liveLog // nil: only the file
}

func openStepLog(path string, live *liveLog) (*stepLog, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the step's log: %w", err)
	}
	return &stepLog{file: file, left: maxStepLog, live: live}, nil
}

// Write never fails: a full disk must not end a command with SIGPIPE.
func (l *stepLog) Write(p []byte) (int, error) {
	l.live.write(p)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left == 0 {
		return len(p), nil
	}
	kept := p[:min(len(p), l.left)]
	_, _ = l.file.Write(kept)
	if l.left -= len(kept); l.left == 0 {
		_, _ = fmt.Fprintf(l.file, "\n[cut: a step's log holds %d bytes]\n", maxStepLog)
	}
	return len(p), nil
}

// note writes a line of our own.
func (l *stepLog) note(format string, args ...any) {
	_, _ = fmt.Fprintf(l, "== "+format+"\n", args...)
}

// stderr is a writer to the log that also remembers the end.
func (l *stepLog) stderr() stderrLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = nil // of an earlier attempt
	return stderrLog{l}
}

type stderrLog struct{ log *stepLog }

func (s stderrLog) Write(p []byte) (int, error) {
	s.log.mu.Lock()
	s.log.end = append(s.log.end, p[max(0, len(p)-maxTail):]...)
	s.log.end = s.log.end[max(0, len(s.log.end)-maxTail):]
	s.log.mu.Unlock()
	return s.log.Write(p)
}

func (l *stepLog) close() { _ = l.file.Close() }

// tail is ": " and the last three lines of a step's stderr, or "".
func tail(l *stepLog) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := strings.FieldsFunc(string(bytes.ToValidUTF8(l.end, []byte("\uFFFD"))), func(r rune) bool { return r == '\n' || r == '\r' })
	lines = lines[max(0, len(lines)-3):]
	if len(lines) == 0 {
		return ""
	}
	return ": " + strings.Join(lines, " | ")
}
