package reserve_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/carillon/carillon/internal/test/services/reserve"
)

func TestAReservedPortIsRefusedUntilItsServerListensAndNobodyElseGetsIt(t *testing.T) {
	addr := reserve.Addr(t)
	dial := func() error {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	for range 2 { // a server that is killed starts again
		if err := dial(); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("nobody listens: %v, want connection refused", err)
		}
		server, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := dial(); err != nil {
			t.Error(err)
		}
		if _, err := net.Listen("tcp", addr); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("a second server: %v, want address in use", err)
		}
		_ = server.Close()
	}
	for range 500 { // what others are given
		other, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = other.Close() })
		if other.Addr().String() == addr {
			t.Fatal("the kernel gave the reserved port to another")
		}
	}
}
