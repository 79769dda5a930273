package app

import (
	"context"
	"log/slog"
	"net/netip"
	"regexp"
	"strings"
	"sync"

	"github.com/carillon/carillon/internal/logthrottle"
)

// strangerLogs limits the log lines of unidentified callers: one line per second, peer and kind.
// refusals does the same per identified caller.
type strangerLogs struct {
	refusals    *logthrottle.PerPeer
	calls       *logthrottle.PerPeer
	connections *logthrottle.PerPeer
}

func newStrangerLogs(log *slog.Logger) strangerLogs {
	return strangerLogs{
		refusals:    logthrottle.NewPerSubject(log.With("component", "api"), "refused calls not logged"),
		calls:       logthrottle.NewPerPeer(log.With("component", "api"), "refused calls not logged"),
		connections: logthrottle.NewPerPeer(log.With("component", "http"), "connection errors not logged"),
	}
}

func (s strangerLogs) run(ctx context.Context) {
	var all sync.WaitGroup
	for _, limits := range []*logthrottle.PerPeer{s.refusals, s.calls, s.connections} {
		all.Go(func() { limits.Run(ctx) })
	}
	all.Wait()
}

// limits are empty with authentication off: then every call is logged.
func (a *App) limits() strangerLogs {
	if !a.cfg.authOn() {
		return strangerLogs{}
	}
	return a.strangers
}

// connectionErrors is the ErrorLog of net/http. Panics of handlers and errors of the listener are
// always logged. Other lines are errors of clients, such as a failed TLS handshake: they are limited
// per peer and on level debug, because every probe of a TCP port causes one.
type connectionErrors struct {
	log   *slog.Logger
	peers *logthrottle.PerPeer
}

// peerInLine finds the address in "http: TLS handshake error from ADDRESS: …".
var peerInLine = regexp.MustCompile(`\bfrom (\S+): `)

func (c connectionErrors) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	switch {
	case strings.Contains(text, "panic serving"):
		c.log.Error("HTTP handler panicked", "err", text)
	case strings.HasPrefix(text, "http: Accept error"):
		c.log.Warn("cannot accept HTTP connections", "err", text)
	case c.log.Enabled(context.Background(), slog.LevelDebug):
		c.debug(text)
	}
	return len(line), nil
}

func (c connectionErrors) debug(text string) {
	from := ""
	if found := peerInLine.FindStringSubmatch(text); found != nil {
		if at, err := netip.ParseAddrPort(found[1]); err == nil {
			from = at.Addr().String()
		}
	}
	leftOut, ok := c.peers.Admit(from)
	if !ok {
		return
	}
	fields := []any{"peer", from, "error", text} // not "err": LimitErrors would limit all peers together
	if leftOut > 0 {
		fields = append(fields, logthrottle.LeftOut, leftOut)
	}
	c.log.Debug("connection error", fields...)
}
