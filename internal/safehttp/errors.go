package safehttp

import (
	"errors"
	"net"
)

// withoutAddresses removes addresses of our network from an error, because the user who wrote the URL
// reads it: those of the DNS server, of this machine, and of the lookup.
func withoutAddresses(err error) error {
	var refused *RefusedError
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &refused): // has no address, unlike the errors around it
		return refused
	case errors.As(err, &dns):
		return withoutServer(dns)
	case errors.As(err, &op):
		return &net.OpError{Op: op.Op, Net: op.Net, Err: op.Err}
	}
	return err
}

// withoutServer also replaces the reason, which may contain addresses: "read udp
// 10.0.0.5:41234->10.0.0.2:53: i/o timeout".
func withoutServer(e *net.DNSError) error {
	out := &net.DNSError{
		Err: "the DNS server gave no usable answer", Name: e.Name, UnwrapErr: e.UnwrapErr,
		IsTimeout: e.IsTimeout, IsTemporary: e.IsTemporary, IsNotFound: e.IsNotFound,
	}
	switch {
	case e.IsNotFound:
		out.Err = "no such host"
	case e.IsTimeout:
		out.Err = "timeout"
	}
	return out
}

// conn removes addresses from the errors of a connection.
type conn struct{ net.Conn }

func (c conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, withoutAddresses(err)
}

func (c conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, withoutAddresses(err)
}
