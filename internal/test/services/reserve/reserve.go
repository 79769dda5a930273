//go:build unix

// Package reserve holds ports for tests and rigs whose servers must know their
// address before they start, or keep it when they start again.
//
// It belongs to no step of a slot's life.
package reserve

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"
)

// A Port is a loopback port that a socket is bound to and that nobody listens
// on yet: connections are refused. A server that sets SO_REUSEADDR, as Go,
// Postgres, Redis and PgBouncer do, can listen on it, and again after it was
// killed. The kernel gives the port to no other process meanwhile.
type Port struct {
	Number int
	socket int
}

// New reserves a port until Release.
func New() (p *Port, err error) {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, fmt.Errorf("reserve a port: %w", os.NewSyscallError("socket", err))
	}
	syscall.CloseOnExec(socket)
	p = &Port{socket: socket}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Release())
		}
	}()
	// Before bind: the kernel compares what both sockets had set by then.
	if err := syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return p, fmt.Errorf("reserve a port: %w", os.NewSyscallError("setsockopt", err))
	}
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return p, fmt.Errorf("reserve a port: %w", os.NewSyscallError("bind", err))
	}
	name, err := syscall.Getsockname(socket)
	if err != nil {
		return p, fmt.Errorf("reserve a port: %w", os.NewSyscallError("getsockname", err))
	}
	p.Number = name.(*syscall.SockaddrInet4).Port
	return p, nil
}

// Addr is host:port.
func (p *Port) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Number)) }

// Release gives the port back.
func (p *Port) Release() error { return os.NewSyscallError("close", syscall.Close(p.socket)) }

// Addr reserves an address until the test ends.
func Addr(t testing.TB) string {
	t.Helper()
	return forTest(t).Addr()
}

// Number reserves a port until the test ends.
func Number(t testing.TB) int {
	t.Helper()
	return forTest(t).Number
}

func forTest(t testing.TB) *Port {
	t.Helper()
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Release(); err != nil {
			t.Error(err)
		}
	})
	return p
}
