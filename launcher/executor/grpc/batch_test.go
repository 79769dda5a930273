package grpcexecutor_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	grpcexecutor "github.com/carillon/carillon/launcher/executor/grpc"
	"github.com/carillon/carillon/launcher/executor/runbatch"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// callOf is the example with a key of its own.
func callOf(slot string) launcher.Call {
	call := exampleCall()
	call.Key = schedule.SlotKey(slot, runAt)
	return call
}

func TestASlowRunOfAStreamDelaysNoOther(t *testing.T) {
	slow := callOf("slow")
	entered, free := make(chan struct{}), make(chan struct{})
	var streams atomic.Int64
	s := &service{}
	s.batch = func(rpc runbatch.Stream) error {
		streams.Add(1)
		return runbatch.Serve(rpc, func(_ context.Context, req *carillonv1.ExecutorRunRequest) (*carillonv1.ExecutorRunResponse, error) {
			if req.GetIdempotencyKey() == slow.Key.String() {
				close(entered)
				<-free
			}
			return &carillonv1.ExecutorRunResponse{RunId: req.GetIdempotencyKey()}, nil
		}, nil)
	}
	e := serve(t, s, grpcexecutor.Config{})
	var all sync.WaitGroup
	run := func(call launcher.Call) {
		if o, err := e.Run(t.Context(), call); err != nil || o.RunID != call.Key.String() {
			t.Errorf("Run() = %+v, %v, want the answer to %s", o, err, call.Key)
		}
	}
	all.Go(func() { run(slow) })
	<-entered
	for i := range 100 {
		all.Go(func() { run(callOf(strings.Repeat("x", i+1))) })
	}
	run(callOf("y"))
	close(free)
	all.Wait()
	if n := streams.Load(); n != 1 {
		t.Errorf("%d streams, want one", n)
	}
}

func TestARunThatNobodyWaitsForIsWithdrawn(t *testing.T) {
	ended := make(chan error, 1)
	s := &service{}
	s.batch = func(rpc runbatch.Stream) error {
		return runbatch.Serve(rpc, func(ctx context.Context, _ *carillonv1.ExecutorRunRequest) (*carillonv1.ExecutorRunResponse, error) {
			<-ctx.Done()
			ended <- ctx.Err()
			return nil, ctx.Err()
		}, nil)
	}
	e := serve(t, s, grpcexecutor.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(soon, cancel)
	_, err := e.Run(ctx, exampleCall())
	wantUnknown(t, err, "canceled")
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the executor's context ended with %v, want that it was cancelled", err)
	}
}

// An executor that refuses a stream has taken none of its runs.
func TestAnExecutorWithoutStreamsIsCalledForEachRun(t *testing.T) {
	for _, code := range []codes.Code{codes.Unimplemented, codes.PermissionDenied, codes.Unauthenticated} {
		t.Run(code.String(), func(t *testing.T) {
			var streams, runs atomic.Int64
			s := counts(&runs)
			s.batch = func(runbatch.Stream) error {
				streams.Add(1)
				return status.Error(code, "no streams")
			}
			e := serve(t, s, grpcexecutor.Config{})
			for _, slot := range []string{"a", "b", "c"} {
				if _, err := e.Run(t.Context(), callOf(slot)); err != nil {
					t.Fatal(err)
				}
			}
			if streams.Load() != 1 || runs.Load() != 3 {
				t.Errorf("%d streams and %d runs, want one attempt and 3 runs", streams.Load(), runs.Load())
			}
		})
	}
}

// reads answers the first message of a stream and then ends it.
func reads(answer func(*carillonv1.ExecutorRunBatchCall) *carillonv1.ExecutorRunBatchAnswer, end error) func(runbatch.Stream) error {
	return func(rpc runbatch.Stream) error {
		msg, err := rpc.Recv()
		if err != nil {
			return err
		}
		if a := answer(msg.GetCalls()[0]); a != nil {
			if err := rpc.Send(&carillonv1.ExecutorRunBatchResponse{Answers: []*carillonv1.ExecutorRunBatchAnswer{a}}); err != nil {
				return err
			}
		}
		return end
	}
}

func TestAStreamWithoutTheAnswerLeavesTheOutcomeUnknown(t *testing.T) {
	silent := func(*carillonv1.ExecutorRunBatchCall) *carillonv1.ExecutorRunBatchAnswer { return nil }
	for _, c := range []struct {
		name   string
		answer func(*carillonv1.ExecutorRunBatchCall) *carillonv1.ExecutorRunBatchAnswer
		end    error
		text   string
	}{
		{"it ends cleanly", silent, nil, "ended the stream before it answered"},
		{"it ends with a code that refuses nothing", silent, status.Error(codes.Internal, "crashed"), "crashed"},
		{"it answers with the key of another run", func(c *carillonv1.ExecutorRunBatchCall) *carillonv1.ExecutorRunBatchAnswer {
			return &carillonv1.ExecutorRunBatchAnswer{IdempotencyKey: strings.Repeat("0", 64), Outcome: &carillonv1.ExecutorRunResponse{Status: "SUCCESS"}}
		}, nil, "with another key"},
		{"it refuses after it has answered another number", func(c *carillonv1.ExecutorRunBatchCall) *carillonv1.ExecutorRunBatchAnswer {
			return &carillonv1.ExecutorRunBatchAnswer{Number: 7, IdempotencyKey: c.GetRun().GetIdempotencyKey()}
		}, status.Error(codes.PermissionDenied, "enough"), "enough"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var runs atomic.Int64
			s := counts(&runs)
			s.batch = reads(c.answer, c.end)
			_, err := serve(t, s, grpcexecutor.Config{}).Run(t.Context(), exampleCall())
			wantUnknown(t, err, c.text)
			if n := runs.Load(); n != 0 {
				t.Errorf("it was sent again by Run %d times", n)
			}
		})
	}
}

// TestARunThatAFullStreamHoldsBackIsNotSentLate: the executor reads nothing, so one of
// two calls fills the stream, and the other one cannot be written.
func TestARunThatAFullStreamHoldsBackIsNotSentLate(t *testing.T) {
	free, arrived := make(chan struct{}), make(chan string, 10)
	s := &service{}
	s.batch = func(rpc runbatch.Stream) error {
		<-free
		return runbatch.Serve(rpc, func(_ context.Context, req *carillonv1.ExecutorRunRequest) (*carillonv1.ExecutorRunResponse, error) {
			arrived <- req.GetIdempotencyKey()
			return &carillonv1.ExecutorRunResponse{}, nil
		}, nil)
	}
	e := serve(t, s, grpcexecutor.Config{}, grpc.InitialWindowSize(64<<10), grpc.InitialConnWindowSize(64<<10))
	var both sync.WaitGroup
	for _, slot := range []string{"a", "b"} {
		call := callOf(slot)
		call.DAG = []byte(`"` + strings.Repeat("d", 1<<20) + `"`)
		call.SendBy = time.Now().Add(soon)
		both.Go(func() {
			if _, err := e.Run(t.Context(), call); err == nil {
				t.Error("a run was accepted")
			}
		})
	}
	both.Wait()
	close(free)
	last := callOf("last")
	if _, err := e.Run(t.Context(), last); err != nil {
		t.Error(err)
	}
	if key := <-arrived; key != last.Key.String() || len(arrived) > 0 {
		t.Errorf("%s arrived, and %d more, want only the last one", key, len(arrived))
	}
}

func TestAnExecutorThatStopsAnswersItsRunsAndGetsNoMore(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	entered, free, stopping := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s := &service{}
	s.batch = func(rpc runbatch.Stream) error {
		return runbatch.Serve(rpc, func(context.Context, *carillonv1.ExecutorRunRequest) (*carillonv1.ExecutorRunResponse, error) {
			close(entered)
			<-free
			return &carillonv1.ExecutorRunResponse{RunId: "r"}, nil
		}, stopping)
	}
	carillonv1.RegisterExecutorServer(server, s)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	e := newExecutor(t, grpcexecutor.Config{Target: listener.Addr().String()})
	answered := make(chan error, 1)
	go func() {
		_, err := e.Run(t.Context(), exampleCall())
		answered <- err
	}()
	<-entered
	close(stopping)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		server.GracefulStop()
	}()
	close(free)
	if err := <-answered; err != nil {
		t.Errorf("the open run: %v", err)
	}
	<-stopped
	<-served
	if _, err := e.Run(t.Context(), exampleCall()); !errors.Is(err, launcher.ErrNotSent) {
		t.Errorf("a run afterwards: %v, want ErrNotSent", err)
	}
}

// Called with Run, each of these answers would fail alone.
func TestAnAnswerThatCannotBeSentFailsNoOtherRun(t *testing.T) {
	for name, bad := range map[string]*carillonv1.ExecutorRunResponse{
		"longer than a message": {Result: []byte(strings.Repeat("x", 17<<20))},
		"not UTF-8":             {ErrorMessage: "cut \xc3"},
	} {
		t.Run(name, func(t *testing.T) {
			other, faulty := callOf("other"), callOf("faulty")
			entered, free := make(chan struct{}), make(chan struct{})
			s := &service{}
			s.batch = func(rpc runbatch.Stream) error {
				return runbatch.Serve(rpc, func(_ context.Context, req *carillonv1.ExecutorRunRequest) (*carillonv1.ExecutorRunResponse, error) {
					if req.GetIdempotencyKey() == faulty.Key.String() {
						return bad, nil
					}
					close(entered)
					<-free
					return &carillonv1.ExecutorRunResponse{RunId: "a run"}, nil
				}, nil)
			}
			e := serve(t, s, grpcexecutor.Config{})
			var others sync.WaitGroup
			others.Go(func() {
				if o, err := e.Run(t.Context(), other); err != nil || o.RunID != "a run" {
					t.Errorf("Run() = %+v, %v, want the answer", o, err)
				}
			})
			<-entered
			if _, err := e.Run(t.Context(), faulty); err == nil {
				t.Error("an answer that cannot be sent was taken")
			}
			close(free)
			others.Wait()
		})
	}
}

func TestAMessageThatIsNotUTF8IsMended(t *testing.T) {
	s := &service{}
	s.batch = func(rpc runbatch.Stream) error {
		return runbatch.Serve(rpc, func(context.Context, *carillonv1.ExecutorRunRequest) (*carillonv1.ExecutorRunResponse, error) {
			return nil, status.Error(codes.InvalidArgument, "no \xc3 input")
		}, nil)
	}
	_, err := serve(t, s, grpcexecutor.Config{}).Run(t.Context(), exampleCall())
	if refused, ok := errors.AsType[*launcher.Refusal](err); !ok || refused.Message != "no \uFFFD input" {
		t.Errorf("Run() = %v, want the refusal with its message", err)
	}
}
