package client

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
	longTimeout    = time.Minute
	// maxResponseBytes is above the size of the largest page.
	maxResponseBytes = 16 << 20
)

// Client has the flags of commands that call a server.
type Client struct {
	*command.CLI
	Format render.Format

	server      string
	timeout     time.Duration
	credentials credentialFlags
}

// New is a client with the default flags.
func New(c *command.CLI) *Client { return &Client{CLI: c, Format: render.FormatTable} }

// Flags adds --server, --timeout, --output and the flags of credentials to a command
// and its subcommands.
func (c *Client) Flags(cmd *cobra.Command) {
	c.ServerFlags(cmd)
	c.OutputFlag(cmd)
}

// ServerFlags adds the flags of the connection.
func (c *Client) ServerFlags(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVar(&c.server, "server", "", "`HOST:PORT` of the server's gRPC (CARILLON_SERVER; default "+defaultServer+")")
	f.DurationVar(&c.timeout, "timeout", defaultTimeout, "timeout `DURATION` of one call")
	c.credentials.flags(cmd)
}

// address is the address of the server: the flag, the environment or the default.
func (c *Client) address(cmd *cobra.Command) (string, error) {
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

// Action is the body of a command with a connection.
type Action func(ctx context.Context, l *Link, args []string) error

// Ask runs an action with a connection, and closes it afterwards.
func (c *Client) Ask(do Action) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if c.timeout <= 0 {
			return command.Usage(cmd, "--timeout %s is not positive", c.timeout)
		}
		address, err := c.address(cmd)
		if err != nil {
			return err
		}
		dialing, err := c.dialOptions(cmd, address)
		if err != nil {
			return err
		}
		l, err := newLink(c.Version, address, c.timeout, dialing...)
		if err != nil {
			return err
		}
		defer l.conn.Close()
		l.Progress = render.NewProgress(c.Screen, "asking %s", address)
		defer l.Progress.End()
		real := c.CLI
		clear := *real
		clear.Out, clear.ErrOut = l.Progress.EndBefore(real.Out), l.Progress.EndBefore(real.ErrOut)
		c.CLI = &clear
		defer func() { c.CLI = real }()
		return do(cmd.Context(), l, args)
	}
}

// Link is a connection to one server. The first call connects.
type Link struct {
	Progress *render.Progress // of the command; its first output ends it

	conn    *grpc.ClientConn
	dialed  *dialResult
	timeout time.Duration // of one call
	version string        // of this binary
}

func newLink(version, address string, timeout time.Duration, dialing ...grpc.DialOption) (*Link, error) {
	d := &dialResult{address: address}
	// With passthrough and our own dialer, the cause of a failed connection is an
	// error value, not only part of gRPC's text.
	conn, err := grpc.NewClient("passthrough:///"+address, append([]grpc.DialOption{
		grpc.WithContextDialer(d.dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponseBytes)),
	}, dialing...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return &Link{conn: conn, dialed: d, timeout: timeout, version: version}, nil
}

// Timeout is the timeout of one call.
func (l *Link) Timeout() time.Duration { return l.timeout }

// Reached reports whether any call has connected.
func (l *Link) Reached() bool { return l.dialed.reached.Load() }

// Within is the same connection for calls that take a time at most.
func (l *Link) Within(most time.Duration) *Link {
	limited := *l
	limited.timeout = min(l.timeout, most)
	return &limited
}

// Call makes one call within the link's timeout.
func Call[Req, Resp any](ctx context.Context, l *Link, method func(context.Context, Req, ...grpc.CallOption) (Resp, error), req Req) (Resp, error) {
	limited, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	resp, err := method(limited, req)
	return resp, l.Explain(ctx, err, timedOut(limited, err))
}

// resetSlack bounds how much earlier than the client's timer the server's may fire.
const resetSlack = 100 * time.Millisecond

// timedOut reports whether a call failed because of its timeout. The server knows
// the deadline too and resets the stream when it has passed. If its timer fires before
// the client's, the error is Canceled although the user did not cancel, or
// DeadlineExceeded although the context has no error yet.
func timedOut(call context.Context, err error) bool {
	if call.Err() != nil {
		return true
	}
	deadline, ok := call.Deadline()
	switch left := time.Until(deadline); {
	case !ok:
		return false
	case status.Code(err) == codes.Canceled:
		return left <= resetSlack
	case status.Code(err) == codes.DeadlineExceeded:
		return left <= 0
	}
	return false
}

// LongTimeout raises the default of --timeout, for calls with thousands of schedules.
func (c *Client) LongTimeout(cmd *cobra.Command) {
	c.timeout = longTimeout
	cmd.PersistentFlags().Lookup("timeout").DefValue = longTimeout.String()
}
