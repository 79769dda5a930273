package gate

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/auth"
)

// Some calls must be read before it is known who makes them: a health check is
// anybody's, and a run's own token is checked by the key that the message names.
// These are small, so they come at once; how many of them are read at a time is
// bounded, for gRPC has one size for all calls of a server, and anybody may say
// that theirs is as large.
const (
	strangersRead = 64
	strangersTime = 2 * time.Second // of one message, and of the wait for its turn
)

// stranger bounds the reading for callers over the network who have shown
// nothing yet. Where everybody may everything nobody is a stranger.
func (g *Gate) stranger(ss entered, id auth.Identity, shown error) grpc.ServerStream {
	if g.o.Off || insideProcess(ss.ctx) || shown == nil && id.Via != auth.ViaReport && id.Via != auth.ViaOpen {
		return ss
	}
	return strangers{ss, g.reading}
}

type strangers struct {
	entered
	reading chan struct{}
}

func (s strangers) RecvMsg(m any) error {
	timeout := time.NewTimer(strangersTime)
	defer timeout.Stop()
	select {
	case s.reading <- struct{}{}:
	case <-timeout.C:
		return status.Error(codes.Unavailable, "too many calls of callers that are not known; try again")
	case <-s.ctx.Done():
		return status.FromContextError(s.ctx.Err()).Err()
	}
	read := make(chan error, 1)
	go func() { // it ends with the call at the latest, which ends with the timeout
		defer func() { <-s.reading }()
		read <- s.ServerStream.RecvMsg(m)
	}()
	select {
	case err := <-read:
		return err
	case <-timeout.C:
		return status.Errorf(codes.DeadlineExceeded, "the message did not come within %s", strangersTime)
	}
}
