package alert

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/notify"
)

type metrics struct {
	unmet       *prometheus.GaugeVec
	failing     *prometheus.GaugeVec
	dead        prometheus.Gauge
	alerts      *prometheus.CounterVec
	deliveries  *prometheus.CounterVec
	webhooks    *prometheus.CounterVec
	evaluatedAt prometheus.Gauge
}

// The outcomes of an attempt to deliver.
const (
	outcomeDelivered = "delivered"
	outcomeRetry     = "retry" // failed, and tried again
	outcomeDead      = "dead"  // failed, and given up
	outcomeGone      = "gone"  // the target wants no more
)

var outcomes = []string{outcomeDelivered, outcomeRetry, outcomeDead, outcomeGone}

func newMetrics(registry prometheus.Registerer) *metrics {
	with := promauto.With(registry)
	m := &metrics{
		unmet: with.NewGaugeVec(prometheus.GaugeOpts{
			Name: "carillon_expectations_unmet", Help: "Expectations that are late or alerting, in the whole database.",
		}, []string{"kind"}),
		failing: with.NewGaugeVec(prometheus.GaugeOpts{
			Name: "carillon_schedules_failing", Help: "Schedules whose newest decided run failed, in the whole database, by its reason.",
		}, []string{"reason"}),
		dead: with.NewGauge(prometheus.GaugeOpts{
			Name: "carillon_dead_runs", Help: "Runs that failed for good and were not retried, in the whole database. Counting stops at 10000.",
		}),
		alerts: with.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_alerts_total", Help: "Alerts opened, reminded of and closed by this process.",
		}, []string{"kind", "state"}),
		deliveries: with.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_alert_deliveries_total", Help: "Attempts to send a message about an alert, by kind of target.",
		}, []string{"target_kind", "outcome"}),
		webhooks: with.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_webhook_deliveries_total", Help: "Attempts to send a message about the end of a run, by target in WEBHOOK_TARGETS_FILE.",
		}, []string{"target", "outcome"}),
		evaluatedAt: with.NewGauge(prometheus.GaugeOpts{
			Name: "carillon_expectation_evaluated_timestamp_seconds", Help: "When this process last evaluated all due expectations, in Unix seconds.",
		}),
	}
	for _, reason := range failureReasons() {
		m.failing.WithLabelValues(reason)
	}
	for _, kind := range schedule.ExpectationKinds {
		m.unmet.WithLabelValues(string(kind))
		for _, state := range []string{"opened", "reminded", "recovered"} {
			m.alerts.WithLabelValues(string(kind), state)
		}
	}
	m.target(unknownTarget)
	for _, kind := range notify.Kinds {
		for _, outcome := range outcomes {
			m.deliveries.WithLabelValues(string(kind), outcome)
		}
	}
	return m
}

// unknownTarget is the label of messages to targets that WEBHOOK_TARGETS_FILE does not have.
const unknownTarget = "unknown"

// knows makes the counters of targets, so that the first failure of one is an increase.
func (m *metrics) knows(hooks []notify.RunHook) {
	for i := range hooks {
		m.target(hooks[i].Name)
	}
}

func (m *metrics) target(name string) {
	for _, outcome := range outcomes {
		m.webhooks.WithLabelValues(name, outcome)
	}
}

// attempted counts an attempt to send a message.
func (m *metrics) attempted(d *schedule.AlertDelivery, hook *notify.RunHook, outcome string) {
	switch {
	case hook != nil:
		m.webhooks.WithLabelValues(hook.Name, outcome).Inc()
		return
	case !d.RunKey.IsZero():
		m.webhooks.WithLabelValues(unknownTarget, outcome).Inc()
		return
	}
	m.deliveries.WithLabelValues(d.TargetKind, outcome).Inc()
}

func (m *metrics) alert(kind schedule.ExpectationKind, state string) {
	m.alerts.WithLabelValues(string(kind), state).Inc()
}

func (m *metrics) evaluated(unmet map[schedule.ExpectationKind]int, now time.Time) {
	for _, kind := range schedule.ExpectationKinds {
		m.unmet.WithLabelValues(string(kind)).Set(float64(unmet[kind]))
	}
	m.evaluatedAt.Set(float64(now.UnixMicro()) / 1e6)
}

func (m *metrics) deadNow(counts []schedule.DeadCount) {
	total := int64(0)
	for i := range counts {
		total += counts[i].Runs
	}
	m.dead.Set(float64(total))
}

// failureReasons are the values of the label reason.
func failureReasons() (reasons []string) {
	for _, reason := range schedule.Reasons {
		if schedule.Ending(reason) == schedule.StatusFailed {
			reasons = append(reasons, string(reason))
		}
	}
	return append(reasons, otherReason)
}

// otherReason replaces a reason of a newer version.
const otherReason = "other"

func (m *metrics) failingNow(groups []schedule.FailureGroup) {
	counts := make(map[string]int64)
	known := failureReasons()
	for i := range groups {
		reason := string(groups[i].Reason)
		if !slices.Contains(known, reason) {
			reason = otherReason
		}
		counts[reason] += groups[i].Schedules
	}
	for _, reason := range known {
		m.failing.WithLabelValues(reason).Set(float64(counts[reason]))
	}
}
