package ratelimit_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/auth/ratelimit"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const (
	pause  = carillonv1.ScheduleService_PauseSchedule_FullMethodName
	get    = carillonv1.ScheduleService_GetSchedule_FullMethodName
	report = carillonv1.RunService_ReportRun_FullMethodName
	check  = "/grpc.health.v1.Health/Check"
)

// calls makes n calls and counts those that reach the handler, which answers
// them with the code.
func calls(t *testing.T, limit grpc.UnaryServerInterceptor, id auth.Identity, method string, answer codes.Code, n int) (reached int, last error) {
	t.Helper()
	for range n {
		ctx, call := auth.WithCall(t.Context(), method)
		call.Identity = id
		_, last = limit(ctx, nil, &grpc.UnaryServerInfo{FullMethod: method}, func(context.Context, any) (any, error) {
			reached++
			return nil, status.Error(answer, "as the test says")
		})
	}
	return reached, last
}

func TestACallerWithTooManyRefusalsIsRejectedUnread(t *testing.T) {
	compiler := auth.Identity{Subject: "ci", Via: "token", Roles: []auth.Role{auth.Compiler}}
	executor := auth.Identity{Subject: "ex", Via: "token", Roles: []auth.Role{auth.Executor}}
	for _, tt := range []struct {
		name   string
		id     auth.Identity
		method string
		answer codes.Code
		want   int // of 100 calls
	}{
		{"a service's changes that are refused", compiler, pause, codes.NotFound, 20},
		{"changes that its roles do not admit", executor, pause, codes.PermissionDenied, 20},
		{"reads that its roles do not admit", executor, get, codes.PermissionDenied, 20},
		{"changes that are made", compiler, pause, codes.OK, 100},
		{"invalid requests", compiler, pause, codes.InvalidArgument, 100},
		{"changes that this server could not make", compiler, pause, codes.Unavailable, 100},
		{"reads of a missing run", compiler, get, codes.NotFound, 100},
		{"reports of a missing run", executor, report, codes.NotFound, 100},
		{"health checks", executor, check, codes.NotFound, 100},
		{"callers without an identity", auth.Identity{Via: auth.ViaOpen}, pause, codes.NotFound, 100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clock := newClock()
			limit := ratelimit.Refusals(10, clock.now, status.Code, prometheus.NewRegistry())
			reached, last := calls(t, limit, tt.id, tt.method, tt.answer, 100)
			if reached != tt.want {
				t.Errorf("%d of 100 calls were looked at, want %d", reached, tt.want)
			}
			if limited := status.Code(last) == codes.ResourceExhausted; limited != (tt.want < 100) {
				t.Errorf("the last is answered %v", last)
			}
		})
	}
}

func TestARejectedCallerMayMakeOtherCallsAndRetryLater(t *testing.T) {
	clock := newClock()
	limit := ratelimit.Refusals(10, clock.now, status.Code, prometheus.NewRegistry())
	ex := auth.Identity{Subject: "ex", Via: "token", Roles: []auth.Role{auth.Executor}}
	_, err := calls(t, limit, ex, pause, codes.PermissionDenied, 100)
	details := status.Convert(err).Details()
	if len(details) != 1 {
		t.Fatalf("%v has no word of when to come again", err)
	}
	wait := details[0].(*errdetails.RetryInfo).GetRetryDelay().AsDuration()
	if wait <= 0 || wait > 100*time.Millisecond {
		t.Errorf("told to wait for %s, want up to a tenth of a second", wait)
	}
	for what, reached := range map[string]int{
		"its reports": first(calls(t, limit, ex, report, codes.OK, 3)),
		"another caller's changes": first(calls(t, limit, auth.Identity{Subject: "ci", Via: "token", Roles: []auth.Role{auth.Compiler}},
			pause, codes.OK, 3)),
	} {
		if reached != 3 {
			t.Errorf("%s are held up: %d of 3", what, reached)
		}
	}
	clock.at = clock.at.Add(wait)
	if reached, _ := calls(t, limit, ex, pause, codes.PermissionDenied, 5); reached != 1 {
		t.Errorf("%d calls are looked at after the wait, want 1", reached)
	}
}

func first(n int, _ error) int { return n }

func TestReportsOfEachRunAreLimited(t *testing.T) {
	clock := newClock()
	limit := ratelimit.Reports(10, clock.now)
	run, other := schedule.ManualKey("s", "a"), schedule.ManualKey("s", "b")
	passed := 0
	for range 1000 {
		if err := limit(run); err == nil {
			passed++
		} else if status.Code(err) != codes.ResourceExhausted {
			t.Fatal(err)
		}
	}
	if passed != 20 {
		t.Errorf("%d reports at once pass, want 20", passed)
	}
	if err := limit(other); err != nil {
		t.Errorf("another run's report: %v", err)
	}
	clock.at = clock.at.Add(time.Second)
	if err := limit(run); err != nil {
		t.Errorf("a second later: %v", err)
	}
}
