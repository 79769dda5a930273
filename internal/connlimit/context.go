package connlimit

import (
	"context"
	"net"

	"google.golang.org/grpc/peer"
)

type connKey struct{}

// NewContext is ctx with the connection; it fits http.Server.ConnContext.
func NewContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, Of(c.RemoteAddr()))
}

// FromContext is the connection of an HTTP request or a gRPC call, or nil.
func FromContext(ctx context.Context) *Conn {
	if c, ok := ctx.Value(connKey{}).(*Conn); ok {
		return c
	}
	if p, ok := peer.FromContext(ctx); ok {
		return Of(p.Addr)
	}
	return nil
}
