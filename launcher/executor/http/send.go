package httpexecutor

import (
	"context"
	"errors"
	"net"
	"net/http/httptrace"
	"os"
	"sync"
	"time"
)

// errLate ends a call if nothing of it was written in time.
var errLate = errors.New("no connection was available in time")

// sending is the state of one request. The transport may try several connections,
// because kept ones may be dead. Each accepts writes until by, and none after it.
//
// A body that refuses late reads would not be enough: net/http flushes the headers
// before it reads a body of an unknown type.
type sending struct {
	by time.Time // zero: no bound

	mu    sync.Mutex
	conn  *conn // the last one that was given
	begun bool  // something was written to one before it, or may have been
}

// watch ends the wait for a connection at by, and limits writes to it. The returned
// function must be called after the call.
func (s *sending) watch(ctx context.Context) (_ context.Context, over func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() bool { return true }
	if !s.by.IsZero() {
		stop = time.AfterFunc(time.Until(s.by), func() {
			if !s.hasBegun() {
				cancel(errLate)
			}
		}).Stop
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { s.got(info.Conn) },
	})
	return ctx, func() {
		stop()
		cancel(nil)
		s.leave()
	}
}

func (s *sending) got(given net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = s.begun || s.conn != nil && s.conn.seal(s)
	if s.conn = gated(given); s.conn == nil {
		s.begun = true // not one of ours: nothing is known of it
		return
	}
	s.conn.admit(s)
}

func (s *sending) hasBegun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun || s.conn != nil && s.conn.hasBegun(s)
}

// end prevents all further writes, and reports whether anything was written. It is
// for failed calls: their connection is lost.
func (s *sending) end() (begun bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = s.begun || s.conn != nil && s.conn.seal(s)
	return s.begun
}

// leave removes the deadline from a connection that is kept.
func (s *sending) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.leave(s)
	}
}

// conn is a connection that checks with its request before each write.
type conn struct {
	net.Conn

	mu     sync.Mutex
	owner  *sending // nil: none is under way, as in a handshake
	begun  bool     // something of the owner's was written, or may have been
	sealed bool     // nothing more is to be written of a request
}

// dialGated makes every connection of a dialer a conn.
func dialGated(dialer *net.Dialer) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dialer.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &conn{Conn: c}, nil
	}
}

// gated is the conn below TLS; nil: there is none.
func gated(c net.Conn) *conn {
	for {
		switch on := c.(type) {
		case *conn:
			return on
		case interface{ NetConn() net.Conn }:
			c = on.NetConn()
		default:
			return nil
		}
	}
}

func (c *conn) Write(p []byte) (int, error) {
	if err := c.begin(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p) // cut off by the deadline that admit has set
}

func (c *conn) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.sealed:
		return net.ErrClosed
	case c.owner == nil:
		return nil
	case !c.owner.by.IsZero() && !time.Now().Before(c.owner.by):
		return os.ErrDeadlineExceeded
	}
	c.begun = true
	return nil
}

// admit assigns the connection to a request.
func (c *conn) admit(s *sending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owner, c.begun = s, false
	_ = c.SetWriteDeadline(s.by) // of a connection that is closed: its Write fails
}

func (c *conn) hasBegun(s *sending) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owner == s && c.begun
}

func (c *conn) seal(s *sending) (begun bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owner != s {
		return true // it was kept and given away, so the request was answered
	}
	c.sealed = true
	return c.begun
}

func (c *conn) leave(s *sending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owner == s && !c.sealed {
		c.owner = nil
		_ = c.SetWriteDeadline(time.Time{})
	}
}
