package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"github.com/carillon/carillon/internal/auth"
)

// newCallMetrics counts the calls of both doors. Methods without a rule share
// one label: their names are the callers' to make up.
func newCallMetrics(reg prometheus.Registerer) func(method string, code codes.Code, took time.Duration) {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "carillon_calls_total", Help: "Calls over gRPC and REST, by how they ended.",
	}, []string{"method", "code"})
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "carillon_call_duration_seconds", Help: "How long calls took; streams as long as they were open.",
		Buckets: []float64{.001, .005, .02, .1, .5, 2, 10, 60},
	}, []string{"method"})
	reg.MustRegister(calls, duration)
	return func(method string, code codes.Code, took time.Duration) {
		if _, known := auth.RuleOf(method); !known {
			method = "other"
		}
		calls.WithLabelValues(method, code.String()).Inc()
		duration.WithLabelValues(method).Observe(took.Seconds())
	}
}
