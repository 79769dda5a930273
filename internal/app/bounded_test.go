package app_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const (
	healthCheck = "/grpc.health.v1.Health/Check"
	healthList  = "/grpc.health.v1.Health/List"
	healthWatch = "/grpc.health.v1.Health/Watch"
	reportRun   = "/carillon.v1.RunService/ReportRun"
)

func TestEveryAnonymousCallHasASizeLimit(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, nil)
	runToken := strings.Repeat("a", 64)
	const refused, waitedFor = "8", "4"
	for _, c := range []struct {
		name, method, shown string
		limit               uint32
	}{
		{name: "a health check", method: healthCheck, limit: 1 << 10},
		{name: "a list of services", method: healthList, limit: 1 << 10},
		{name: "a health watch", method: healthWatch, limit: 1 << 10},
		{name: "a report with what looks like a run's token", method: reportRun, shown: runToken, limit: 144 << 10},
		{name: "a health check by a known caller", method: healthCheck, shown: g.tokens["viewer"], limit: 1 << 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var headers []string
			if c.shown != "" {
				headers = []string{"authorization", "Bearer " + c.shown}
			}
			for size, want := range map[uint32]string{c.limit: waitedFor, c.limit + 1: refused, schedule.MaxApplyBytes: refused, 1<<32 - 1: refused} {
				if want == waitedFor && c.shown == g.tokens["viewer"] {
					continue // identified callers have the deadline of the call
				}
				if got := announced(t, g.GRPCAddr(), c.method, size, 20*time.Second, headers...); got != want {
					t.Errorf("%d bytes: grpc-status %q, want %q", size, got, want)
				}
			}
		})
	}
}

func TestTheLargestAllowedMessagesAreRead(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, nil)
	// 3 bytes are the field's tag and length.
	check := &healthv1.HealthCheckRequest{Service: strings.Repeat("x", 1<<10-3)}
	if _, err := healthv1.NewHealthClient(g.conn).Check(t.Context(), check); status.Code(err) != codes.NotFound {
		t.Errorf("a health check of 1 KiB: %v", err)
	}
	report := &carillonv1.ReportRunRequest{IdempotencyKey: strings.Repeat("0", 64), Status: "FAILED", ErrorMessage: strings.Repeat("x", 64<<10)}
	if _, err := carillonv1.NewRunServiceClient(g.conn).ReportRun(g.as("launcher"), report); status.Code(err) != codes.NotFound {
		t.Errorf("a report with a message of 64 KiB: %v", err)
	}
	// Also over REST, which checks the token against the key in the path.
	for size, want := range map[int]int{64 << 10: http.StatusUnauthorized, 65 << 10: http.StatusBadRequest} {
		body := `{"status":"FAILED","error_message":"` + strings.Repeat("x", size) + `"}`
		if code, answer := g.send(strings.Repeat("a", 64), http.MethodPost, "/v1/runs/"+strings.Repeat("0", 64)+":report", body); code != want {
			t.Errorf("a report over REST with a message of %d bytes: %d %s", size, code, answer)
		}
	}
}

// An 8 kB message can decompress to the largest message that the server accepts.
func TestCompressedRequestsAreRefusedUnread(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, nil)
	open := newGuarded(t, map[string]any{"auth_tokens_file": "", "auth": "off"})
	bomb := &healthv1.HealthCheckRequest{Service: strings.Repeat("x", schedule.MaxApplyBytes-16)}
	for _, c := range []struct {
		name, who, method string
		server            *guarded
	}{
		{"a health check by nobody", "", healthCheck, g},
		{"a health watch by nobody", "", healthWatch, g},
		{"a report with what looks like a run's token", strings.Repeat("a", 64), reportRun, g},
		{"a call by nobody that needs a role", "", "/carillon.v1.ScheduleService/ApplySchedules", g},
		{"a call by nobody that does not exist", "", "/carillon.v1.ScheduleService/None", g},
		{"a call by a known caller", "compiler", "/carillon.v1.ScheduleService/ApplySchedules", g},
		{"a stream by a known caller", "worker", "/carillon.v1.RunLauncher/StartBatch", g},
		{"a call where authentication is off", "", "/carillon.v1.ScheduleService/ApplySchedules", open},
		{"a health check where authentication is off", "", healthCheck, open},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if c.who != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.server.shown(c.who))
			}
			err := c.server.conn.Invoke(ctx, c.method, bomb, &healthv1.HealthCheckResponse{}, grpc.UseCompressor(gzip.Name))
			if st := status.Convert(err); st.Code() != codes.Unimplemented || !strings.Contains(st.Message(), "compressed requests are not accepted") {
				t.Errorf("answered %v", err)
			}
		})
	}
}
