package app

import (
	"fmt"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/carillon/carillon/internal/auth/gate"
	"github.com/carillon/carillon/internal/connlimit"
	"github.com/carillon/carillon/internal/logthrottle"
)

// The limits of gRPC calls without valid credentials. A refused call costs about 50 µs of CPU, so one
// peer costs a few hundredths of a core. An executor with report tokens is anonymous until its first
// report is accepted, and may send a burst of reports.
const (
	anonymousCalls     = 500 // per second and peer, including resets
	anonymousCallBurst = 2000
	streamResets       = 100 // per second and connection
	streamResetBurst   = 200
)

// limitConnections limits the connections of both listeners.
func (a *App) limitConnections() {
	closed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "carillon_connections_closed_total", Help: "Connections that a limit refused or closed, by listener and limit.",
	}, []string{"listener", "reason"})
	a.registry.MustRegister(closed)
	log := logthrottle.New(a.log.With("component", "listener"))
	limits := func(listener string) connlimit.Limits {
		return connlimit.Limits{
			Total: a.cfg.MaxConnections, PerPeer: a.cfg.MaxConnectionsPerPeer,
			Refused: func(reason connlimit.Reason, from net.Addr) {
				closed.WithLabelValues(listener, string(reason)).Inc()
				log.Warn("connection closed by a limit", fmt.Errorf("%s on %s, of %s", reason, listener, from))
			},
		}
	}
	a.httpLis = connlimit.Listen(a.httpLis, limits("http"))
	ours := limits("grpc")
	ours.WriteTimeout = grpcWriteTimeout
	ours.Calls, ours.CallBurst = anonymousCalls, anonymousCallBurst
	ours.Resets, ours.ResetBurst = streamResets, streamResetBurst
	ours.IdentifiedResetBurst = 2 * maxOpenCalls(a.cfg.MaxLaunches)
	a.grpcLis = connlimit.Listen(a.grpcLis, ours)
}

// transport returns the credentials of gRPC connections.
func (a *App) transport() credentials.TransportCredentials {
	if a.tls != nil {
		return gate.Transport(a.tls)
	}
	return insecure.NewCredentials()
}
