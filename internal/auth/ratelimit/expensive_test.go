package ratelimit_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/auth/ratelimit"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar/api"
)

// forecaster blocks forecasts until the test ends them.
type forecaster struct {
	carillonv1.UnimplementedScheduleServiceServer
	began chan string   // by whom
	end   chan struct{} // ends one
}

func (f *forecaster) ForecastLaunches(ctx context.Context, _ *carillonv1.ForecastLaunchesRequest) (*carillonv1.ForecastLaunchesResponse, error) {
	f.began <- auth.FromContext(ctx).Owner
	<-f.end
	return &carillonv1.ForecastLaunchesResponse{}, nil
}

// asNamed takes the owner from the header x-owner.
func asNamed(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	owner := strings.Join(append(md.Get("x-owner"), md.Get("grpcgateway-authorization")...), "")
	return next(auth.NewContext(ctx, auth.Identity{Subject: owner, Owner: owner}), req)
}

// serveForecasts has one permit, and one waiting call per owner.
func serveForecasts(t *testing.T) (f *forecaster, base string, conn *grpc.ClientConn) {
	t.Helper()
	f = &forecaster{began: make(chan string), end: make(chan struct{})}
	semaphore := ratelimit.NewSemaphore(ratelimit.SemaphoreLimits{Running: 1, Waiting: 10, PerOwner: 1, MaxWait: time.Hour})
	server := api.NewServer(slog.New(slog.DiscardHandler), []api.Interceptors{{Unary: asNamed, Costly: semaphore.Interceptor(prometheus.NewRegistry())}})
	carillonv1.RegisterScheduleServiceServer(server, f)
	base, conn = listen(t, server)
	return f, base, conn
}

func TestForecastsOfOneOwnerDoNotBlockOtherOwners(t *testing.T) {
	f, base, conn := serveForecasts(t)
	client := carillonv1.NewScheduleServiceClient(conn)
	var calls sync.WaitGroup
	refused := make(chan error, 10)
	forecast := func(owner string) {
		calls.Go(func() {
			ctx := metadata.AppendToOutgoingContext(t.Context(), "x-owner", owner)
			if _, err := client.ForecastLaunches(ctx, &carillonv1.ForecastLaunchesRequest{}); err != nil {
				refused <- err
			}
		})
	}
	forecast("ada")
	if who := <-f.began; who != "ada" {
		t.Fatalf("%s began", who)
	}
	forecast("ada")
	forecast("ada") // one of the two waits, the other is refused
	err := <-refused
	st := status.Convert(err)
	if st.Code() != codes.ResourceExhausted || !strings.Contains(st.Message(), "one running and 1 waiting") {
		t.Errorf("got %v, want RESOURCE_EXHAUSTED that names the limit", err)
	}
	if len(st.Details()) != 1 {
		t.Fatalf("details %v, want RetryInfo", st.Details())
	}
	if again, ok := st.Details()[0].(*errdetails.RetryInfo); !ok || again.GetRetryDelay().AsDuration() != time.Second {
		t.Errorf("details %v, want a RetryInfo of a second", st.Details())
	}
	checkRefusedOverREST(t, base)
	forecast("bob")
	served := map[string]int{}
	for range 2 {
		f.end <- struct{}{}
		served[<-f.began]++
	}
	if served["ada"] != 1 || served["bob"] != 1 {
		t.Errorf("%v were served, want ada's second and bob's", served)
	}
	f.end <- struct{}{}
	calls.Wait()
}

// checkRefusedOverREST makes one more forecast of ada.
func checkRefusedOverREST(t *testing.T, base string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/v1/forecast", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "ada")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "1" || !strings.Contains(string(text), "call them one after the other") {
		t.Errorf("%d, Retry-After %q: %s; want 429 with Retry-After", resp.StatusCode, resp.Header.Get("Retry-After"), text)
	}
}

func TestExpensiveCallsCountAsMany(t *testing.T) {
	t.Parallel()
	every := "* * * * * *"
	for _, c := range []struct {
		name string
		req  any
		want int
	}{
		{"a simulation", &carillonv1.SimulateSchedulesRequest{}, 20},
		{"a simulation of a queue", &carillonv1.SimulateQueueRequest{}, 20},
		{"a forecast", &carillonv1.ForecastLaunchesRequest{}, 20},
		{"a backfill", &carillonv1.BackfillScheduleRequest{}, 3},
		{"a dry run of a set", &carillonv1.ApplySchedulesRequest{DryRun: true}, 8},
		{"a set", &carillonv1.ApplySchedulesRequest{}, 0},
		{"a large preview", &carillonv1.PreviewScheduleRequest{CronExpr: &every, PageSize: 10_000}, 1},
		{"a preview", &carillonv1.PreviewScheduleRequest{CronExpr: &every, PageSize: 1000}, 0},
		{"a schedule", &carillonv1.GetScheduleRequest{}, 0},
	} {
		if got := ratelimit.Expensive(c.req); got != c.want {
			t.Errorf("%s: counts as %d calls, want %d", c.name, got, c.want)
		}
	}
}
