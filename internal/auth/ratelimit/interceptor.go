package ratelimit

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// Each full multiple of these sizes counts as one more call.
const (
	bytesPerCall = 64 << 10
	rowsPerCall  = 1000
)

// Interceptors apply the owner's limits. They must run after the gate, which sets the identity.
func (l *Limiter) Interceptors(reg prometheus.Registerer) (grpc.UnaryServerInterceptor, grpc.StreamServerInterceptor) {
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "carillon_calls_limited_total", Help: "Calls refused by the rate limit of their owner.",
	}, []string{"kind"})
	reg.MustRegister(refused)
	for _, kind := range []string{string(Read), string(Write), string(Event), "stream"} {
		refused.WithLabelValues(kind)
	}
	unary := func(ctx context.Context, req any, call *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		owner := auth.FromContext(ctx).Owner
		if owner == "" {
			return next(ctx, req)
		}
		kind := kindOf(call.FullMethod)
		if wait := l.Take(owner, kind, cost(req)); wait > 0 {
			refused.WithLabelValues(string(kind)).Inc()
			return nil, tooMany(owner, kind, l.perS(kind), wait)
		}
		return next(ctx, req)
	}
	stream := func(srv any, ss grpc.ServerStream, call *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		id := auth.FromContext(ss.Context())
		owner := id.Owner
		if owner == "" && watches[call.FullMethod] {
			closed, ok := l.OpenWatch(id.Subject)
			if !ok {
				refused.WithLabelValues("stream").Inc()
				return status.Errorf(codes.ResourceExhausted, "%d watches and exports are already open, the maximum for one caller; close one", l.limits.Watches)
			}
			defer closed()
		}
		if owner == "" {
			return next(srv, ss)
		}
		kind := kindOf(call.FullMethod)
		if wait := l.Take(owner, kind, 1); wait > 0 {
			refused.WithLabelValues(string(kind)).Inc()
			return tooMany(owner, kind, l.perS(kind), wait)
		}
		closed, ok := l.Open(owner)
		if !ok {
			refused.WithLabelValues("stream").Inc()
			return status.Errorf(codes.ResourceExhausted, "%d streams are already open, the maximum for one owner; close one", l.limits.Streams)
		}
		defer closed()
		return next(srv, ss)
	}
	return unary, stream
}

// watches are the streams that query the database while open, unlike StartBatch and health checks.
var watches = map[string]bool{
	carillonv1.RunService_WatchRuns_FullMethodName:  true,
	carillonv1.RunService_ExportRuns_FullMethodName: true,
}

// kindOf: a call with an audit entry is a write, and so is one that enters runs.
func kindOf(method string) Kind {
	if method == carillonv1.EventService_PublishEvents_FullMethodName {
		return Event
	}
	if rule, ok := auth.RuleOf(method); ok && !rule.Audit && !rule.Write {
		return Read
	}
	return Write
}

// cost is the number of calls that req counts as, by its size, its page size, its events and its
// processor time.
func cost(req any) int {
	n := 1
	if m, ok := req.(proto.Message); ok {
		n += proto.Size(m) / bytesPerCall
	}
	if r, ok := req.(interface{ GetPageSize() uint32 }); ok {
		n += int(r.GetPageSize() / rowsPerCall)
	}
	if r, ok := req.(*carillonv1.PublishEventsRequest); ok {
		n += max(1, len(r.GetEvents())) - 1
	}
	n += max(1, Expensive(req)) - 1
	return n
}

func tooMany(owner string, kind Kind, perS int, wait time.Duration) error {
	if kind == Event {
		return retryAfter(wait, "too many events: owner %s may publish %d per second, and %d at once; publish fewer, or ask the operator to raise OWNER_EVENTS_PER_S",
			schedule.Quote(owner), perS, burst*perS)
	}
	return retryAfter(wait, "too many calls that %s: this owner may make %d per second, and %d at once", kind, perS, burst*perS)
}
