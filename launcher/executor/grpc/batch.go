package grpcexecutor

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/callstream"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const (
	// maxAge is how long runs go into one stream. A proxy between us and several executors
	// chooses one for each stream.
	maxAge = time.Minute
	// askAgain is how long an executor without RunBatch is called with Run.
	askAgain = time.Minute
)

type (
	batchCall   = carillonv1.ExecutorRunBatchCall
	batchAnswer = carillonv1.ExecutorRunBatchAnswer
	calls       = callstream.Stream[batchCall, carillonv1.ExecutorRunBatchRequest, carillonv1.ExecutorRunBatchResponse, batchAnswer]
)

// batches makes the calls of RunBatch.
type batches struct {
	calls *calls
	// without is until when the executor is known to have no RunBatch, in Unix
	// nanoseconds.
	without atomic.Int64
}

func newBatches(rpc carillonv1.ExecutorClient, token string) *batches {
	return &batches{calls: callstream.New(callstream.RPC[batchCall, carillonv1.ExecutorRunBatchRequest, carillonv1.ExecutorRunBatchResponse, batchAnswer]{
		Peer: "the executor", MaxAge: maxAge,
		Open: func(ctx context.Context, options ...grpc.CallOption) (grpc.BidiStreamingClient[carillonv1.ExecutorRunBatchRequest, carillonv1.ExecutorRunBatchResponse], error) {
			if token != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
			}
			return rpc.RunBatch(ctx, options...)
		},
		Message: func(calls []*batchCall, withdrawn []uint64) *carillonv1.ExecutorRunBatchRequest {
			return &carillonv1.ExecutorRunBatchRequest{Calls: calls, Withdrawn: withdrawn}
		},
		Size: func(c *batchCall) int { return len(c.GetRun().GetInput()) + len(c.GetRun().GetDag()) },
		Answers: func(m *carillonv1.ExecutorRunBatchResponse) ([]*batchAnswer, bool) {
			return m.GetAnswers(), m.GetClosing()
		},
		Number: (*batchAnswer).GetNumber,
		Fits: func(c *batchCall, a *batchAnswer) bool {
			return a.GetIdempotencyKey() == c.GetRun().GetIdempotencyKey()
		},
	})}
}

// run makes one call. It was not taken if tried is false: the executor has no RunBatch or
// refuses its streams.
func (b *batches) run(ctx context.Context, by time.Time, c *batchCall) (resp *carillonv1.ExecutorRunResponse, tried, sent bool, err error) {
	now := time.Now()
	if now.UnixNano() < b.without.Load() {
		return nil, false, false, nil
	}
	var a callstream.Answer[batchAnswer]
	b.calls.Call(ctx, by, []*batchCall{c}, func(_ int, got callstream.Answer[batchAnswer]) { a = got })
	switch {
	case a.Err == nil && proto.Size(a.Msg) > maxAnswer:
		return nil, true, true, status.Errorf(codes.ResourceExhausted, "the answer has %d bytes, more than %d", proto.Size(a.Msg), maxAnswer)
	case a.Err == nil && codes.Code(a.Msg.GetCode()) == codes.OK:
		return a.Msg.GetOutcome(), true, true, nil
	case a.Err == nil:
		return nil, true, true, status.Error(codes.Code(a.Msg.GetCode()), a.Msg.GetMessage())
	case a.Silent && refuses(status.Code(a.Err)):
		b.without.Store(now.Add(askAgain).UnixNano())
		return nil, false, false, nil
	case refuses(status.Code(a.Err)): // a stream that has answered others refuses no run
		a.Err = status.Errorf(codes.Unavailable, "the stream ended with %s: %s", word(status.Code(a.Err)), status.Convert(a.Err).Message())
	}
	return nil, true, a.Written, a.Err
}
