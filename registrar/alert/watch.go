package alert

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/alert/expect"
	"github.com/carillon/carillon/registrar/notify"
)

// Options are a Watch's parts.
type Options struct {
	Expectations ExpectationStore
	// Explainer finds root causes; nil: causes stay as they are.
	Explainer Explainer
	Outbox    Outbox
	Output    OutputStore // nil: messages go out without the output of failed runs
	// Routes returns the targets and routes. It is called each time, since the operator's file may
	// change.
	Routes func() *notify.Routes
	// RunHooks returns the targets of messages about runs, likewise. nil: there are none.
	RunHooks func() *notify.RunHooks
	// Run returns a run as GetRun answers it in JSON, as it was at its end. schedule.ErrNotFound.
	Run func(context.Context, schedule.Key) (json.RawMessage, error)
	// Group returns a group of runs as GetGroup answers it, by its number. schedule.ErrNotFound.
	Group     func(context.Context, int32) (json.RawMessage, error)
	Client    *http.Client // of package safehttp
	Now       func() time.Time
	Logger    *slog.Logger
	Registry  prometheus.Registerer
	PublicURL string // of the registrars, for links to the console and the API; empty: none
	// OnFailure is the default of schedules without an on_failure; empty: ignore.
	OnFailure schedule.OnFailure
	// Environment is prod, staging and the like; empty: none.
	Environment string
}

// Watch checks expectations and sends messages.
type Watch struct {
	expectations ExpectationStore
	explainer    Explainer
	outbox       Outbox
	output       OutputStore
	routes       func() *notify.Routes
	runHooks     func() *notify.RunHooks
	run          func(context.Context, schedule.Key) (json.RawMessage, error)
	jobGroup     func(context.Context, int32) (json.RawMessage, error)
	client       *http.Client
	now          func() time.Time
	log          *slog.Logger
	metrics      *metrics
	publicURL    string
	environment  string
	onFailure    schedule.OnFailure
	counted      time.Time     // when failing schedules were counted; only Evaluate uses it
	wake         chan struct{} // there is something to send
}

// New makes a Watch of its parts.
func New(o Options) *Watch {
	if o.RunHooks == nil {
		o.RunHooks = func() *notify.RunHooks { return nil }
	}
	return &Watch{
		expectations: o.Expectations, explainer: o.Explainer, outbox: o.Outbox, output: o.Output, routes: o.Routes, runHooks: o.RunHooks, run: o.Run, jobGroup: o.Group, client: o.Client, now: o.Now, metrics: newMetrics(o.Registry),
		log: o.Logger.With("component", "alerts"), publicURL: strings.TrimRight(o.PublicURL, "/"), environment: o.Environment, onFailure: o.OnFailure, wake: make(chan struct{}, 1),
	}
}

const (
	evaluateEvery   = 2 * time.Second // how soon a deadline that has passed is noticed
	evaluateTimeout = 30 * time.Second
	countEvery      = 10 * time.Second // of failing schedules
	atOnce          = 200              // expectations of one transaction
	maxRuns         = 2000
	maxHistory      = 100
)

// Run checks and sends until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		w.repeat(ctx, "cannot evaluate expectations", "expectations are evaluated again", w.Evaluate)
		return nil
	})
	// Not after Evaluate, which takes minutes after 100,000 schedules have failed.
	g.Go(func() error {
		w.repeat(ctx, "cannot group notifications", "notifications are grouped again", w.Group)
		return nil
	})
	g.Go(func() error { w.sendOn(ctx); return nil })
	return g.Wait()
}

// repeat calls work every evaluateEvery until ctx ends. It logs the first error of a series and the
// end of the series.
func (w *Watch) repeat(ctx context.Context, failed, again string, work func(context.Context) error) {
	ticker := time.NewTicker(evaluateEvery)
	defer ticker.Stop()
	failing := false
	for {
		err := work(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			w.log.WarnContext(ctx, failed, "err", err)
		case err == nil && failing:
			w.log.InfoContext(ctx, again)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Evaluate checks all due expectations.
func (w *Watch) Evaluate(ctx context.Context) error {
	for {
		now := w.now()
		var notices []expect.Notice // of the last try
		evaluating, cancel := context.WithTimeout(ctx, evaluateTimeout)
		err := w.expectations.WakeFailures(evaluating, now, atOnce)
		if err != nil {
			cancel()
			return err
		}
		n, err := w.expectations.EvaluateExpectations(evaluating, schedule.EvaluateRequest{Now: now, Limit: atOnce, MaxRuns: maxRuns, MaxHistory: maxHistory},
			func(cases []schedule.ExpectationCase) []schedule.ExpectationVerdict {
				notices = nil
				verdicts := make([]schedule.ExpectationVerdict, len(cases))
				for i := range cases {
					cases[i].OnFailure = w.onFailure
					out := expect.Evaluate(&cases[i], now)
					w.explain(evaluating, &cases[i], &out)
					deliveries := w.tell(evaluating, &out, cases[i].Schedule, now)
					verdicts[i] = schedule.ExpectationVerdict{State: out.State, Drop: out.Drop, Alerts: out.Alerts, Deliveries: deliveries}
					notices = append(notices, out.Notices...)
				}
				return verdicts
			})
		cancel()
		if err != nil {
			return err
		}
		w.note(ctx, notices)
		if n < atOnce {
			return w.count(ctx, now)
		}
	}
}

// note logs and counts committed notices.
func (w *Watch) note(ctx context.Context, notices []expect.Notice) {
	for _, n := range notices {
		a := &n.Alert
		level, event := slog.LevelWarn, "alert opened"
		switch n.Type {
		case expect.NoticeRecovered:
			level, event = slog.LevelInfo, "alert closed"
			w.metrics.alert(a.Kind, "recovered")
		case expect.NoticeReminder:
			event = "alert still open"
			w.metrics.alert(a.Kind, "reminded")
		default:
			w.metrics.alert(a.Kind, "opened")
		}
		w.log.Log(ctx, level, event, "alert_id", a.AlertID, "schedule_id", a.ScheduleID, "kind", a.Kind, "run_at", a.LastSlot,
			"cause", a.Cause, "late", a.Late, "resolution", a.Resolution)
	}
	if len(notices) > 0 {
		w.Wake()
	}
}

// Wake has the outbox looked at soon.
func (w *Watch) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Watch) count(ctx context.Context, now time.Time) error {
	unmet, err := w.expectations.UnmetExpectations(ctx)
	if err != nil {
		return err
	}
	if now.Sub(w.counted).Abs() >= countEvery { // it reads one row for each failing schedule
		groups, err := w.expectations.FailureGroups(ctx, "")
		if err != nil {
			return err
		}
		dead, err := w.expectations.CountDead(ctx, time.Unix(0, 0), schedule.DeadCountLimit)
		if err != nil {
			return err
		}
		w.counted = now
		w.metrics.failingNow(groups)
		w.metrics.deadNow(dead)
	}
	w.metrics.evaluated(unmet, now)
	return nil
}
