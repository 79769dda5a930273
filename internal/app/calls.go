package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/work"
)

// newCallMetrics counts the calls over gRPC and REST. Methods without a rule share one label, because
// callers can invent names.
func newCallMetrics(reg prometheus.Registerer) func(method string, code codes.Code, took time.Duration) {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "carillon_calls_total", Help: "Calls over gRPC and REST, by result.",
	}, []string{"method", "code"})
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "carillon_call_duration_seconds", Help: "Duration of calls. For streams: how long they were open.",
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

func countEndedTwice(reg prometheus.Registerer, store Store) {
	reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "carillon_runs_ended_twice_total", Help: "Runs that this process ended although history had their end. Must stay 0.",
	}, func() float64 { return float64(store.EndedTwice()) }))
}

// newWorkMetrics counts the steps of package work that simulations and forecasts take.
func newWorkMetrics(reg prometheus.Registerer) func(call string, steps int) {
	steps := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "carillon_call_work_steps", Help: "Work of preview, forecast and simulation calls; 20 steps are about one microsecond of CPU time.",
		Buckets: []float64{1e4, 1e5, 1e6, 4e6, work.PerCall},
	}, []string{"call"})
	reg.MustRegister(steps)
	return func(call string, n int) { steps.WithLabelValues(call).Observe(float64(n)) }
}

// newDuplicateMetrics counts entries that found another run under their unique key.
func newDuplicateMetrics(reg prometheus.Registerer) func(replaced bool) {
	n := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "carillon_queue_duplicates_total", Help: "Runs that did not enter a queue because another run holds their unique key; replaced: that run has their input now.",
	}, []string{"answer"})
	reg.MustRegister(n)
	returned, replacedRuns := n.WithLabelValues("returned"), n.WithLabelValues("replaced")
	return func(replaced bool) {
		if replaced {
			replacedRuns.Inc()
		} else {
			returned.Inc()
		}
	}
}
