package connlimit

import (
	"context"
	"net"

	"google.golang.org/grpc/peer"
)

type connKey struct{}

// NewContext returns ctx with the connection, for http.Server.ConnContext.
func NewContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, Of(c.RemoteAddr()))
}

// FromContext returns the connection of an HTTP request or a gRPC call, or nil.
func FromContext(ctx context.Context) *Conn {
	if c, ok := ctx.Value(connKey{}).(*Conn); ok {
		return c
	}
	if p, ok := peer.FromContext(ctx); ok {
		return Of(p.Addr)
	}
	return nil
}
