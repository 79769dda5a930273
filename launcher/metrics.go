package launcher

import (
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/carillon/carillon/internal/schedule"
)

// Metrics has the launcher's metrics.
type Metrics struct {
	executor        string
	executorSeconds map[string]prometheus.Observer // by outcome label
	leasesLost      prometheus.Counter
	keysTakenOver   map[schedule.TakeoverProof]prometheus.Counter
	callsOpen       prometheus.Gauge
	callsWaiting    prometheus.Gauge
}

// NewMetrics registers the metrics with r; nil registers them nowhere. executor
// is the value of EXECUTOR.
func NewMetrics(r prometheus.Registerer, executor string) *Metrics {
	p := promauto.With(r)
	executorSeconds := p.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "carillon_executor_call_seconds",
		Help:    "Duration of executor calls, by call and result.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"executor", "outcome"})
	m := &Metrics{
		executor: executor, executorSeconds: make(map[string]prometheus.Observer, len(outcomeLabels)),
		leasesLost: p.NewCounter(prometheus.CounterOpts{
			Name: "carillon_launch_leases_lost_total",
			Help: "Open calls that lost their key because this process or the database was unavailable for longer than the lease.",
		}),
		callsOpen: p.NewGauge(prometheus.GaugeOpts{
			Name: "carillon_executor_calls_open", Help: "Open calls to the executor, at most MAX_CALLS.",
		}),
		callsWaiting: p.NewGauge(prometheus.GaugeOpts{
			Name: "carillon_executor_calls_waiting", Help: "Due runs that wait for a free executor call (MAX_CALLS, or their owner's share of it).",
		}),
	}
	takenOver := p.NewCounterVec(prometheus.CounterOpts{
		Name: "carillon_keys_taken_over_total",
		Help: "Keys of other processes that this one took over: because their presence lock was free (presence), or because their lease had ended (lease).",
	}, []string{"proof"})
	m.keysTakenOver = make(map[schedule.TakeoverProof]prometheus.Counter, 2)
	for _, proof := range []schedule.TakeoverProof{schedule.ProofOfPresence, schedule.ProofOfLease} {
		m.keysTakenOver[proof] = takenOver.WithLabelValues(string(proof))
	}
	for _, outcome := range outcomeLabels { // an alert on a series that does not exist yet stays silent
		m.executorSeconds[outcome] = executorSeconds.WithLabelValues(executor, outcome)
	}
	return m
}

func (m *Metrics) called(took time.Duration, outcome schedule.Outcome, err error) {
	m.executorSeconds[outcomeLabel(outcome, err)].Observe(took.Seconds())
}

// takenOver counts a key of another process.
func (m *Metrics) takenOver(proof schedule.TakeoverProof) {
	if c := m.keysTakenOver[proof]; c != nil {
		c.Inc()
	}
}

// Labels of calls without an outcome. The others have the status as label.
const (
	labelNotSent = "not_sent"
	labelUnknown = "unknown"
)

var outcomeLabels = []string{
	string(schedule.StatusSuccess), string(schedule.StatusFailed), string(schedule.StatusEnqueued),
	string(schedule.ReasonLaunchRefused), string(schedule.ReasonSnoozed), labelNotSent, labelUnknown,
}

func outcomeLabel(outcome schedule.Outcome, err error) string {
	var refusal *Refusal
	switch {
	case err == nil && slices.Contains(outcomeLabels, string(outcome.Status)):
		return string(outcome.Status)
	case err == nil && outcome.Reason == schedule.ReasonSnoozed:
		return string(outcome.Reason)
	case errors.As(err, &refusal):
		return string(schedule.ReasonLaunchRefused)
	case errors.Is(err, ErrNotSent):
		return labelNotSent
	}
	return labelUnknown
}
