package launcher

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/carillon/carillon/internal/schedule"
)

// Metrics are the launcher's figures.
type Metrics struct {
	executorSeconds *prometheus.HistogramVec
	leasesLost      prometheus.Counter
	callsOpen       prometheus.Gauge
	callsWaiting    prometheus.Gauge
}

// NewMetrics registers the figures with r; nil registers them nowhere.
func NewMetrics(r prometheus.Registerer) *Metrics {
	p := promauto.With(r)
	return &Metrics{
		executorSeconds: p.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "carillon_executor_call_seconds",
			Help:    "How long calls of the executor took, by what they answered.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"outcome"}),
		leasesLost: p.NewCounter(prometheus.CounterOpts{
			Name: "carillon_launch_leases_lost_total",
			Help: "Open calls whose key was not this process' any more: it, or the database, was away for longer than the lease.",
		}),
		callsOpen: p.NewGauge(prometheus.GaugeOpts{
			Name: "carillon_executor_calls_open", Help: "Calls of the executor that are open, at most MAX_CALLS.",
		}),
		callsWaiting: p.NewGauge(prometheus.GaugeOpts{
			Name: "carillon_executor_calls_waiting", Help: "Runs that are due and wait for one of MAX_CALLS, or for their owner's share of them.",
		}),
	}
}

func (m *Metrics) called(took time.Duration, outcome schedule.Outcome, err error) {
	m.executorSeconds.WithLabelValues(outcomeLabel(outcome, err)).Observe(took.Seconds())
}

func outcomeLabel(outcome schedule.Outcome, err error) string {
	var refusal *Refusal
	switch {
	case err == nil:
		return string(outcome.Status)
	case errors.As(err, &refusal):
		return string(schedule.ReasonLaunchRefused)
	case errors.Is(err, ErrNotSent):
		return "not_sent"
	}
	return "unknown"
}
