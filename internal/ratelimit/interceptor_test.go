package ratelimit_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/ratelimit"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar/api"
)

// as makes every call one of the identity's.
func as(id *auth.Identity) api.Interceptors {
	return api.Interceptors{
		Unary: func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			return next(auth.NewContext(ctx, *id), req)
		},
		Stream: func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			return next(srv, identified{ss, auth.NewContext(ss.Context(), *id)})
		},
	}
}

type identified struct {
	grpc.ServerStream
	ctx context.Context
}

func (s identified) Context() context.Context { return s.ctx }

// watcher keeps watches open until their clients end them.
type watcher struct {
	carillonv1.UnimplementedRunServiceServer
}

func (watcher) WatchRuns(_ *carillonv1.WatchRunsRequest, s grpc.ServerStreamingServer[carillonv1.WatchRunsResponse]) error {
	if err := s.Send(&carillonv1.WatchRunsResponse{}); err != nil {
		return err
	}
	<-s.Context().Done()
	return s.Context().Err()
}

// serve is a server whose calls are all UNIMPLEMENTED, behind the limits.
func serve(t *testing.T, id *auth.Identity, limits ratelimit.Limits, reg prometheus.Registerer) (base string, conn *grpc.ClientConn) {
	t.Helper()
	unary, stream := ratelimit.New(limits, time.Now).Interceptors(reg)
	server := api.NewServer(slog.New(slog.DiscardHandler), []api.Interceptors{as(id), {Unary: unary, Stream: stream}})
	carillonv1.RegisterScheduleServiceServer(server, carillonv1.UnimplementedScheduleServiceServer{})
	carillonv1.RegisterRunServiceServer(server, watcher{})
	lis, conn, err := api.Loopback()
	if err != nil {
		t.Fatal(err)
	}
	gateway, err := api.NewGateway(context.Background(), conn, api.GatewayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(gateway)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(lis) })
	t.Cleanup(func() {
		web.Close()
		_ = conn.Close()
		server.Stop()
		serving.Wait()
	})
	return web.URL, conn
}

func TestAnOwnerThatFloodsIsToldWhenToComeAgain(t *testing.T) {
	ada := auth.Identity{Subject: "ada", Owner: "ada", Roles: []auth.Role{auth.User}}
	reg := prometheus.NewRegistry()
	base, _ := serve(t, &ada, ratelimit.Limits{ReadsPerS: 1, WritesPerS: 1}, reg)
	call := func(method, path, body string) (status int, retryAfter, text string) {
		req, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header.Get("Retry-After"), string(raw)
	}
	for _, c := range []struct{ name, method, path, body string }{
		{"reads", "GET", "/v1/schedules/s", ""},
		{"writes", "POST", "/v1/schedules/s:pause", "{}"},
	} {
		refused, passed := "", 0
		for range 20 {
			status, retryAfter, text := call(c.method, c.path, c.body)
			if status != http.StatusTooManyRequests {
				passed++
			} else if refused = text; retryAfter != "1" {
				t.Errorf("%s: Retry-After %q", c.name, retryAfter)
			}
		}
		if passed < 2 || !strings.Contains(refused, "a second, and 2 at once; come again in") {
			t.Errorf("%s: %d of 20 passed, the last refusal is %s", c.name, passed, refused)
		}
	}
	found, err := reg.Gather()
	if err != nil || len(found) != 1 {
		t.Fatalf("%v (%v), want refused calls counted", found, err)
	}
	for _, m := range found[0].GetMetric() {
		kind, counted := m.GetLabel()[0].GetValue(), m.GetCounter().GetValue() > 0
		if counted != (kind == "read" || kind == "write") {
			t.Errorf("%s: counted %v, want reads and writes", kind, m.GetCounter().GetValue())
		}
	}
	ada = auth.Identity{Subject: "compiler", Roles: []auth.Role{auth.Compiler}}
	for range 50 {
		if status, _, _ := call("POST", "/v1/schedules/s:pause", "{}"); status == http.StatusTooManyRequests {
			t.Fatal("a service that acts for all owners is limited")
		}
	}
}

func TestAnOwnerHasSoManyWatchesOpenAndNoMore(t *testing.T) {
	ada := auth.Identity{Subject: "ada", Owner: "ada", Roles: []auth.Role{auth.User}}
	_, conn := serve(t, &ada, ratelimit.Limits{Streams: 2}, prometheus.NewRegistry())
	client := carillonv1.NewRunServiceClient(conn)
	watch := func() (context.CancelFunc, error) {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		stream, err := client.WatchRuns(ctx, &carillonv1.WatchRunsRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		return cancel, err
	}
	end, err1 := watch()
	_, err2 := watch()
	_, err3 := watch()
	if err1 != nil || err2 != nil || err3 == nil || !strings.Contains(err3.Error(), "2 streams are open already") {
		t.Errorf("%v, %v, %v; want the third refused", err1, err2, err3)
	}
	end()
	for deadline := time.Now().Add(10 * time.Second); ; {
		if _, err := watch(); err == nil {
			return
		} else if time.Now().After(deadline) {
			t.Fatalf("a place that was given back is not free: %v", err)
		}
	}
}
