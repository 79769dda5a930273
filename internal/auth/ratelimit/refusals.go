package ratelimit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
)

// Refusals limits the refused calls of each identified caller, because each refusal costs a
// transaction and may write an audit row. It applies to calls with an audit entry and to calls that
// the caller's roles do not allow. All others pass: a caller with too many refusals must still be
// able to launch, report and read.
//
// It must run after the caller is identified and before the call is admitted. codeOf maps an error to
// the code that the caller sees.
func Refusals(perS int, now func() time.Time, codeOf func(error) codes.Code, reg prometheus.Registerer) grpc.UnaryServerInterceptor {
	limited := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "carillon_refused_calls_limited_total", Help: "Calls rejected unread because their caller had too many refused calls.",
	})
	reg.MustRegister(limited)
	l := New(Limits{WritesPerS: perS}, now)
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		who := callerOf(ctx)
		if who == "" || !limitsRefusals(ctx, info.FullMethod) {
			return next(ctx, req)
		}
		if wait := l.wait(who); wait > 0 {
			limited.Inc()
			return nil, retryAfter(wait, "too many refused calls of this caller: at most %d per second, and %d at once", perS, burst*perS)
		}
		resp, err := next(ctx, req)
		if refusal(codeOf(err)) {
			l.Take(who, Write, 1)
		}
		return resp, err
	}
}

// callerOf is the caller to count a refusal for; empty: not identified.
func callerOf(ctx context.Context) string {
	call := auth.CallFrom(ctx)
	if call == nil || call.Identity.Subject == "" {
		return ""
	}
	return call.Identity.Via + " " + call.Identity.Subject
}

func limitsRefusals(ctx context.Context, method string) bool {
	rule, _ := auth.RuleOf(method)
	if rule.Audit || rule.Write {
		return true
	}
	_, admitted := rule.Admit(auth.CallFrom(ctx).Identity)
	return !admitted && !rule.Anyone
}

// refusal reports whether the code depends on the caller's permissions or the stored state. Invalid
// requests cost nothing to refuse, and errors of this server are not the caller's fault.
func refusal(code codes.Code) bool {
	return slices.Contains([]codes.Code{
		codes.PermissionDenied, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition, codes.Aborted,
	}, code)
}

// wait is the time until the caller's bucket holds a call; 0: it does now.
func (l *Limiter) wait(who string) time.Duration {
	if l.limits.WritesPerS <= 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	missing := 1 - l.account(who).left[Write].TokensAt(l.now())
	return max(0, time.Duration(missing*float64(time.Second))/time.Duration(l.limits.WritesPerS))
}

// Reports limits the reports of each run.
func Reports(perS int, now func() time.Time) func(schedule.Key) error {
	l := New(Limits{WritesPerS: perS}, now)
	return func(run schedule.Key) error {
		wait := l.Take(string(run[:]), Write, 1)
		if wait == 0 {
			return nil
		}
		return retryAfter(wait, "too many reports of this run: at most %d per second, and %d at once", perS, burst*perS)
	}
}

// retryAfter is RESOURCE_EXHAUSTED with the wait in the message and in RetryInfo, which REST sends as
// Retry-After.
func retryAfter(wait time.Duration, format string, args ...any) error {
	st := status.New(codes.ResourceExhausted, fmt.Sprintf(format, args...)+"; try again in "+wait.Round(time.Millisecond).String())
	with, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	if err != nil {
		return st.Err()
	}
	return with.Err()
}
