// Package runbatch implements Executor.RunBatch with an executor's Run, for executors in
// Go:
//
//	func (s *server) RunBatch(rpc runbatch.Stream) error { return runbatch.Serve(rpc, s.Run, s.stopping) }
package runbatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/batch"
	"github.com/carillon/carillon/internal/callstream"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const (
	// maxAnswers and maxBytes bound one message with answers. A longer answer is not sent: a launcher
	// refuses it with less.
	maxAnswers = 256
	maxBytes   = 1 << 20
)

// Stream is one RunBatch.
type Stream = grpc.BidiStreamingServer[carillonv1.ExecutorRunBatchRequest, carillonv1.ExecutorRunBatchResponse]

// Run is Executor.Run. Its context has the stream's metadata with the traceparent of the
// run, and ends when the launcher does not wait any more.
type Run func(context.Context, *carillonv1.ExecutorRunRequest) (*carillonv1.ExecutorRunResponse, error)

// Serve calls run for each call of a stream, in a goroutine of its own, and sends the
// answers as they come. It returns when the launcher has closed its side and all calls are
// answered, or when the stream breaks, after the calls that this ends. Close stopping (nil:
// never) before grpc.Server.GracefulStop: the launcher then closes its side.
func Serve(rpc Stream, run Run, stopping <-chan struct{}) error {
	ctx, cancel := context.WithCancel(rpc.Context())
	md, _ := metadata.FromIncomingContext(ctx)
	s := &stream{rpc: rpc, run: run, md: md, cancels: make(map[uint64]context.CancelFunc)}
	s.answers = batch.NewQueue(maxAnswers, s.send)
	defer s.open.Wait()
	defer cancel()
	messages := callstream.Receive(ctx, rpc.Recv)
	for {
		select {
		case m := <-messages:
			if errors.Is(m.Err, io.EOF) {
				s.open.Wait()
				return nil
			}
			if m.Err != nil {
				return m.Err
			}
			s.take(ctx, m.Msg)
		case <-stopping:
			stopping = nil
			s.open.Add(1)
			s.answers.Add(nil)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

type stream struct {
	rpc     Stream
	run     Run
	md      metadata.MD
	next    uint64         // number of the next call
	open    sync.WaitGroup // calls without an answer, and answers that are not written
	answers *batch.Queue[*carillonv1.ExecutorRunBatchAnswer]

	mu      sync.Mutex
	cancels map[uint64]context.CancelFunc // of the open calls
}

// take begins the calls of one message. There is no bound on open calls: what is not read
// cannot be withdrawn.
func (s *stream) take(ctx context.Context, msg *carillonv1.ExecutorRunBatchRequest) {
	for _, number := range msg.GetWithdrawn() {
		s.over(number)
	}
	for _, c := range msg.GetCalls() {
		s.begin(ctx, c)
	}
}

func (s *stream) begin(ctx context.Context, c *carillonv1.ExecutorRunBatchCall) {
	number := s.next
	s.next++
	if c.GetTraceparent() != "" {
		md := maps.Clone(s.md)
		md.Set("traceparent", c.GetTraceparent())
		ctx = metadata.NewIncomingContext(ctx, md)
	}
	var cancel context.CancelFunc
	if wait := c.GetTimeoutMs(); wait > 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(wait)*time.Millisecond)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	s.mu.Lock()
	s.cancels[number] = cancel
	s.mu.Unlock()
	s.open.Add(1)
	go func() {
		answer := &carillonv1.ExecutorRunBatchAnswer{Number: number, IdempotencyKey: c.GetRun().GetIdempotencyKey()}
		outcome, err := s.run(ctx, c.GetRun())
		if answer.Outcome = outcome; err != nil {
			st, said := status.FromError(err)
			if !said {
				st = status.FromContextError(err)
			}
			answer.Outcome, answer.Code, answer.Message = nil, uint32(st.Code()), st.Message()
		}
		s.over(number)
		s.answers.Add(sendable(answer))
	}()
}

// sendable is an answer that cannot end the stream, which would leave the outcome of every open call
// unknown. One that Run could not send is the error that the caller of Run would get.
func sendable(a *carillonv1.ExecutorRunBatchAnswer) *carillonv1.ExecutorRunBatchAnswer {
	a.Message = strings.ToValidUTF8(a.Message, "\uFFFD")
	if bytes := proto.Size(a); bytes > maxBytes {
		a.Outcome, a.Code = nil, uint32(codes.ResourceExhausted)
		a.Message = fmt.Sprintf("the answer has %d bytes, more than %d", bytes, maxBytes)
	} else if _, err := proto.Marshal(a); err != nil { // a text is not UTF-8
		a.Outcome, a.Code = nil, uint32(codes.Internal)
		a.Message = "the answer cannot be sent: " + strings.ToValidUTF8(err.Error(), "\uFFFD")
	}
	return a
}

// over ends the context of a call.
func (s *stream) over(number uint64) {
	s.mu.Lock()
	cancel := s.cancels[number]
	delete(s.cancels, number)
	s.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// send writes answers, in as many messages as their length needs. A nil answer asks the
// launcher to close the stream. A broken stream is noticed by Recv.
func (s *stream) send(answers []*carillonv1.ExecutorRunBatchAnswer) {
	msg, bytes := new(carillonv1.ExecutorRunBatchResponse), 0
	for _, a := range answers {
		if a == nil {
			msg.Closing = true
			continue
		}
		size := proto.Size(a)
		if bytes += size; bytes > maxBytes && len(msg.Answers) > 0 {
			_ = s.rpc.Send(msg)
			msg, bytes = new(carillonv1.ExecutorRunBatchResponse), size
		}
		msg.Answers = append(msg.Answers, a)
	}
	_ = s.rpc.Send(msg)
	s.open.Add(-len(answers))
}
