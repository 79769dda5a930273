package connlimit

import (
	"errors"
	"net"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/credentials"
)

// Credentials count the HTTP/2 frames of each connection after its handshake, so that
// they can be read under TLS too.
func Credentials(inner credentials.TransportCredentials) credentials.TransportCredentials {
	return counting{inner}
}

type counting struct {
	credentials.TransportCredentials
}

func (c counting) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if ours := Of(raw.RemoteAddr()); err == nil && ours != nil {
		limits := ours.listener.limits
		conn = &counted{
			Conn: conn, ours: ours, limits: limits, skip: prefaceSize,
			resets: rate.NewLimiter(limits.Resets, limits.ResetBurst),
		}
	}
	return conn, info, err
}

func (c counting) Clone() credentials.TransportCredentials {
	return counting{c.TransportCredentials.Clone()}
}

// HTTP/2 as RFC 9113 has it. A frame's header is a length in three bytes, a type
// in one, flags in one, and a stream in four.
const (
	prefaceSize      = 24 // "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", which a client sends first
	frameHeaderSize  = 9
	frameTypeHeaders = 0x1
	frameTypeReset   = 0x3
)

// errTooManyResets ends a connection. grpc-go limits concurrent handlers, but not how
// often streams are started and reset (CVE-2023-44487).
var errTooManyResets = errors.New("the connection resets too many streams")

// counted counts the calls and resets in the bytes that are read.
type counted struct {
	net.Conn
	ours   *Conn
	limits Limits
	resets *rate.Limiter

	skip   int // bytes before the next frame's header
	header [frameHeaderSize]byte
	have   int // bytes of header
	wide   bool
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	calls, resets := c.scan(p[:n])
	if calls+resets == 0 {
		return n, err
	}
	if c.ours.identified.Load() {
		if !c.wide {
			c.wide = true
			c.resets = rate.NewLimiter(c.limits.Resets, c.limits.IdentifiedResetBurst)
		}
	} else {
		c.ours.wait(calls + resets)
	}
	if resets > 0 && !c.resets.AllowN(time.Now(), resets) {
		_ = c.ours.Close()
		c.limits.Refused(TooManyResets, c.ours.Conn.RemoteAddr())
		return 0, errTooManyResets
	}
	return n, err
}

// scan counts the frames with headers that end in p. It follows lengths only; the library
// ends a connection with invalid HTTP/2.
func (c *counted) scan(p []byte) (calls, resets int) {
	for len(p) > 0 {
		if c.skip > 0 {
			n := min(c.skip, len(p))
			c.skip, p = c.skip-n, p[n:]
			continue
		}
		n := copy(c.header[c.have:], p)
		c.have, p = c.have+n, p[n:]
		if c.have < frameHeaderSize {
			break
		}
		c.have = 0
		c.skip = int(c.header[0])<<16 | int(c.header[1])<<8 | int(c.header[2])
		switch c.header[3] {
		case frameTypeHeaders:
			calls++
		case frameTypeReset:
			resets++
		}
	}
	return calls, resets
}

// wait delays the reading of an anonymous connection until its peer may make n more
// calls. It takes a few at a time, so that a connection with one call overtakes those
// that flood. It returns when the connection is closed or identified.
func (c *Conn) wait(n int) {
	const (
		step = 100 * time.Millisecond
		most = 50
	)
	for n > 0 && !c.identified.Load() {
		some := min(n, most, c.listener.limits.CallBurst)
		if c.peer.calls.AllowN(time.Now(), some) {
			n -= some
			continue
		}
		select {
		case <-c.closed:
			return
		case <-time.After(step):
		}
	}
}
