package grpcexecutor

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/stats"

	"github.com/carillon/carillon/internal/callstream"
)

// sending is the state of one call.
type sending struct {
	begun atomic.Bool // its first frame was handed to a connection
	whole atomic.Bool // so was its message
}

type sentKey struct{}

// watch returns a context that ends if the call was not handed to a connection
// before by (zero: no limit): no connection came up, or it had too many open
// calls. The returned function must be called after the call.
func (s *sending) watch(ctx context.Context, by time.Time) (_ context.Context, over func()) {
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, sentKey{}, s))
	stop := func() bool { return true }
	if !by.IsZero() {
		stop = time.AfterFunc(time.Until(by), func() {
			if !s.whole.Load() {
				cancel(callstream.ErrLate)
			}
		}).Stop
	}
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// sendBy refuses to open a stream after an instant (zero: never). gRPC asks for
// the credentials of a call when it has a connection and before it opens the
// stream, for each attempt, including its own retries.
type sendBy time.Time

// GetRequestMetadata adds nothing.
func (by sendBy) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if at := time.Time(by); !at.IsZero() && !time.Now().Before(at) {
		return nil, callstream.ErrLate
	}
	return nil, nil
}

// RequireTransportSecurity is false: it holds no secret.
func (sendBy) RequireTransportSecurity() bool { return false }

// watchSent records what was handed to a connection. For each attempt with a
// connection, gRPC reports OutHeader within the call and before it waits for the
// other side. So nothing was sent if it was not reported when the call has ended.
type watchSent struct{}

func (watchSent) HandleRPC(ctx context.Context, event stats.RPCStats) {
	s, ours := ctx.Value(sentKey{}).(*sending)
	if !ours {
		return
	}
	switch event.(type) {
	case *stats.OutHeader:
		s.begun.Store(true)
	case *stats.OutPayload:
		s.whole.Store(true)
	}
}

func (watchSent) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (watchSent) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (watchSent) HandleConn(context.Context, stats.ConnStats)                       {}
