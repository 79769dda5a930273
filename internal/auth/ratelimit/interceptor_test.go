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
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/auth/ratelimit"
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
	carillonv1.RegisterEventServiceServer(server, carillonv1.UnimplementedEventServiceServer{})
	return listen(t, server)
}

// listen serves both protocols until the test ends.
func listen(t *testing.T, server *api.Server) (base string, conn *grpc.ClientConn) {
	t.Helper()
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

func TestARefusedOwnerGetsRetryAfter(t *testing.T) {
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
		if passed < 2 || !strings.Contains(refused, "per second, and 2 at once; try again in") {
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

// Events have a limit of their own: a call counts as many as it has.
func TestAnOwnerPublishesSoManyEventsPerSecond(t *testing.T) {
	id := auth.Identity{Subject: "shop", Owner: "ada", Roles: []auth.Role{auth.Publisher}}
	_, conn := serve(t, &id, ratelimit.Limits{ReadsPerS: 1, WritesPerS: 1, EventsPerS: 20}, prometheus.NewRegistry())
	events := carillonv1.NewEventServiceClient(conn)
	publish := func(n int) codes.Code {
		req := &carillonv1.PublishEventsRequest{Topic: "orders"}
		for range n {
			req.Events = append(req.Events, &carillonv1.NewEvent{Data: []byte("{}")})
		}
		_, err := events.PublishEvents(t.Context(), req)
		if code := status.Code(err); code != codes.ResourceExhausted {
			return code
		}
		const want = `owner "ada" may publish 20 per second, and 40 at once; publish fewer, or ask the operator to raise OWNER_EVENTS_PER_S; try again in`
		if text := status.Convert(err).Message(); !strings.Contains(text, want) || len(status.Convert(err).Details()) != 1 {
			t.Errorf("the refusal is %s", text)
		}
		return codes.ResourceExhausted
	}
	for range 10 { // more than the other writes at once
		if code := publish(1); code != codes.Unimplemented {
			t.Fatalf("single events: %v", code)
		}
	}
	if code := publish(30); code != codes.Unimplemented {
		t.Errorf("as many as are left: %v", code)
	}
	if code := publish(30); code != codes.ResourceExhausted {
		t.Errorf("as many again: %v", code)
	}
	id = auth.Identity{Subject: "compiler", Roles: []auth.Role{auth.Compiler}}
	if code := publish(30); code != codes.Unimplemented {
		t.Errorf("a service that acts for all owners: %v", code)
	}
}

func TestOpenWatchesOfACallerAreLimited(t *testing.T) {
	limits := ratelimit.Limits{Streams: 2, Watches: 3}
	for _, c := range []struct {
		name string
		id   auth.Identity
		most int
		says string
	}{
		{"an owner", auth.Identity{Subject: "ada", Owner: "ada", Roles: []auth.Role{auth.User}}, 2, "2 streams are already open, the maximum for one owner"},
		{"a service that acts for every owner", auth.Identity{Subject: "ci", Roles: []auth.Role{auth.Compiler}}, 3, "3 watches and exports are already open, the maximum for one caller"},
		{"a viewer", auth.Identity{Subject: "eve", Roles: []auth.Role{auth.Viewer}}, 3, "3 watches and exports are already open"},
		{"everyone with authentication off", auth.Identity{Via: auth.ViaOpen}, 3, "3 watches and exports are already open"},
	} {
		t.Run(c.name, func(t *testing.T) {
			id, reg := c.id, prometheus.NewRegistry()
			base, conn := serve(t, &id, limits, reg)
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
			var ends []context.CancelFunc
			for range c.most {
				end, err := watch()
				if err != nil {
					t.Fatal(err)
				}
				ends = append(ends, end)
			}
			if _, err := watch(); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), c.says) {
				t.Errorf("one more over gRPC: %v", err)
			}
			resp, err := http.Get(base + "/v1/runs:watch")
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(resp.Body)
			if _ = resp.Body.Close(); resp.StatusCode != http.StatusTooManyRequests || !strings.Contains(string(text), c.says) {
				t.Errorf("one more over REST: %d %s", resp.StatusCode, text)
			}
			ends[0]()
			for deadline := time.Now().Add(10 * time.Second); ; {
				if _, err := watch(); err == nil {
					return
				} else if time.Now().After(deadline) {
					t.Fatalf("a permit that was given back is not free: %v", err)
				}
			}
		})
	}
}
