package grpcexecutor

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/stats"
)

// watchSent notes in a call's context whether its first frame was handed to a
// connection. gRPC says OutHeader within the call itself, before it waits for
// anything of the other side, for each attempt that got a connection: where it
// was not said by the time the call has ended, nothing can have left.
type watchSent struct{}

type sentKey struct{}

// withSent prepares a context; sent is true from the first frame on.
func withSent(ctx context.Context) (_ context.Context, sent *atomic.Bool) {
	sent = new(atomic.Bool)
	return context.WithValue(ctx, sentKey{}, sent), sent
}

func (watchSent) HandleRPC(ctx context.Context, event stats.RPCStats) {
	if _, out := event.(*stats.OutHeader); !out {
		return
	}
	if sent, ours := ctx.Value(sentKey{}).(*atomic.Bool); ours {
		sent.Store(true)
	}
}

func (watchSent) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (watchSent) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (watchSent) HandleConn(context.Context, stats.ConnStats)                       {}
