package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// The number of ordinary calls that an expensive one counts as. Dry runs and backfills count less
// because they are writes, which have the lower limit.
const (
	lookAheadCalls = 20
	dryRunCalls    = 8
	backfillCalls  = 3
)

// largePreview is the largest page of a preview that needs no permit.
const largePreview = 1000

// Expensive is the number of calls that a request counts as if it may cost up to a second of processor
// time (package work) and so needs a permit. 0: a cheap request.
func Expensive(req any) (calls int) {
	switch r := req.(type) {
	case *carillonv1.SimulateSchedulesRequest, *carillonv1.SimulateQueueRequest, *carillonv1.ForecastLaunchesRequest, *carillonv1.AuditTopicRequest:
		return lookAheadCalls
	case *carillonv1.BackfillScheduleRequest:
		return backfillCalls
	case *carillonv1.ApplySchedulesRequest:
		if r.GetDryRun() {
			return dryRunCalls
		}
	case *carillonv1.PreviewScheduleRequest:
		if r.GetPageSize() > largePreview {
			return 1 // cost adds the page size
		}
	}
	return 0
}

// Interceptor makes expensive calls wait for a permit.
func (p *Semaphore) Interceptor(reg prometheus.Registerer) grpc.UnaryServerInterceptor {
	refused := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "carillon_expensive_calls_refused_total", Help: "Preview, forecast and simulation calls refused because too many were open.",
	})
	open := prometheus.NewDesc("carillon_expensive_calls", "Calls that look ahead (simulate, forecast, dry runs), by what they do.", []string{"state"}, nil)
	reg.MustRegister(refused, collector{open, p})
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if Expensive(req) == 0 {
			return next(ctx, req)
		}
		release, err := p.Take(ctx, ownerOf(ctx))
		if errors.Is(err, ErrTooManyWaiting) {
			refused.Inc()
			return nil, p.full()
		}
		if err != nil {
			return nil, err
		}
		defer release()
		return next(ctx, req)
	}
}

// ownerOf is the key of a call's permit: the owner, otherwise the subject. With authentication off all
// callers share one.
func ownerOf(ctx context.Context) string {
	id := auth.FromContext(ctx)
	if id.Owner != "" {
		return "owner " + id.Owner
	}
	return "subject " + cmp.Or(id.Subject, id.Via)
}

func (p *Semaphore) full() error {
	return retryAfter(time.Second,
		"too many simulations, forecasts, backfills, dry runs and large previews are open: each caller may have one running and %d waiting, none longer than %s; call them one after the other",
		p.limits.PerOwner, schedule.ShortDuration(p.limits.MaxWait))
}

// collector exports the number of open expensive calls.
type collector struct {
	desc      *prometheus.Desc
	semaphore *Semaphore
}

// Describe and Collect are prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect counts.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	running, waiting := c.semaphore.Open()
	ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(running), "running")
	ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(waiting), "waiting")
}
