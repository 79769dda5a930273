package dispatch

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/carillon/carillon/internal/schedule"
)

// Metrics has the metrics of dispatch queues.
type Metrics struct {
	waiting, delayed, inFlight, limit, oldest, paused, stalled, limited, reserved, reserving, workers, starts, ends *prometheus.GaugeVec

	expectedWait, dead, expectedDead *prometheus.GaugeVec // of queues that promise it

	admitted *prometheus.CounterVec
	putBack  prometheus.Counter

	givenAgain prometheus.Counter
	wait       prometheus.Histogram
	admission  prometheus.Histogram
	blocked    *prometheus.CounterVec
	orphanUses prometheus.Counter
}

// NewMetrics registers the metrics with r; nil registers them nowhere.
func NewMetrics(r prometheus.Registerer) *Metrics {
	p := promauto.With(r)
	gauges := func(name, help string) *prometheus.GaugeVec {
		return p.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"queue"})
	}
	m := &Metrics{
		waiting:      gauges("carillon_queue_waiting", "Runs that wait in the queue for their admission."),
		delayed:      gauges("carillon_queue_delayed", "Runs of the queue that may not start yet."),
		inFlight:     gauges("carillon_queue_in_flight", "Admitted runs of the queue that are not over."),
		limit:        gauges("carillon_queue_limit", "max_in_flight of the queue."),
		oldest:       gauges("carillon_queue_oldest_wait_seconds", "How long the waiting run that came first has waited, since it entered the queue or could start."),
		paused:       gauges("carillon_queue_paused", "1 while the queue is paused."),
		stalled:      gauges("carillon_queue_stalled", "1 while the queue waits because its executor cannot take work."),
		limited:      gauges("carillon_queue_limited", "1 if runs of the queue waited for a limit or a rate when this process looked last."),
		reserved:     gauges("carillon_queue_reserved", "Granted reservations of the queue: they count in max_in_flight."),
		reserving:    gauges("carillon_queue_reserving", "Reservations that wait for a slot of the queue."),
		workers:      gauges("carillon_queue_workers", "Workers that have fetched runs of the queue within heartbeat_ms."),
		starts:       gauges("carillon_queue_starts_per_minute", "Runs of the queue that were admitted, the mean of the last five minutes."),
		ends:         gauges("carillon_queue_ends_per_minute", "Runs of the queue that have ended, the mean of the last five minutes."),
		expectedWait: gauges("carillon_queue_expected_wait_seconds", "expect.wait_within_ms of the queue, if it promises one."),
		dead:         gauges("carillon_queue_dead", "Dead runs of the queue, if it promises something about them; counted to 1000 beyond the promise."),
		expectedDead: gauges("carillon_queue_expected_dead", "expect.dead_at_most of the queue, if it promises that."),
		admitted:     p.NewCounterVec(prometheus.CounterOpts{Name: "carillon_queue_admitted_total", Help: "Runs that this process has admitted, in order or because they had waited for promote_after_ms."}, []string{"as"}),
		putBack:      p.NewCounter(prometheus.CounterOpts{Name: "carillon_queue_put_back_total", Help: "Admitted runs that wait again because the executor did not take them."}),
		givenAgain:   p.NewCounter(prometheus.CounterOpts{Name: "carillon_queue_given_again_total", Help: "Runs that a worker has fetched and did not list: they were given again."}),
		wait: p.NewHistogram(prometheus.HistogramOpts{
			Name: "carillon_queue_wait_seconds", Help: "From the entry of a run, or its fire_at, to its admission.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 12),
		}),
		admission: p.NewHistogram(prometheus.HistogramOpts{
			Name: "carillon_queue_admit_seconds", Help: "The transaction of an admission.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 12),
		}),
		orphanUses: p.NewCounter(prometheus.CounterOpts{Name: "carillon_queue_orphan_uses_total", Help: "Uses of limits without a run or reservation that this process has deleted. More than 0 is a bug."}),
		blocked:    p.NewCounterVec(prometheus.CounterOpts{Name: "carillon_queue_blocked_total", Help: "Admissions that left runs waiting, by what blocks them."}, []string{"why"}),
	}
	return m
}

// all are the gauges of one queue.
func (m *Metrics) all() []*prometheus.GaugeVec {
	return []*prometheus.GaugeVec{m.waiting, m.delayed, m.inFlight, m.limit, m.oldest, m.paused, m.stalled, m.limited, m.reserved, m.reserving, m.workers, m.starts, m.ends, m.expectedWait, m.dead, m.expectedDead}
}

// The counts of queues are read every five seconds, and each only up to a bound. A reading that
// takes long rests fifty times as long.
const (
	measureEvery = 5 * time.Second
	measureRest  = 50
	countedRuns  = 100_000
	namedQueues  = 200 // the others have no gauges of their own
)

// measure sets the gauges until ctx ends.
func (d *Dispatcher) measure(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		d.measureOnce(ctx)
		timer := time.NewTimer(max(measureEvery, measureRest*time.Since(began)))
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (d *Dispatcher) measureOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	now := d.now()
	queues, err := d.Store.MeasureQueues(ctx, namedQueues, countedRuns, now)
	if err != nil {
		d.failed(ctx, "count the runs of queues", err)
		return
	}
	for _, g := range d.Metrics.all() {
		g.Reset() // of deleted queues
	}
	for i := range queues {
		q := &queues[i]
		d.Metrics.waiting.WithLabelValues(q.QueueID).Set(float64(q.Waiting))
		d.Metrics.delayed.WithLabelValues(q.QueueID).Set(float64(q.Delayed))
		d.Metrics.inFlight.WithLabelValues(q.QueueID).Set(float64(q.InFlight))
		d.Metrics.reserved.WithLabelValues(q.QueueID).Set(float64(q.Reserved))
		d.Metrics.reserving.WithLabelValues(q.QueueID).Set(float64(q.Reserving))
		d.Metrics.limit.WithLabelValues(q.QueueID).Set(float64(q.MaxInFlight))
		d.Metrics.workers.WithLabelValues(q.QueueID).Set(float64(q.Fetching(now)))
		d.Metrics.starts.WithLabelValues(q.QueueID).Set(q.Pace.PerMinute(q.Pace.Starts, now))
		d.Metrics.ends.WithLabelValues(q.QueueID).Set(q.Pace.PerMinute(q.Pace.Ends, now))
		oldest := 0.0
		if !q.WaitingSince.IsZero() {
			oldest = max(0, now.Sub(q.WaitingSince).Seconds())
		}
		d.Metrics.oldest.WithLabelValues(q.QueueID).Set(oldest)
		d.Metrics.promises(q)
		d.Metrics.paused.WithLabelValues(q.QueueID).Set(one(q.Pause.Active(now)))
		d.Metrics.limited.WithLabelValues(q.QueueID).Set(one(d.limitedNow(q.No)))
		d.Metrics.stalled.WithLabelValues(q.QueueID).Set(one(q.Stall.Until.After(now)))
	}
}

// promises sets the gauges of what a queue promises, and no others.
func (m *Metrics) promises(q *schedule.QueueMeasure) {
	if ms := q.Expect.WaitWithinMS; ms > 0 {
		m.expectedWait.WithLabelValues(q.QueueID).Set(float64(ms) / 1000)
	}
	if n := q.Expect.DeadAtMost; n != nil {
		m.dead.WithLabelValues(q.QueueID).Set(float64(q.Dead))
		m.expectedDead.WithLabelValues(q.QueueID).Set(float64(*n))
	}
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// admittedRun counts a run that this process has admitted.
func (m *Metrics) admittedRun(r *schedule.Run, aged bool, now time.Time) {
	as := "order"
	if aged {
		as = "aged"
	}
	m.admitted.WithLabelValues(as).Inc()
	m.wait.Observe(max(0, now.Sub(schedule.Later(r.Queue.EnqueuedAt, r.FireAt)).Seconds()))
}
