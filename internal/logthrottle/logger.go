// Package logthrottle limits repeated log lines: of an outage, and per caller.
package logthrottle

import (
	"log/slog"
	"sync"
	"time"
)

// LeftOut is the attribute with the number of lines that were not written since
// the last one.
const LeftOut = "left_out"

// Logger writes the first line of an outage at once. Further lines are at least
// 1, 2, 4 … 30 seconds apart. After a minute without an error it starts over.
type Logger struct {
	log *slog.Logger

	mu      sync.Mutex
	last    time.Time // last call of Warn
	written time.Time // last line
	pause   time.Duration
	leftOut int
	open    bool // a line was written since Recovered
}

// New returns a Logger that writes to log.
func New(log *slog.Logger) *Logger { return &Logger{log: log} }

// Warn writes a warning unless one was written shortly before.
func (l *Logger) Warn(msg string, err error) {
	const maxPause, quietAfter = 30 * time.Second, time.Minute
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.last) > quietAfter {
		l.pause, l.leftOut = 0, 0
	}
	l.last, l.open = now, true
	if now.Sub(l.written) < l.pause {
		l.leftOut++
		return
	}
	l.log.Warn(msg, "err", err, LeftOut, l.leftOut)
	l.written, l.leftOut = now, 0
	l.pause = min(max(2*l.pause, time.Second), maxPause)
}

// Recovered writes one line after an outage. It keeps the pause, so that an
// outage that comes and goes does not flood the log.
func (l *Logger) Recovered(msg string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open {
		return
	}
	l.open = false
	l.log.Info(msg, LeftOut, l.leftOut)
	l.leftOut = 0
}
