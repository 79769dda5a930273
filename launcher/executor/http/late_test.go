package httpexecutor_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon/carillon/launcher"
	httpexecutor "github.com/carillon/carillon/launcher/executor/http"
)

// soon is how long the check of a call is good in these tests.
const soon = 50 * time.Millisecond

// TestNothingIsSentOverAHandshakeThatComesTooLate: by then the launcher has
// been told that nothing was sent, and the connection stays, unused.
func TestNothingIsSentOverAHandshakeThatComesTooLate(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	certificates := server.TLS.Certificates
	server.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	e, err := httpexecutor.NewTrusting(httpexecutor.Config{URL: "https://" + listener.Addr().String()}, server.Certificate())
	if err != nil {
		t.Fatal(err)
	}
	call := exampleCall()
	call.SendBy = time.Now().Add(soon)
	_, runErr := e.Run(t.Context(), call) // nobody has accepted yet
	if !errors.Is(runErr, launcher.ErrNotSent) || time.Now().Before(call.SendBy) {
		t.Errorf("Run() = %v %s before SendBy, want ErrNotSent at SendBy", runErr, time.Until(call.SendBy))
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	secured := tls.Server(accepted, &tls.Config{Certificates: certificates, MinVersion: tls.VersionTLS12})
	defer func() { _ = secured.Close() }()
	_ = secured.SetDeadline(time.Now().Add(5 * time.Second))
	if err := secured.HandshakeContext(t.Context()); err != nil {
		t.Fatalf("handshake: %v", err)
	}
	_ = secured.SetDeadline(time.Now().Add(5 * soon)) // time for what must not come
	if got, _ := io.ReadAll(secured); len(got) != 0 {
		t.Errorf("%d bytes came after SendBy: %q", len(got), got)
	}
	e.Close()
}

// TestNothingIsWrittenAfterSendBy holds a request back between getting its
// connection and writing to it, on a new and on a kept connection, small and
// larger than any buffer before the wire.
func TestNothingIsWrittenAfterSendBy(t *testing.T) {
	for _, tt := range []struct {
		name  string
		warm  bool
		token string
	}{
		{name: "a new connection"},
		{name: "a kept connection", warm: true},
		{name: "headers larger than the buffer", token: strings.Repeat("t", 64<<10)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var bytes, requests atomic.Int64
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				w.WriteHeader(http.StatusAccepted)
			}))
			server.Listener = counting{server.Listener, &bytes}
			server.Config.MaxHeaderBytes = 1 << 20
			server.Start()
			t.Cleanup(server.Close)
			e := newExecutor(t, httpexecutor.Config{URL: server.URL, Token: tt.token})
			if tt.warm {
				if _, err := e.Run(t.Context(), exampleCall()); err != nil {
					t.Fatal(err)
				}
			}
			bytesBefore, before := bytes.Load(), requests.Load()
			call := exampleCall()
			call.SendBy = time.Now().Add(soon)
			slow := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
				<-time.After(time.Until(call.SendBy))
			}})
			if _, err := e.Run(slow, call); !errors.Is(err, launcher.ErrNotSent) {
				t.Errorf("Run() = %v, want ErrNotSent", err)
			}
			if n := requests.Load() - before; n != 0 {
				t.Errorf("%d requests arrived", n)
			}
			if n := bytes.Load() - bytesBefore; n != 0 {
				t.Errorf("%d bytes arrived", n)
			}
			call.SendBy = time.Now().Add(time.Minute)
			if _, err := e.Run(t.Context(), call); err != nil || requests.Load()-before != 1 {
				t.Errorf("sent again: %v, %d requests", err, requests.Load()-before)
			}
		})
	}
}

// TestAKeptConnectionIsNotBoundByTheCallBefore: SendBy is one call's.
func TestAKeptConnectionIsNotBoundByTheCallBefore(t *testing.T) {
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	e := newExecutor(t, httpexecutor.Config{URL: server.URL})
	bound := exampleCall()
	bound.SendBy = time.Now().Add(time.Second)
	for _, call := range []launcher.Call{bound, exampleCall()} {
		ctx := t.Context()
		if call.SendBy.IsZero() {
			ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
				<-time.After(time.Until(bound.SendBy))
			}})
		}
		if _, err := e.Run(ctx, call); err != nil {
			t.Fatal(err)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections, want one that is kept", n)
	}
}

// TestACallWhoseCheckIsTooOldKeepsTheConnections: it costs nothing.
func TestACallWhoseCheckIsTooOldKeepsTheConnections(t *testing.T) {
	e := newExecutor(t, httpexecutor.Config{URL: "http://127.0.0.1:1"})
	call := exampleCall()
	call.SendBy = time.Now()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GetConn: func(string) { t.Error("it asks for a connection") }})
	if _, err := e.Run(ctx, call); !errors.Is(err, launcher.ErrNotSent) {
		t.Errorf("Run() = %v, want ErrNotSent", err)
	}
}

// TestWhatHasBegunAndIsCutIsUnknown: half a request may be taken for a whole.
func TestWhatHasBegunAndIsCutIsUnknown(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts by its backlog, and reads nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	e := newExecutor(t, httpexecutor.Config{URL: "http://" + listener.Addr().String()})
	call := exampleCall()
	call.DAG = []byte(`"` + strings.Repeat("x", 8<<20) + `"`) // more than the sockets take
	for wait := 2 * time.Second; ; wait *= 2 {                // a busy machine needs longer to encode all that
		call.SendBy = time.Now().Add(wait)
		ctx, cancel := context.WithTimeout(t.Context(), wait+30*time.Second)
		_, err = e.Run(ctx, call)
		if ctx.Err() != nil {
			t.Error("it was written on after SendBy")
		}
		cancel()
		if !errors.Is(err, launcher.ErrNotSent) || wait > 15*time.Second {
			break
		}
	}
	if err == nil || errors.Is(err, launcher.ErrNotSent) {
		t.Errorf("Run() = %v, want an unknown outcome", err)
	}
}

// counting counts what its connections read.
type counting struct {
	net.Listener
	read *atomic.Int64
}

func (l counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return countingConn{c, l.read}, err
}

type countingConn struct {
	net.Conn
	read *atomic.Int64
}

func (c countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}
