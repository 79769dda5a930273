package launchqueue

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/redis/go-redis/v9"
)

// Metrics has the metrics of the queue, for consumers and publishers.
type Metrics struct {
	up          prometheus.Gauge
	read        prometheus.Gauge
	depth       *prometheus.GaugeVec
	pending     *prometheus.GaugeVec
	redelivered prometheus.Counter
	takenOver   prometheus.Counter
	dropped     prometheus.Counter
}

// NewMetrics registers the metrics with r; nil registers them nowhere.
func NewMetrics(r prometheus.Registerer) *Metrics {
	p := promauto.With(r)
	gauges := func(name, help string) *prometheus.GaugeVec {
		return p.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"stream"})
	}
	counter := func(name, help string) prometheus.Counter {
		return p.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &Metrics{
		up:          p.NewGauge(prometheus.GaugeOpts{Name: "carillon_launch_queue_up", Help: "1 while this process can reach the launch queue."}),
		read:        p.NewGauge(prometheus.GaugeOpts{Name: "carillon_launch_queue_read", Help: "1 while a launcher reads the launch queue, as seen by this process."}),
		depth:       gauges("carillon_launch_queue_depth", "Entries in the launch queue, including those taken by consumers, by stream."),
		pending:     gauges("carillon_launch_queue_pending", "Entries taken by consumers and not finished yet, by stream."),
		redelivered: counter("carillon_launch_queue_redelivered_total", "Launch queue entries that came again: not acknowledged before, or added again while their key is open here."),
		takenOver:   counter("carillon_launch_queue_taken_over_total", "Launch queue entries taken over from a consumer that stopped working on them."),
		dropped:     counter("carillon_launch_queue_dropped_total", "Unreadable launch queue entries."),
	}
	for _, s := range streams {
		m.depth.WithLabelValues(s.label)
		m.pending.WithLabelValues(s.label)
	}
	return m
}

// measure reads the length of the streams. Errors are ignored: readers and writers
// of the queue report them.
func (m *Metrics) measure(ctx context.Context, r *redis.Client) {
	for _, s := range streams {
		depth, err := r.XLen(ctx, s.name).Result()
		if err != nil {
			return
		}
		m.depth.WithLabelValues(s.label).Set(float64(depth))
		pending := int64(0) // while the group does not exist
		if p, err := r.XPending(ctx, s.name, group).Result(); err == nil {
			pending = p.Count
		}
		m.pending.WithLabelValues(s.label).Set(float64(pending))
	}
}

func show(g prometheus.Gauge, yes bool) {
	g.Set(0)
	if yes {
		g.Set(1)
	}
}
