package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/test/chaos/record"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// viaHeader is for the log: it says by which protocol a call came.
const viaHeader = "Via"

// byGRPC is the oracle for launchers that call it by gRPC, also with RunBatch: each call becomes a
// request of the HTTP contract, so that both see one and the same executor.
type byGRPC struct {
	carillonv1.UnimplementedExecutorServer
	*oracle
}

// serveGRPC serves until ctx ends.
func (o *oracle) serveGRPC(ctx context.Context, addr string) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	carillonv1.RegisterExecutorServer(server, &byGRPC{oracle: o})
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	return server.Serve(listener)
}

// stream is one RunBatch.
type stream = grpc.BidiStreamingServer[carillonv1.ExecutorRunBatchRequest, carillonv1.ExecutorRunBatchResponse]

// RunBatch is Run for many runs, each on its own. Answers are sent one by one, as they come.
func (o *byGRPC) RunBatch(rpc stream) error {
	ctx, cancel := context.WithCancel(rpc.Context())
	var open sync.WaitGroup
	defer open.Wait()
	defer cancel()
	var sending sync.Mutex
	var withdraw []context.CancelFunc // by number of the call
	for {
		message, err := rpc.Recv()
		if errors.Is(err, io.EOF) {
			open.Wait()
			return nil
		}
		if err != nil {
			return err
		}
		for _, number := range message.GetWithdrawn() {
			if number >= uint64(len(withdraw)) {
				o.wrong("", "call %d is withdrawn, and %d were made", number, len(withdraw))
				continue
			}
			withdraw[number]()
		}
		for _, call := range message.GetCalls() {
			bounded, over := context.WithTimeout(ctx, time.Duration(call.GetTimeoutMs())*time.Millisecond)
			number := uint64(len(withdraw))
			withdraw = append(withdraw, over)
			open.Go(func() {
				defer over()
				answer := o.answerOf(bounded, number, call.GetRun())
				sending.Lock()
				defer sending.Unlock()
				_ = rpc.Send(&carillonv1.ExecutorRunBatchResponse{Answers: []*carillonv1.ExecutorRunBatchAnswer{answer}}) // the stream may be broken
			})
		}
	}
}

func (o *byGRPC) answerOf(ctx context.Context, number uint64, r *carillonv1.ExecutorRunRequest) *carillonv1.ExecutorRunBatchAnswer {
	answer := &carillonv1.ExecutorRunBatchAnswer{Number: number, IdempotencyKey: r.GetIdempotencyKey()}
	outcome, err := o.Run(ctx, r)
	if st, failed := status.FromError(err); err != nil && failed {
		answer.Code, answer.Message = uint32(st.Code()), st.Message()
		return answer
	}
	answer.Outcome = outcome
	return answer
}

// Run is one call.
func (o *byGRPC) Run(ctx context.Context, r *carillonv1.ExecutorRunRequest) (*carillonv1.ExecutorRunResponse, error) {
	ctx, over := context.WithCancel(ctx)
	defer over()
	body := map[string]any{
		"idempotency_key": r.GetIdempotencyKey(), "schedule_id": r.GetScheduleId(), "workflow_id": r.GetWorkflowId(), "version": r.GetVersion(),
		"user_id": r.GetUserId(), "scheduled_for": r.GetScheduledFor().AsTime().Format(time.RFC3339Nano), "trigger": r.GetTrigger(), "attempt": r.GetAttempt(),
		"epoch": r.GetEpoch(), "execution_grant_id": r.GetExecutionGrantId(), "input": raw(r.GetInput()),
	}
	for name, value := range map[string]string{
		"environment": r.GetEnvironment(), "queue_id": r.GetQueueId(), "group_id": r.GetGroupId(), "report_url": r.GetReportUrl(), "report_token": r.GetReportToken(),
	} {
		if value != "" {
			body[name] = value
		}
	}
	if r.GetMaxAttempts() > 0 {
		body["max_attempts"] = r.GetMaxAttempts()
	}
	if len(r.GetDag()) > 0 {
		body["dag"] = raw(r.GetDag())
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "/", bytes.NewReader(text))
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	req.Header.Set("Idempotency-Key", r.GetIdempotencyKey())
	req.Header.Set(viaHeader, record.ByGRPC)
	reply := &reply{ResponseRecorder: httptest.NewRecorder()}
	o.run(reply, req)
	return reply.outcome()
}

// raw is JSON as it was sent; nothing is null.
func raw(text []byte) json.RawMessage {
	if len(text) == 0 {
		return json.RawMessage("null")
	}
	return text
}

// Cancel is that of HTTP.
func (o *byGRPC) Cancel(_ context.Context, r *carillonv1.ExecutorCancelRequest) (*carillonv1.ExecutorCancelResponse, error) {
	if !o.cancelKey(r.GetIdempotencyKey()) {
		return nil, status.Error(codes.NotFound, "no such run")
	}
	return &carillonv1.ExecutorCancelResponse{}, nil
}

// reply takes an HTTP answer. One that is hijacked is no answer.
type reply struct {
	*httptest.ResponseRecorder
	dropped bool
}

// Hijack is how the oracle drops a connection.
func (r *reply) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	r.dropped = true
	ours, theirs := net.Pipe()
	_ = theirs.Close()
	return ours, nil, nil
}

// outcome translates the answer.
func (r *reply) outcome() (*carillonv1.ExecutorRunResponse, error) {
	text := r.Body.String()
	switch {
	case r.dropped || r.Code == http.StatusServiceUnavailable:
		return nil, status.Error(codes.Unavailable, text)
	case r.Code == http.StatusTooManyRequests:
		return nil, status.Error(codes.ResourceExhausted, text)
	case r.Code == http.StatusUnprocessableEntity:
		return nil, status.Error(codes.FailedPrecondition, text)
	case r.Code >= 300 || len(text) == 0:
		return nil, status.Error(codes.Internal, text)
	}
	var answer struct {
		RunID   string `json:"run_id"`
		Status  string `json:"status"`
		Code    string `json:"error_code"`
		DelayMS uint32 `json:"delay_ms"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &carillonv1.ExecutorRunResponse{RunId: answer.RunID, Status: answer.Status, ErrorCode: answer.Code, DelayMs: answer.DelayMS}, nil
}
