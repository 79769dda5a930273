// Package logthrottle says what goes wrong again and again without flooding the
// log. It takes no step in a slot's life.
package logthrottle

import (
	"log/slog"
	"sync"
	"time"
)

// LeftOut is the key of how many lines of a kind were not written since the
// last one of it.
const LeftOut = "left_out"

// Log says the first line of an outage at once, further ones a second apart,
// then two, then four, to half a minute. After a quiet minute it begins anew.
type Log struct {
	log *slog.Logger

	mu      sync.Mutex
	last    time.Time // when something was last to be said
	said    time.Time // when it was said
	rest    time.Duration
	leftOut int
	open    bool // something was said since it last worked
}

// New makes a Log that writes to log.
func New(log *slog.Logger) *Log { return &Log{log: log} }

// Warn says that something went wrong, unless that was said lately.
func (l *Log) Warn(msg string, err error) {
	const most, quietAfter = 30 * time.Second, time.Minute
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.last) > quietAfter {
		l.rest, l.leftOut = 0, 0
	}
	l.last, l.open = now, true
	if now.Sub(l.said) < l.rest {
		l.leftOut++
		return
	}
	l.log.Warn(msg, "err", err, LeftOut, l.leftOut)
	l.said, l.leftOut = now, 0
	l.rest = min(max(2*l.rest, time.Second), most)
}

// Works says once that what went wrong works again. The pace stays as it is: an
// outage that comes and goes is one.
func (l *Log) Works(msg string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open {
		return
	}
	l.open = false
	l.log.Info(msg, LeftOut, l.leftOut)
	l.leftOut = 0
}
