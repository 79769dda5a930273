package safehttp

import (
	"errors"
	"net"
)

// withoutAddresses removes what an error tells about our network: the address of
// the DNS server, our own address, and the addresses that a look-up found. Who
// wrote the URL reads the error.
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

// withoutServer also replaces the reason: "read udp 10.0.0.5:41234->10.0.0.2:53:
// i/o timeout" is one.
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

// conn is a connection whose errors have no addresses.
type conn struct{ net.Conn }

func (c conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, withoutAddresses(err)
}

func (c conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, withoutAddresses(err)
}
