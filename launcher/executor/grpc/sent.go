package grpcexecutor

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// errLate ends a call that could not be handed to a connection in time.
var errLate = errors.New("no connection was available in time")

// sending is one call on its way.
type sending struct {
	begun atomic.Bool // its first frame was handed to a connection
	whole atomic.Bool // so was its message
}

type sentKey struct{}

// watch prepares a context for a call that must be handed to a connection
// before by (zero: whenever), and ends the call where it was not: while it
// waits for a connection, or for its turn on one. The function it returns must
// be called when the call is over.
func (s *sending) watch(ctx context.Context, by time.Time) (_ context.Context, over func()) {
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, sentKey{}, s))
	stop := func() bool { return true }
	if !by.IsZero() {
		stop = time.AfterFunc(time.Until(by), func() {
			if !s.whole.Load() {
				cancel(errLate)
			}
		}).Stop
	}
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// sendBy refuses a stream after an instant (zero: never). gRPC asks for the
// credentials of a call when it has a connection for it, for each attempt, and
// before it opens the stream: also where it tries again by itself.
type sendBy time.Time

// GetRequestMetadata adds nothing.
func (by sendBy) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if at := time.Time(by); !at.IsZero() && !time.Now().Before(at) {
		return nil, status.Error(codes.DeadlineExceeded, errLate.Error())
	}
	return nil, nil
}

// RequireTransportSecurity is false: there is no secret in it.
func (sendBy) RequireTransportSecurity() bool { return false }

// watchSent notes in a call's sending what was handed to a connection. gRPC
// says OutHeader within the call itself, before it waits for anything of the
// other side, for each attempt that got a connection: where it was not said by
// the time the call has ended, nothing can have left.
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
