package launchqueue

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are a consumer's figures of the queue itself.
type Metrics struct {
	up          prometheus.Gauge
	depth       *prometheus.GaugeVec
	pending     *prometheus.GaugeVec
	redelivered prometheus.Counter
	takenOver   prometheus.Counter
	dropped     prometheus.Counter
}

// NewMetrics registers the figures with r; nil registers them nowhere.
func NewMetrics(r prometheus.Registerer) *Metrics {
	p := promauto.With(r)
	gauges := func(name, help string) *prometheus.GaugeVec {
		return p.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"stream"})
	}
	counter := func(name, help string) prometheus.Counter {
		return p.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &Metrics{
		up:          p.NewGauge(prometheus.GaugeOpts{Name: "carillon_launch_queue_up", Help: "1 while this process reaches the launch queue."}),
		depth:       gauges("carillon_launch_queue_depth", "Entries in the launch queue, those that consumers have taken included, by stream."),
		pending:     gauges("carillon_launch_queue_pending", "Entries of the launch queue that consumers have taken and not dealt with yet, by stream."),
		redelivered: counter("carillon_launch_queue_redelivered_total", "Entries of the launch queue that came again: taken before and not acknowledged, or put in anew while their key is open here."),
		takenOver:   counter("carillon_launch_queue_taken_over_total", "Entries of the launch queue taken over from a consumer that left them alone."),
		dropped:     counter("carillon_launch_queue_dropped_total", "Entries of the launch queue that could not be read."),
	}
	for _, stream := range []string{"launches", "catchup", "cancels"} {
		m.depth.WithLabelValues(stream)
		m.pending.WithLabelValues(stream)
	}
	return m
}
