package grpcexecutor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/callstream"
	"github.com/carillon/carillon/internal/result"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/executor"
	"github.com/carillon/carillon/launcher/wire"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// maxAnswer caps the bytes that are read of an answer. It is far above a result and artifacts that
// are kept: the end of a run counts even if its result is too large.
const maxAnswer = 512 << 10

// Executor hands runs to a gRPC service. It is safe for concurrent use.
type Executor struct {
	cfg     Config
	conn    *grpc.ClientConn
	rpc     carillonv1.ExecutorClient
	batches *batches
}

var _ launcher.Executor = (*Executor)(nil)

// New makes an executor of a valid configuration. It connects with the first
// call.
func New(cfg Config) (*Executor, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	conn, err := grpc.NewClient(cfg.Target,
		grpc.WithTransportCredentials(cfg.credentials()),
		grpc.WithDisableServiceConfig(), // ignore retry settings in TXT records
		grpc.WithUserAgent("carillon"),
		grpc.WithStatsHandler(watchSent{}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		// Detect an executor that disappeared without closing the connection.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
	)
	if err != nil {
		return nil, fmt.Errorf("EXECUTOR_URL %s: %w", schedule.Quote(cfg.Target), err)
	}
	rpc := carillonv1.NewExecutorClient(conn)
	return &Executor{cfg: cfg, conn: conn, rpc: rpc, batches: newBatches(rpc, cfg.Token)}, nil
}

// Close ends the connection.
func (e *Executor) Close() error {
	e.batches.calls.Close()
	err := e.conn.Close()
	e.batches.calls.Wait()
	return err
}

// Run hands one run over; see launcher.Executor.
func (e *Executor) Run(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
	ctx, cancel := within(ctx, call.Deadline)
	defer cancel()
	traceParent, msg := cmp.Or(call.TraceParent, executor.TraceParent(call.Key)), wire.Run(&call, e.cfg.Environment)
	resp, tried, sent, err := e.runInBatch(ctx, call.SendBy, &carillonv1.ExecutorRunBatchCall{Run: msg, Traceparent: traceParent})
	if !tried {
		sent, err = e.call(ctx, traceParent, call.SendBy, func(ctx context.Context) (err error) {
			resp, err = e.rpc.Run(ctx, msg, grpc.PerRPCCredentials(sendBy(call.SendBy)))
			return err
		})
	}
	if err != nil {
		return schedule.Outcome{}, runError(err, sent)
	}
	return outcome(call.Key, resp)
}

// within bounds a context by an instant (zero: none). Most contexts end at it already, and
// another timer for each call would cost more than the call.
func within(ctx context.Context, at time.Time) (context.Context, context.CancelFunc) {
	if end, bounded := ctx.Deadline(); at.IsZero() || bounded && !at.Before(end) {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, at)
}

// runInBatch makes a call of RunBatch; see batches.run.
func (e *Executor) runInBatch(ctx context.Context, by time.Time, c *carillonv1.ExecutorRunBatchCall) (resp *carillonv1.ExecutorRunResponse, tried, sent bool, err error) {
	began := time.Now()
	ctx, cancel := within(ctx, began.Add(e.cfg.Timeout))
	defer cancel()
	deadline, _ := ctx.Deadline()
	c.TimeoutMs = uint32(max(time.Millisecond, time.Until(deadline)).Milliseconds())
	resp, tried, sent, err = e.batches.run(ctx, by, c)
	return resp, tried, sent, e.unanswered(err, sent, began, deadline)
}

// unanswered tells a call that ended with our own timer from other errors.
func (e *Executor) unanswered(err error, sent bool, began, deadline time.Time) error {
	if sent && status.Code(err) == codes.DeadlineExceeded && time.Until(deadline) < timerSkew {
		return launcher.Unanswered(time.Since(began), e.cfg.Timeout, context.DeadlineExceeded)
	}
	return err
}

// runError classifies an error of Run.
func runError(err error, sent bool) error {
	if unanswered, ok := errors.AsType[*launcher.CallError](err); ok {
		return fmt.Errorf("call the executor: %w", unanswered)
	}
	st := status.Convert(err)
	if !sent {
		return fmt.Errorf("call the executor: %w: %s: %s", launcher.ErrNotSent, word(st.Code()), st.Message())
	}
	if refuses(st.Code()) {
		message := executor.Text(st.Message(), executor.MaxMessage)
		if message == "" {
			message = "the executor answered " + word(st.Code())
		}
		return &launcher.Refusal{Code: word(st.Code()), Message: message}
	}
	return unknown(codeOf(st.Code()), "the executor answered %s: %s", word(st.Code()), executor.Text(st.Message(), executor.MaxMessage))
}

// refuses says whether an executor refuses a run with a code.
func refuses(code codes.Code) bool {
	switch code {
	case codes.InvalidArgument, codes.NotFound, codes.PermissionDenied, codes.Unauthenticated,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented:
		return true
	}
	return false
}

// codeOf is the error code of a gRPC code that leaves the outcome unknown. A
// connection that breaks after the request also reports UNAVAILABLE.
func codeOf(code codes.Code) schedule.ErrorCode {
	if code == codes.DeadlineExceeded || code == codes.Canceled {
		return schedule.CodeExecutorTimeout
	}
	return schedule.CodeExecutorError
}

// Cancel asks for the end of a run; see launcher.Executor.
func (e *Executor) Cancel(ctx context.Context, ref schedule.CancelRequest) error {
	var resp *carillonv1.ExecutorCancelResponse
	sent, err := e.call(ctx, executor.TraceParent(ref.Key), time.Time{}, func(ctx context.Context) (err error) {
		resp, err = e.rpc.Cancel(ctx, &carillonv1.ExecutorCancelRequest{
			IdempotencyKey: ref.Key.String(), WorkflowId: ref.WorkflowID, RunId: ref.RunID, Reason: string(ref.Reason),
			ScheduleId: ref.ScheduleID, ScheduledFor: timestamp(ref.ScheduledFor), Environment: e.cfg.Environment,
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("cancel: %w", askError(err, sent))
	}
	if resp.GetAccepted() {
		return fmt.Errorf("cancel: %w", launcher.ErrCancelAccepted)
	}
	return nil
}

// GetByKey asks for the state of a key; see launcher.Executor.
func (e *Executor) GetByKey(ctx context.Context, ref schedule.RunRef) (schedule.Outcome, error) {
	var resp *carillonv1.ExecutorGetByKeyResponse
	sent, err := e.call(ctx, executor.TraceParent(ref.Key), time.Time{}, func(ctx context.Context) (err error) {
		resp, err = e.rpc.GetByKey(ctx, &carillonv1.ExecutorGetByKeyRequest{
			IdempotencyKey: ref.Key.String(), ScheduleId: ref.ScheduleID, ScheduledFor: timestamp(ref.ScheduledFor), Environment: e.cfg.Environment,
		})
		return err
	})
	if err != nil {
		return schedule.Outcome{}, askError(err, sent) // the launcher says that it asked by key
	}
	return outcome(ref.Key, resp)
}

// timestamp is nil for the zero time.
func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// askError classifies an error of Cancel or GetByKey.
func askError(err error, sent bool) error {
	if unanswered, ok := errors.AsType[*launcher.CallError](err); ok {
		return unanswered
	}
	st := status.Convert(err)
	switch {
	case !sent:
		return fmt.Errorf("%w: %s: %s", launcher.ErrNotSent, word(st.Code()), st.Message())
	case st.Code() == codes.NotFound:
		return fmt.Errorf("%w: %s", schedule.ErrNotFound, executor.Text(st.Message(), executor.MaxMessage))
	case st.Code() == codes.Unimplemented:
		return fmt.Errorf("%w: %s", launcher.ErrUnsupported, executor.Text(st.Message(), executor.MaxMessage))
	}
	return unknown(codeOf(st.Code()), "the executor answered %s: %s", word(st.Code()), executor.Text(st.Message(), executor.MaxMessage))
}

// timerSkew is how much earlier than our timer the executor's timer may fire. Its
// DEADLINE_EXCEEDED then counts as ours.
const timerSkew = 50 * time.Millisecond

// call makes one call, sends nothing after by, and reports whether anything may
// have been sent. Without a connection it fails at once instead of waiting: the
// launch is sent again later.
func (e *Executor) call(ctx context.Context, traceParent string, by time.Time, invoke func(context.Context) error) (sent bool, err error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", traceParent)
	if e.cfg.Token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+e.cfg.Token)
	}
	s := new(sending)
	ctx, over := s.watch(ctx, by)
	defer over()
	err = invoke(ctx)
	if err != nil && errors.Is(context.Cause(ctx), callstream.ErrLate) {
		err = callstream.ErrLate
	}
	sent = s.begun.Load()
	deadline, _ := ctx.Deadline()
	return sent, e.unanswered(err, sent, began, deadline)
}

// answer holds the common fields of the answers to Run and GetByKey.
type answer interface {
	GetRunId() string
	GetStatus() string
	GetErrorCode() string
	GetErrorMessage() string
	GetFailureClass() string
	GetTraceId() string
	GetDelayMs() uint32
	GetResult() []byte
	GetArtifacts() []*carillonv1.RunArtifact
	GetState() []byte
	GetPublish() []*carillonv1.NewEvent
}

// exitCode is the exit code of an answer: its getter does not tell 0 from none.
func exitCode(a answer) *int32 {
	switch a := a.(type) {
	case *carillonv1.ExecutorRunResponse:
		return a.ExitCode
	case *carillonv1.ExecutorGetByKeyResponse:
		return a.ExitCode
	}
	return nil
}

func artifacts(sent []*carillonv1.RunArtifact) []result.Artifact {
	all := make([]result.Artifact, len(sent))
	for i, a := range sent {
		all[i] = result.Artifact{Name: a.GetName(), URL: a.GetUrl(), Bytes: a.GetBytes(), SHA256: a.GetSha256()}
	}
	return all
}

// outcome reads an answer and refuses one that cannot be stored.
func outcome(key schedule.Key, a answer) (schedule.Outcome, error) {
	o := schedule.Outcome{RunID: a.GetRunId(), TraceID: a.GetTraceId()}
	if !executor.ValidRunID(o.RunID) {
		return schedule.Outcome{}, unknown(schedule.CodeExecutorBadAnswer, "the executor answered with run_id %s, which cannot be stored (at most %d bytes, no control characters)",
			schedule.Quote(o.RunID), executor.MaxRunID)
	}
	if o.TraceID == "" || !executor.ValidRunID(o.TraceID) {
		o.TraceID = executor.TraceID(key)
	}
	switch a.GetStatus() {
	case "", string(schedule.StatusEnqueued):
		o.Status = schedule.StatusEnqueued
	case string(schedule.StatusSuccess):
		o.Status = schedule.StatusSuccess
	case string(schedule.StatusFailed):
		o.Status, o.Reason = schedule.StatusFailed, schedule.ReasonWorkflowFailed
		o.ErrorCode = schedule.ExecutorErrorCode(a.GetErrorCode())
		o.ErrorMessage = executor.Text(a.GetErrorMessage(), executor.MaxMessage)
		o.FailureClass = schedule.FailureClass(a.GetFailureClass())
	case string(schedule.StatusSnooze):
		delay, err := schedule.SnoozeDelay(int64(a.GetDelayMs()))
		if err != nil {
			return schedule.Outcome{}, unknown(schedule.CodeExecutorBadAnswer, "the executor answered SNOOZE: %w", err)
		}
		o.Status, o.Reason, o.SnoozeFor = schedule.StatusSkipped, schedule.ReasonSnoozed, delay
	default:
		return schedule.Outcome{}, unknown(schedule.CodeExecutorBadAnswer, "the executor answered with status %s; it is ENQUEUED, SUCCESS, FAILED or SNOOZE", schedule.Quote(a.GetStatus()))
	}
	if o.Status.Terminal() {
		o.ExitCode, o.Result = exitCode(a), result.Of(a.GetResult(), artifacts(a.GetArtifacts()))
	}
	commit, err := result.CommitIn(key, a)
	result.Enter(&o, commit, err)
	return o, nil
}

func unknown(code schedule.ErrorCode, format string, args ...any) error {
	return &launcher.CallError{Code: code, Err: fmt.Errorf(format, args...)}
}

// word is a gRPC code in the form of our error codes: "invalid_argument".
func word(code codes.Code) string {
	name := make([]byte, 0, 24)
	for i, c := range []byte(code.String()) { // "InvalidArgument"
		if c >= 'A' && c <= 'Z' {
			if i > 0 {
				name = append(name, '_')
			}
			c += 'a' - 'A'
		}
		name = append(name, c)
	}
	return string(name)
}
