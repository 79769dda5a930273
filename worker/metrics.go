package worker

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Metrics are the worker's figures. None has a label per schedule; the label
// values of reason are schedule.Reason's.
type Metrics struct {
	pool           func(p *pool) // shows how many launches are open, and may be
	due            *prometheus.GaugeVec
	planned        prometheus.Counter
	emitted        map[schedule.Trigger]prometheus.Counter
	skippedOverlap prometheus.Counter
	skipped        *prometheus.CounterVec
	failedLaunch   prometheus.Counter
	failed         *prometheus.CounterVec
	cancelled      *prometheus.CounterVec
	succeeded      prometheus.Counter
	missed         prometheus.Counter
	redelivered    prometheus.Counter
	queued         prometheus.Counter
	drift          prometheus.Histogram
	lateness       prometheus.Histogram
	eventLaunch    prometheus.Histogram
	looks          *prometheus.CounterVec
	eventsTaken    prometheus.Counter
	launch         prometheus.Histogram
	steps          *prometheus.HistogramVec
	stepErrors     *prometheus.CounterVec
	planFailures   prometheus.Counter
	strays         prometheus.Counter
	refuted        prometheus.Counter
	retries        prometheus.Counter
	violations     prometheus.Counter
	lateEnds       prometheus.Counter
	changesRead    *prometheus.GaugeVec
	leader         *prometheus.GaugeVec
	epoch          *prometheus.GaugeVec
	takeovers      prometheus.Counter
	healthy        prometheus.Gauge
	inFlight       *prometheus.GaugeVec
	waiting        *prometheus.GaugeVec
	overdue        *prometheus.GaugeVec
}

// NewMetrics registers the figures with r; nil registers them nowhere.
func NewMetrics(r prometheus.Registerer) *Metrics {
	p := promauto.With(r)
	counter := func(name, help string) prometheus.Counter {
		return p.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	counters := func(name, help, label string) *prometheus.CounterVec {
		return p.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	gauge := func(name, help string) *prometheus.GaugeVec { // one for each term of the process
		return p.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"shard"})
	}
	seconds := []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	m := &Metrics{
		due:            gauge("carillon_schedules_due", "Schedules that the last tick looked at."),
		planned:        counter("carillon_slots_planned_total", "Slots that became durable PLANNED rows."),
		emitted:        make(map[schedule.Trigger]prometheus.Counter, len(schedule.Triggers)),
		skippedOverlap: counter("carillon_runs_skipped_overlap_total", "Slots skipped because a run of their overlap key was in flight."),
		skipped:        counters("carillon_runs_skipped_total", "Runs that ended SKIPPED, by reason.", "reason"),
		failedLaunch:   counter("carillon_runs_failed_launch_total", "Runs that failed before an executor took them."),
		failed:         counters("carillon_runs_failed_total", "Runs that this process saw end FAILED, by reason.", "reason"),
		cancelled:      counters("carillon_runs_cancelled_total", "Runs that this process saw end CANCELLED, by reason.", "reason"),
		succeeded:      counter("carillon_runs_succeeded_total", "Runs that this process saw end SUCCESS."),
		missed:         counter("carillon_slots_missed_total", "Slots that were missed and will not fire."),
		redelivered:    counter("carillon_runs_redelivered_total", "Runs sent again under the same key."),
		queued:         counter("carillon_runs_queued_total", "Runs handed to the launch queue, repeats included."),
		drift:          p.NewHistogram(prometheus.HistogramOpts{Name: "carillon_scheduling_drift_seconds", Help: "|launch time − run_at|.", Buckets: seconds}),
		lateness:       p.NewHistogram(prometheus.HistogramOpts{Name: "carillon_launch_lateness_seconds", Help: "Launch time − fire_at.", Buckets: seconds}),
		eventLaunch:    p.NewHistogram(prometheus.HistogramOpts{Name: "carillon_event_launch_seconds", Help: "Launch time of a consumer's run − publish time of its oldest event.", Buckets: seconds}),
		looks:          counters("carillon_looks_total", "Looks at consumers, by what they decided.", "verdict"),
		eventsTaken:    counter("carillon_events_taken_total", "Events that runs of consumers have taken."),
		launch:         p.NewHistogram(prometheus.HistogramOpts{Name: "carillon_launch_duration_seconds", Help: "Time until the launcher answered, from fire_at or from the call if that was later.", Buckets: seconds}),
		steps:          p.NewHistogramVec(prometheus.HistogramOpts{Name: "carillon_worker_step_seconds", Help: "Duration of a plan, claim, take, settle or sweep pass.", Buckets: seconds}, []string{"step"}),
		stepErrors:     counters("carillon_worker_step_errors_total", "Passes that failed, by step.", "step"),
		planFailures:   counter("carillon_plan_failures_total", "Schedules that could not be planned."),
		strays:         counter("carillon_ledger_strays_total", "Runs on which the leader's memory differed from the tables. Must stay 0."),
		retries:        counter("carillon_retries_total", "Automatic retries of failed runs that were claimed."),
		refuted:        counter("carillon_judge_refuted_total", "Claims that the database refused because another exclusive run of the overlap key was in flight. Must stay 0."),
		violations:     counter("carillon_overlap_violations_total", "Ended runs that were in flight together with another exclusive run of their overlap key. Must stay 0."),
		lateEnds:       counter("carillon_late_ends_total", "Answers and reports of an end that came after another end of their run. The first end stays."),
		leader:         gauge("carillon_leader", "1 while this process leads the shard."),
		epoch:          gauge("carillon_leader_epoch", "The epoch of this process' last term of the shard."),
		takeovers:      counter("carillon_leader_takeovers_total", "Terms that this process won."),
		healthy:        p.NewGauge(prometheus.GaugeOpts{Name: "carillon_worker_healthy", Help: "1 while this process can launch runs."}),
		changesRead:    gauge("carillon_changes_read_timestamp_seconds", "When the leader last read changes and looked at what is due, in Unix seconds."),
		inFlight:       gauge("carillon_runs_in_flight", "Runs LAUNCHING, ENQUEUED or STARTED."),
		waiting:        gauge("carillon_runs_waiting", "Slots that wait for their overlap key."),
		overdue:        gauge("carillon_runs_overdue", "Runs that are due and not claimed yet."),
	}
	emitted := counters("carillon_runs_emitted_total", "Runs handed to the launcher for the first time, by trigger.", "trigger")
	for _, trigger := range schedule.Triggers {
		m.emitted[trigger] = emitted.WithLabelValues(string(trigger))
	}
	m.pool = func(launches *pool) {
		p.NewGaugeFunc(prometheus.GaugeOpts{Name: "carillon_launches_open", Help: "Launcher calls that are open or reserved by the current pass."}, func() float64 { return float64(launches.taken()) })
		p.NewGauge(prometheus.GaugeOpts{Name: "carillon_launches_limit", Help: "MAX_LAUNCHES of this process."}).Set(float64(launches.size))
	}
	m.showZeros()
	m.showHealth(true)
	return m
}

// showZeros makes the closed label sets visible from the start: an alert on a
// series that does not exist yet stays silent.
func (m *Metrics) showZeros() {
	for _, step := range []string{"plan", "claim", "take", "settle", "sweep"} {
		m.stepErrors.WithLabelValues(step)
	}
	for _, verdict := range []string{"take", "defer", "drop", "locked"} {
		m.looks.WithLabelValues(verdict)
	}
	for _, reason := range schedule.Reasons {
		switch schedule.Ending(reason) {
		case schedule.StatusSkipped:
			m.skipped.WithLabelValues(string(reason))
		case schedule.StatusFailed:
			m.failed.WithLabelValues(string(reason))
		case schedule.StatusCancelled:
			m.cancelled.WithLabelValues(string(reason))
		}
	}
}

func (m *Metrics) showHealth(healthy bool) {
	m.healthy.Set(0)
	if healthy {
		m.healthy.Set(1)
	}
}

// showShards makes it visible what this process does not lead yet.
func (m *Metrics) showShards(n int) {
	for shard := range n {
		m.leader.WithLabelValues(strconv.Itoa(shard))
	}
}

// RunLaunched and RunEnded are for runs that are settled elsewhere than by the
// worker: by a launcher that takes them out of a queue, or by a report.
func (m *Metrics) RunLaunched(run *schedule.Run, at time.Time) {
	if !run.Queue.In() { // what a run waits in a queue is not lateness
		m.launched(run, at)
	}
}

// RunEnded counts the end of a run; see RunLaunched.
func (m *Metrics) RunEnded(status schedule.Status, reason schedule.Reason, neverTaken bool) {
	m.ended(status, reason, neverTaken)
}

// RunReported counts the end of a run that the executor has reported; see
// RunLaunched. It had taken that run.
func (m *Metrics) RunReported(status schedule.Status, reason schedule.Reason) {
	m.ended(status, reason, false)
}

// EndedLate counts an answer or a report of an end after another end of its run.
func (m *Metrics) EndedLate() { m.lateEnds.Inc() }

// LeadershipChanged is for leader.Options.OnChange.
func (m *Metrics) LeadershipChanged(term schedule.Term, leading bool) {
	shard := strconv.Itoa(term.Shard)
	if !leading {
		m.leader.WithLabelValues(shard).Set(0)
		// From now on another process says these.
		for _, gauge := range []*prometheus.GaugeVec{m.due, m.inFlight, m.waiting, m.overdue, m.changesRead} {
			gauge.DeleteLabelValues(shard)
		}
		return
	}
	m.leader.WithLabelValues(shard).Set(1)
	m.epoch.WithLabelValues(shard).Set(float64(term.Epoch))
	m.takeovers.Inc()
}

func (m *Metrics) looked(term schedule.Term, schedules int) {
	m.due.WithLabelValues(strconv.Itoa(term.Shard)).Set(float64(schedules))
}

func (m *Metrics) step(name string, began time.Time, err error) {
	m.steps.WithLabelValues(name).Observe(time.Since(began).Seconds())
	if err != nil {
		m.stepErrors.WithLabelValues(name).Inc()
	}
}

// ended counts a run's end where this worker saw it.
func (m *Metrics) ended(status schedule.Status, reason schedule.Reason, neverTaken bool) {
	switch status {
	case schedule.StatusSkipped:
		m.skipped.WithLabelValues(string(reason)).Inc()
		switch reason {
		case schedule.ReasonOverlap:
			m.skippedOverlap.Inc()
		case schedule.ReasonMissed, schedule.ReasonCoalesced:
			m.missed.Inc()
		}
	case schedule.StatusFailed:
		m.failed.WithLabelValues(string(reason)).Inc()
		if neverTaken {
			m.failedLaunch.Inc()
		}
	case schedule.StatusSuccess:
		m.succeeded.Inc()
	case schedule.StatusCancelled:
		m.cancelled.WithLabelValues(string(reason)).Inc()
	}
}

func (m *Metrics) launched(run *schedule.Run, at time.Time) {
	if run.Trigger == schedule.TriggerEvent {
		m.eventLaunch.Observe(at.Sub(run.RunAt).Seconds())
	} else {
		m.drift.Observe(at.Sub(run.RunAt).Abs().Seconds())
	}
	m.lateness.Observe(at.Sub(run.FireAt).Seconds())
}

// took counts what a look at consumers has decided.
func (m *Metrics) took(taken *ledger.Taken) {
	m.eventsTaken.Add(float64(taken.Events))
	m.looks.WithLabelValues("take").Add(float64(len(taken.Runs)))
	m.looks.WithLabelValues("defer").Add(float64(len(taken.Wakes)))
	m.looks.WithLabelValues("drop").Add(float64(max(len(taken.Gone)-len(taken.Runs), 0)))
	m.looks.WithLabelValues("locked").Add(float64(len(taken.Locked)))
}

// answered observes the duration of a launch that was answered. It counts from fire_at if
// the run was claimed early.
func (m *Metrics) answered(l *schedule.Launch, asked, now time.Time) {
	if l.Run.FireAt.After(asked) {
		asked = l.Run.FireAt
	}
	m.launch.Observe(max(0, now.Sub(asked)).Seconds())
}

func (m *Metrics) gauges(term schedule.Term, g schedule.Gauges) {
	shard := strconv.Itoa(term.Shard)
	m.inFlight.WithLabelValues(shard).Set(float64(g.InFlight))
	m.waiting.WithLabelValues(shard).Set(float64(g.Waiting))
	m.overdue.WithLabelValues(shard).Set(float64(g.Due))
	m.changesRead.WithLabelValues(shard).SetToCurrentTime()
}
