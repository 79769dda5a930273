package client_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/launcher/api"
	"github.com/carillon/carillon/launcher/client"
)

// streams counts those of a server and keeps how they ended; each is bounded as
// by a token that expires then.
type streams struct {
	expires time.Duration // of the first; 0: none does
	revoked chan struct{} // of the first; nil: none is

	mu    sync.Mutex
	begun int
	ended chan error
}

func (s *streams) intercept(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	s.mu.Lock()
	s.begun++
	first := s.begun == 1
	s.mu.Unlock()
	if first && s.expires > 0 {
		ctx, cancel := context.WithTimeout(ss.Context(), s.expires)
		defer cancel()
		ss = bounded{ss, ctx}
	}
	if first && s.revoked != nil {
		ctx, call := auth.WithCall(ss.Context(), "")
		call.Revoked = s.revoked
		ss = bounded{ss, ctx}
	}
	err := next(srv, ss)
	s.ended <- err
	return err
}

func (s *streams) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun
}

type bounded struct {
	grpc.ServerStream
	ctx context.Context
}

func (b bounded) Context() context.Context { return b.ctx }

func TestALauncherThatEndsAnswersWhatIsOpen(t *testing.T) {
	g, ending := newGated(request(1).Key), make(chan struct{})
	counted := &streams{ended: make(chan error, 100)}
	addr, server := serveOn(t, g, api.Options{Ending: ending}, grpc.StreamInterceptor(counted.intercept))
	c := connect(t, addr)
	done := starting(t.Context(), c, request(0))
	within(t, g.began, "the start")
	close(ending)
	// Until the connection is closed too, streams are opened on it, and what they
	// bring is taken.
	for range 20 {
		if _, err := c.Start(t.Context(), request(1)); err != nil {
			t.Fatalf("a start on the next stream: %v", err)
		}
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		server.GracefulStop()
	}()
	for { // until nobody listens any more
		if _, err := c.Start(t.Context(), request(1)); err != nil {
			break
		}
	}
	select {
	case err := <-done:
		t.Fatalf("the open start ended with %v before it was answered", err)
	default:
	}
	close(g.gate)
	if err := within(t, done, "the open start"); err != nil {
		t.Errorf("the open start: %v", err)
	}
	within(t, stopped, "the server")
	for range counted.count() {
		if err := within(t, counted.ended, "a stream"); err != nil {
			t.Errorf("a stream ended with %v", err)
		}
	}
}

func serveOn(t *testing.T, l api.Launcher, o api.Options, options ...grpc.ServerOption) (addr string, server *grpc.Server) {
	t.Helper()
	addr = serveAs(t, func(s grpc.ServiceRegistrar) {
		server = s.(*grpc.Server)
		api.Register(s, l, o)
	}, options...)
	return addr, server
}

// followed checks that another stream follows the first, whose open start is
// answered.
func (s *streams) followed(t *testing.T, c *client.Client, g *gated, done <-chan error) {
	t.Helper()
	for began := time.Now(); s.count() == 1; {
		if _, err := c.Start(t.Context(), request(1)); err != nil {
			t.Fatalf("a start meanwhile: %v", err)
		}
		if time.Since(began) > testTimeout {
			t.Fatal("no other stream is opened")
		}
	}
	close(g.gate)
	if err := within(t, done, "what was open on the first"); err != nil {
		t.Errorf("what was open on the first stream: %v", err)
	}
	if err := within(t, s.ended, "the first stream"); err != nil {
		t.Errorf("the first stream ended with %v", err)
	}
}

func TestAStreamIsFollowedByAnotherBeforeItExpires(t *testing.T) {
	g := newGated(request(1).Key)
	counted := &streams{expires: 3 * time.Second, ended: make(chan error, 100)}
	addr, _ := serveOn(t, g, api.Options{}, grpc.StreamInterceptor(counted.intercept))
	c := connect(t, addr)
	done := starting(t.Context(), c, request(0))
	within(t, g.began, "the start")
	counted.followed(t, c, g, done)
}

func TestAStreamIsFollowedByAnotherWhenItsWorkerIsRevoked(t *testing.T) {
	g := newGated(request(1).Key)
	counted := &streams{revoked: make(chan struct{}), ended: make(chan error, 100)}
	addr, _ := serveOn(t, g, api.Options{}, grpc.StreamInterceptor(counted.intercept))
	c := connect(t, addr)
	done := starting(t.Context(), c, request(0))
	within(t, g.began, "the start")
	close(counted.revoked)
	counted.followed(t, c, g, done)
}

// A client that does not close a stream when it is told to is not waited for.
func TestAStreamThatHasExpiredEnds(t *testing.T) {
	g := newGated()
	counted := &streams{expires: 50 * time.Millisecond, ended: make(chan error, 100)}
	addr, _ := serveOn(t, g, api.Options{}, grpc.StreamInterceptor(counted.intercept))
	stream := openRaw(t, addr)
	if msg, err := stream.Recv(); err != nil || !msg.GetClosing() {
		t.Errorf("Recv() = %v, %v, want that it is closing", msg, err)
	}
	if err := within(t, counted.ended, "the stream"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the stream ended with %v", err)
	}
}

func TestAStreamWithNothingOpenEndsWell(t *testing.T) {
	g := newGated(request(0).Key)
	counted := &streams{ended: make(chan error, 100)}
	addr, _ := serveOn(t, g, api.Options{}, grpc.StreamInterceptor(counted.intercept))
	c := connect(t, addr)
	if _, err := c.Start(t.Context(), request(0)); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := within(t, counted.ended, "the stream"); err != nil {
		t.Errorf("the stream ended with %v", err)
	}
	if _, err := c.Start(t.Context(), request(0)); status.Code(errors.Unwrap(err)) != codes.Canceled {
		t.Errorf("a start after Close: %v", err)
	}
}

func TestCloseEndsWhatIsOpen(t *testing.T) {
	g := newGated()
	c := serveWith(t, g, api.Options{})
	done := starting(t.Context(), c, request(0))
	within(t, g.began, "the start")
	_ = c.Close()
	if err := within(t, done, "the start"); err == nil {
		t.Error("a start whose connection is closed has an outcome")
	}
	if err := within(t, g.ended, "the launcher"); !errors.Is(err, context.Canceled) {
		t.Errorf("over there: %v", err)
	}
}
