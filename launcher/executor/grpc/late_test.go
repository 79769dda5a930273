package grpcexecutor_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/carillon/carillon/launcher"
	grpcexecutor "github.com/carillon/carillon/launcher/executor/grpc"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// soon is how long the check of a call is good in these tests.
const soon = 50 * time.Millisecond

// held is a listener that accepts nothing before it is let go.
type held struct {
	net.Listener
	free chan struct{}
}

func (l held) Accept() (net.Conn, error) {
	<-l.free
	return l.Listener.Accept()
}

func counts(runs *atomic.Int64) *service {
	return &service{run: func(context.Context, *carillonv1.ExecutorRunRequest) (*carillonv1.ExecutorRunResponse, error) {
		runs.Add(1)
		return &carillonv1.ExecutorRunResponse{RunId: "r"}, nil
	}}
}

func TestNothingIsSentOverAConnectionThatComesTooLate(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var runs atomic.Int64
	server := grpc.NewServer()
	carillonv1.RegisterExecutorServer(server, counts(&runs))
	free, served := make(chan struct{}), make(chan struct{})
	let := sync.OnceFunc(func() { close(free) })
	go func() {
		defer close(served)
		_ = server.Serve(held{listener, free})
	}()
	t.Cleanup(func() {
		let()
		server.Stop()
		<-served
	})
	e := newExecutor(t, grpcexecutor.Config{Target: listener.Addr().String()})
	call := exampleCall()
	call.SendBy = time.Now().Add(soon)
	_, err = e.Run(t.Context(), call)
	if late := time.Since(call.SendBy); !errors.Is(err, launcher.ErrNotSent) || late < 0 || late > 5*time.Second {
		t.Errorf("Run() = %v %s after SendBy, want ErrNotSent at SendBy", err, late)
	}
	let()
	call.SendBy = time.Now().Add(time.Minute)
	if _, err := e.Run(t.Context(), call); err != nil {
		t.Errorf("sent again: %v", err)
	}
	if n := runs.Load(); n != 1 {
		t.Errorf("%d runs arrived, want the one that was sent in time", n)
	}
}

func TestNothingIsSentAfterSendByOverAConnectionThatIsThere(t *testing.T) {
	inBothWays(t, func(t *testing.T, serve serving) {
		var runs atomic.Int64
		e := serve(t, counts(&runs), grpcexecutor.Config{})
		call := exampleCall()
		for i, left := range []time.Duration{time.Minute, 0, -time.Second} {
			call.SendBy = time.Now().Add(left)
			if _, err := e.Run(t.Context(), call); i > 0 && !errors.Is(err, launcher.ErrNotSent) || i == 0 && err != nil {
				t.Errorf("%s before SendBy: %v", left, err)
			}
		}
		if n := runs.Load(); n != 1 {
			t.Errorf("%d runs arrived, want the one that was sent in time", n)
		}
	})
}

// TestSendByDoesNotEndWhatWasSent: the answer may take as long as the call.
func TestSendByDoesNotEndWhatWasSent(t *testing.T) {
	inBothWays(t, func(t *testing.T, serve serving) {
		call := exampleCall()
		e := serve(t, &service{run: func(ctx context.Context, _ *carillonv1.ExecutorRunRequest) (*carillonv1.ExecutorRunResponse, error) {
			select {
			case <-time.After(time.Until(call.SendBy) + soon):
			case <-ctx.Done():
			}
			return &carillonv1.ExecutorRunResponse{RunId: "r"}, ctx.Err()
		}}, grpcexecutor.Config{})
		call.SendBy = time.Now().Add(20 * soon)
		if _, err := e.Run(t.Context(), call); err != nil {
			t.Errorf("Run() = %v, want the answer that came after SendBy", err)
		}
	})
}

// TestAStreamThatHasToWaitForAnotherIsNotSentLate: the server takes one call at
// a time, and one is open.
func TestAStreamThatHasToWaitForAnotherIsNotSentLate(t *testing.T) {
	var runs atomic.Int64
	entered, answer := make(chan struct{}, 2), make(chan struct{})
	e := serve(t, &service{run: func(ctx context.Context, _ *carillonv1.ExecutorRunRequest) (*carillonv1.ExecutorRunResponse, error) {
		runs.Add(1)
		entered <- struct{}{}
		select {
		case <-answer:
		case <-ctx.Done():
		}
		return &carillonv1.ExecutorRunResponse{}, nil
	}}, grpcexecutor.Config{}, grpc.MaxConcurrentStreams(1))
	first := make(chan error, 1)
	go func() {
		_, err := e.Run(t.Context(), exampleCall())
		first <- err
	}()
	<-entered
	call := exampleCall()
	call.SendBy = time.Now().Add(soon)
	if _, err := e.Run(t.Context(), call); !errors.Is(err, launcher.ErrNotSent) {
		t.Errorf("Run() = %v, want ErrNotSent", err)
	}
	close(answer)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if n := runs.Load(); n != 1 {
		t.Errorf("%d runs arrived, want the first one alone", n)
	}
}
