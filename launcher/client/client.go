// Package client calls a launcher in another process. A worker without the
// launcher role uses it for LAUNCHER_ADDR.
package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/callstream"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher/wire"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// Client is the launcher at an address.
type Client struct {
	addr   string
	conn   *grpc.ClientConn
	rpc    carillonv1.RunLauncherClient
	health healthv1.HealthClient
	starts *starts
}

// callTimeout bounds one call: the longest executor call plus the network.
const callTimeout = 75 * time.Second

// reconnect sets the pauses between connection attempts. The default pauses of
// the library grow to two minutes, too long to find a launcher that is back.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
	MinConnectTimeout: 5 * time.Second,
}

// New returns the Client of addr (host:port, or any gRPC target). It connects with
// the first call, without TLS and token unless dialing sets them.
func New(addr string, dialing ...grpc.DialOption) (*Client, error) {
	conn, err := grpc.NewClient(addr, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(reconnect),
		// Detects a launcher that vanished without closing the connection. (A server
		// with gRPC's defaults ends connections that ping more often.)
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 5 * time.Second}),
	}, dialing...)...)
	if err != nil {
		return nil, fmt.Errorf("launcher address %q: %w", addr, err)
	}
	rpc := carillonv1.NewRunLauncherClient(conn)
	return &Client{addr: addr, conn: conn, rpc: rpc, health: healthv1.NewHealthClient(conn), starts: newStarts(rpc)}, nil
}

// Close ends the connection and the open calls.
func (c *Client) Close() error {
	c.starts.Close()
	err := c.conn.Close()
	c.starts.Wait()
	return err
}

// Reach checks whether a launch would arrive: a launcher answers at the address
// and accepts launches from this process. Health checks need no permission, so it
// also sends a batch without a launch.
func (c *Client) Reach(ctx context.Context) error {
	resp, err := c.health.Check(ctx, &healthv1.HealthCheckRequest{Service: carillonv1.RunLauncher_ServiceDesc.ServiceName})
	switch status.Code(err) {
	case codes.OK:
	case codes.NotFound, codes.Unimplemented:
		return fmt.Errorf("the server at %s is not a launcher: set LAUNCHER_ADDR to a process with the launcher role", c.addr)
	case codes.DeadlineExceeded:
		return fmt.Errorf("the launcher at %s does not answer", c.addr)
	default:
		return fmt.Errorf("cannot reach the launcher at %s: %s", c.addr, status.Convert(err).Message())
	}
	if s := resp.GetStatus(); s != healthv1.HealthCheckResponse_SERVING {
		return fmt.Errorf("the launcher at %s answers %s; its log says why", c.addr, s)
	}
	switch err := c.startNothing(ctx); status.Code(err) {
	case codes.OK, codes.Unimplemented: // a launcher older than batches
		return nil
	case codes.Unauthenticated:
		return fmt.Errorf("the launcher at %s does not accept this worker: check LAUNCHER_TOKEN or LAUNCHER_CERT_FILE", c.addr)
	case codes.PermissionDenied:
		return fmt.Errorf("the launcher at %s does not allow this worker to launch: its token or certificate needs the role worker", c.addr)
	default:
		return fmt.Errorf("the launcher at %s accepts no launches: %s", c.addr, status.Convert(err).Message())
	}
}

func (c *Client) startNothing(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batch, err := c.rpc.StartBatch(ctx)
	if err == nil {
		err = batch.CloseSend()
	}
	if err == nil {
		_, err = batch.Recv()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// Start starts a run at the launcher. After an error the outcome is unknown.
func (c *Client) Start(ctx context.Context, req schedule.StartRequest) (reply schedule.StartReply, err error) {
	c.StartAll(ctx, []schedule.StartRequest{req}, func(_ int, r schedule.StartReply, e error) { reply, err = r, e })
	return reply, err
}

// StartAll starts runs at the launcher and returns when each is answered. answered is called
// once for each, in any goroutine; it must not wait.
func (c *Client) StartAll(ctx context.Context, reqs []schedule.StartRequest, answered func(i int, reply schedule.StartReply, err error)) {
	msgs := make([]*carillonv1.RunLauncherStartRequest, len(reqs))
	for i := range reqs {
		msgs[i] = wire.Start(&reqs[i])
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c.starts.Call(ctx, time.Time{}, msgs, func(i int, a callstream.Answer[startAnswer]) {
		reply, err := replyTo(a)
		answered(i, reply, err)
	})
}

func replyTo(a callstream.Answer[startAnswer]) (schedule.StartReply, error) {
	if a.Err != nil {
		return schedule.StartReply{}, unreachable(fmt.Errorf("call the launcher: %w", a.Err))
	}
	answer := a.Msg
	switch code := codes.Code(answer.GetCode()); {
	case code == codes.OK && answer.GetOutcome() != nil:
		return replyOf(answer.GetOutcome()), nil
	case code == codes.OK:
		return schedule.StartReply{}, errors.New("call the launcher: it answers neither an outcome nor an error")
	case code == codes.AlreadyExists:
		return failed(schedule.ReasonKeyConflict, "key_conflict", answer.GetMessage()), nil
	case code == codes.InvalidArgument:
		// Sending it again would not help. UNIMPLEMENTED is different: a server
		// answers it while its launcher is not registered yet.
		return failed(schedule.ReasonLaunchRefused, "invalid_argument", answer.GetMessage()), nil
	case code == codes.Aborted:
		return schedule.StartReply{}, fmt.Errorf("call the launcher: %w", schedule.ErrBusy)
	case answer.GetFailure() != nil:
		return schedule.StartReply{}, wire.FailureError(answer.GetFailure(), answer.GetMessage())
	default:
		return schedule.StartReply{}, unreachable(fmt.Errorf("call the launcher: %w", status.Error(code, answer.GetMessage())))
	}
}

// unreachable is the error of an attempt without an answer of the launcher. The
// launcher may have called the executor.
func unreachable(err error) error {
	return &schedule.LaunchError{Code: schedule.CodeLauncherUnreachable, Reached: true, Err: err}
}

// Cancel requests the end of a run. The error is schedule.ErrUnsupported if the
// executor cannot cancel.
func (c *Client) Cancel(ctx context.Context, req schedule.CancelRequest) (confirmed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.rpc.Cancel(ctx, wire.Cancel(req))
	if err != nil {
		return false, fmt.Errorf("call the launcher: %w", err)
	}
	if !resp.GetConfirmed() && !resp.GetSupported() {
		return false, fmt.Errorf("cancel: %w", schedule.ErrUnsupported)
	}
	return resp.GetConfirmed(), nil
}

func replyOf(resp *carillonv1.RunLauncherStartResponse) schedule.StartReply {
	reply := schedule.StartReply{Outcome: schedule.Outcome{
		Status: schedule.Status(resp.GetStatus()), Reason: schedule.Reason(resp.GetReason()), RunID: resp.GetRunId(),
		TraceID: resp.GetTraceId(), ErrorCode: resp.GetErrorCode(), ErrorMessage: resp.GetErrorMessage(),
		SnoozeFor: time.Duration(resp.GetSnoozeMs()) * time.Millisecond,
	}, Deliveries: resp.GetDeliveries(), Settled: resp.GetSettled()}
	if resp.LaunchedAt != nil {
		reply.LaunchedAt = resp.GetLaunchedAt().AsTime()
	}
	return reply
}

func failed(reason schedule.Reason, code, message string) schedule.StartReply {
	return schedule.StartReply{Outcome: schedule.Outcome{
		Status: schedule.StatusFailed, Reason: reason, ErrorCode: code, ErrorMessage: message,
	}}
}
