package client_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/carillon/carillon/internal/test/services/reserve"
)

const service = "carillon.v1.RunLauncher"

func TestALauncherIsReachedWhereOneServes(t *testing.T) {
	serving := func(status healthv1.HealthCheckResponse_ServingStatus, services ...string) func(t *testing.T) string {
		return func(t *testing.T) string {
			t.Helper()
			return serveAs(t, func(s grpc.ServiceRegistrar) {
				h := health.NewServer()
				for _, name := range services {
					h.SetServingStatus(name, status)
				}
				healthv1.RegisterHealthServer(s, h)
			})
		}
	}
	for _, c := range []struct {
		name  string
		serve func(t *testing.T) (addr string)
		want  string // of the reason; empty: it is reached
	}{
		{name: "a launcher", serve: serving(healthv1.HealthCheckResponse_SERVING, service)},
		{name: "one that is ending", serve: serving(healthv1.HealthCheckResponse_NOT_SERVING, service), want: "answers NOT_SERVING"},
		{name: "a server without the launcher role", serve: serving(healthv1.HealthCheckResponse_SERVING), want: "is not a launcher: set LAUNCHER_ADDR"},
		{
			name:  "a server of something else",
			serve: func(t *testing.T) string { return serveAs(t, func(grpc.ServiceRegistrar) {}) }, want: "is not a launcher: set LAUNCHER_ADDR",
		},
		{name: "nothing", serve: func(*testing.T) string { return "127.0.0.1:1" }, want: "refused"},
		{name: "a server that does not answer", serve: mute, want: "does not answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr := c.serve(t)
			bound := 30 * time.Second // a busy machine answers late
			if c.want == "does not answer" {
				bound = time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			defer cancel()
			err := connect(t, addr).Reach(ctx)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("got %v, want that it is reached", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), addr)):
				t.Errorf("got %v, want %s and %q", err, addr, c.want)
			}
		})
	}
}

// mute accepts connections and says nothing.
func mute(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer func() { _ = conn.Close() }()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-ended })
	return listener.Addr().String()
}

// TestALauncherThatIsBackIsFoundSoon: the library's own pauses grow to minutes.
func TestALauncherThatIsBackIsFoundSoon(t *testing.T) {
	addr := reserve.Addr(t)
	c := connect(t, addr)
	look := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return c.Reach(ctx)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for away := time.Now(); time.Since(away) < 5*time.Second; <-tick.C {
		if look() == nil {
			t.Fatal("nothing is there, and it is reached")
		}
	}
	back, err := net.Listen("tcp", addr)
	if err != nil {
		t.Skipf("the port was taken meanwhile: %v", err)
	}
	server := grpc.NewServer()
	h := health.NewServer()
	h.SetServingStatus(service, healthv1.HealthCheckResponse_SERVING)
	healthv1.RegisterHealthServer(server, h)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(back) }()
	defer func() { server.Stop(); <-ended }()
	began := time.Now()
	for look() != nil {
		if time.Since(began) > 5*time.Second {
			t.Fatal("it is back, and not found after five seconds")
		}
		<-tick.C
	}
}
