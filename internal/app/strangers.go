package app

import (
	"context"
	"log/slog"
	"net/netip"
	"regexp"
	"strings"
	"sync"

	"github.com/carillon/carillon/internal/trouble"
)

// strangerLogs limits the log lines that callers cause before they have proved
// who they are: one line a second and peer of each kind.
type strangerLogs struct {
	calls       *trouble.PerPeer
	connections *trouble.PerPeer
}

func newStrangerLogs(log *slog.Logger) strangerLogs {
	return strangerLogs{
		calls:       trouble.NewPerPeer(log.With("component", "api"), "refused calls not logged"),
		connections: trouble.NewPerPeer(log.With("component", "http"), "connection errors not logged"),
	}
}

func (s strangerLogs) run(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { s.calls.Run(ctx) })
	both.Go(func() { s.connections.Run(ctx) })
	both.Wait()
}

// callLimits is nil where authentication is off: every caller is known there.
func (a *App) callLimits() *trouble.PerPeer {
	if !a.cfg.authOn() {
		return nil
	}
	return a.strangers.calls
}

// connectionErrors is the ErrorLog of net/http. A panic of a handler and an
// error of the listener are ours. All else is the fault of a client, such as a
// failed TLS handshake: these lines are limited for each peer, and level Debug,
// because every probe of a TCP port causes one.
type connectionErrors struct {
	log   *slog.Logger
	peers *trouble.PerPeer
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
	fields := []any{"peer", from, "error", text} // not err: that has limits of its own, for all peers together
	if leftOut > 0 {
		fields = append(fields, trouble.LeftOut, leftOut)
	}
	c.log.Debug("connection error", fields...)
}
