package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/schedule"
)

// CallError is the error of a call, without the text that gRPC adds.
type CallError struct {
	Code codes.Code
	Err  error
}

func (e *CallError) Error() string { return e.Err.Error() }
func (e *CallError) Unwrap() error { return e.Err }

// ExitCode tells a missing object from other errors.
func (e *CallError) ExitCode() int {
	if e.Code == codes.NotFound {
		return command.ExitNotFound
	}
	return command.ExitFailed
}

// Explain turns the error of a call into one that tells what to do. ctx is the
// command's, without the timeout of the call; timedOut: that timeout has passed.
func (l *Link) Explain(ctx context.Context, err error, timedOut bool) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	st := status.Convert(err)
	failed := func(format string, args ...any) error {
		return &CallError{Code: st.Code(), Err: fmt.Errorf(format, args...)}
	}
	waited := st.Code() == codes.DeadlineExceeded
	switch {
	case (waited || st.Code() == codes.Unavailable) && !l.dialed.reached.Load():
		return failed("no server answers at %s%s; start one with `carillon dev`, or name another with --server or CARILLON_SERVER",
			l.dialed.address, l.dialed.why())
	case l.dialed.http.Load():
		return failed("%s speaks HTTP/1, not gRPC; give the server's gRPC address (GRPC_ADDR, by default %s)", l.dialed.address, defaultServer)
	case st.Code() == codes.Unauthenticated:
		return failed("%s; on the command line: --token-file or CARILLON_TOKEN, or --cert and --key", st.Message())
	case st.Code() == codes.Unavailable && strings.Contains(st.Message(), "server preface"):
		return failed("%s closes the connection; does it speak TLS? Then give --tls or --cacert", l.dialed.address)
	case timedOut && (waited || st.Code() == codes.Canceled):
		return failed("no answer from %s within %s; the call may still take effect; --timeout allows more time", l.dialed.address, l.timeout)
	case st.Code() == codes.Unimplemented:
		return failed("the server at %s does not know this call; is it older than this carillon (%s)?", l.dialed.address, l.version)
	case st.Code() == codes.InvalidArgument:
		if invalid := violations(st); invalid != nil {
			return &CallError{Code: st.Code(), Err: invalid}
		}
	}
	return failed("%s", st.Message())
}

// violations are the invalid fields that a status lists; nil if there are none.
func violations(st *status.Status) error {
	var c schedule.Collect
	for _, detail := range st.Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok {
			for _, v := range bad.GetFieldViolations() {
				c.Note(v.GetField(), v.GetDescription(), "")
			}
		}
	}
	return c.Err()
}

// dialResult records the outcome of connecting.
type dialResult struct {
	address string
	reached atomic.Bool
	http    atomic.Bool
	refused atomic.Pointer[net.OpError]
}

func (d *dialResult) dial(ctx context.Context, address string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			d.refused.Store(op)
		}
		return nil, err
	}
	d.reached.Store(true)
	return &protocolProbe{Conn: conn, result: d}, nil
}

// why is the reason of a failed connection as " (…)".
func (d *dialResult) why() string {
	if op := d.refused.Load(); op != nil && op.Err != nil {
		return " (" + op.Err.Error() + ")"
	}
	return ""
}

// protocolProbe detects a server that speaks HTTP/1: giving the REST port instead of
// the gRPC port is the most likely mistake.
type protocolProbe struct {
	net.Conn
	result *dialResult
	looked bool
}

func (c *protocolProbe) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.looked && n > 0 {
		c.looked = true
		c.result.http.Store(bytes.HasPrefix(b[:n], []byte("HTTP/1")))
	}
	return n, err
}
