package cli

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
)

const (
	defaultServer  = "127.0.0.1:9090"
	defaultTimeout = 10 * time.Second
	// maxAnswer is more than the largest page of a list.
	maxAnswer = 16 << 20
)

// client is what all commands share that ask a server.
type client struct {
	*command.CLI
	server  string
	timeout time.Duration
	output  render.Format
	secure  secure
}

func newClient(c *command.CLI) *client { return &client{CLI: c, output: render.FormatTable} }

// flags adds --server, --timeout and --output to a command and those below it.
func (c *client) flags(cmd *cobra.Command) {
	c.serverFlags(cmd)
	c.outputFlag(cmd)
}

func (c *client) serverFlags(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVar(&c.server, "server", "", "`HOST:PORT` of the server's gRPC (CARILLON_SERVER; default "+defaultServer+")")
	f.DurationVar(&c.timeout, "timeout", defaultTimeout, "timeout `DURATION` of one call")
	c.secure.flags(cmd)
}

// address is where the server is asked for.
func (c *client) address(cmd *cobra.Command) (string, error) {
	address := c.server
	if address == "" {
		address = c.Env("CARILLON_SERVER")
	}
	if address == "" {
		address = defaultServer
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return "", command.Usage(cmd, "the server %q is not HOST:PORT, such as %s", address, defaultServer)
	}
	return address, nil
}

// asking is the body of a command that has a connection.
type asking func(ctx context.Context, l *link, args []string) error

// ask opens a connection for the time of the command.
func (c *client) ask(do asking) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if c.timeout <= 0 {
			return command.Usage(cmd, "--timeout %s is not positive", c.timeout)
		}
		address, err := c.address(cmd)
		if err != nil {
			return err
		}
		dialing, err := c.dialing(cmd, address)
		if err != nil {
			return err
		}
		l, err := newLink(c.Version, address, c.timeout, dialing...)
		if err != nil {
			return err
		}
		defer l.conn.Close()
		l.work = render.NewProgress(c.Screen, "asking %s", address)
		defer l.work.End()
		real := c.CLI
		clear := *real
		clear.Out, clear.ErrOut = l.work.EndBefore(real.Out), l.work.EndBefore(real.ErrOut)
		c.CLI = &clear
		defer func() { c.CLI = real }()
		return do(cmd.Context(), l, args)
	}
}

// link is a connection to one server. It is made at the first call.
type link struct {
	conn    *grpc.ClientConn
	dialed  *dialed
	timeout time.Duration    // of one call
	version string           // of this binary
	work    *render.Progress // of the command; what it writes ends it
}

func newLink(version, address string, timeout time.Duration, dialing ...grpc.DialOption) (*link, error) {
	d := &dialed{address: address}
	// passthrough and a dialer of our own: what failed is then known by itself,
	// not only as a part of gRPC's text.
	conn, err := grpc.NewClient("passthrough:///"+address, append([]grpc.DialOption{
		grpc.WithContextDialer(d.dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
	}, dialing...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return &link{conn: conn, dialed: d, timeout: timeout, version: version}, nil
}

// call makes one call within the link's timeout.
func call[Req, Resp any](ctx context.Context, l *link, method func(context.Context, Req, ...grpc.CallOption) (Resp, error), req Req) (Resp, error) {
	limited, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	resp, err := method(limited, req)
	return resp, l.explain(ctx, err, timedOut(limited, err))
}

// resetSlack bounds how much earlier than the client's timer the server's may fire.
const resetSlack = 100 * time.Millisecond

// timedOut reports whether a call failed because its time was over. The server knows
// the deadline too and resets the stream when it has passed. If its timer fires before
// the client's, the error is Canceled although nobody cancelled the call.
func timedOut(call context.Context, err error) bool {
	if call.Err() != nil {
		return true
	}
	deadline, ok := call.Deadline()
	return ok && status.Code(err) == codes.Canceled && time.Until(deadline) <= resetSlack
}

// patient makes the timeout of one call longer than others need.
func (c *client) patient(cmd *cobra.Command) {
	c.timeout = applyTimeout
	cmd.PersistentFlags().Lookup("timeout").DefValue = applyTimeout.String()
}

// applyTimeout is what a call with thousands of schedules may take.
const applyTimeout = time.Minute
