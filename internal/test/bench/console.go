package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/test/bench/report"
	"github.com/carillon/carillon/internal/test/bench/site"
)

// Every page is asked for consoleLooks times, consoleApart apart, so that
// neither a cold cache nor a warm one is all that is measured.
const (
	consoleLooks  = 7
	consoleApart  = 300 * time.Millisecond
	consoleBound  = 300 * time.Millisecond
	forecastBound = time.Second
)

// console measures how long the server takes to answer each page of the console
// over -n schedules and -ledger runs. Meanwhile the worker plans and launches.
func console(ctx context.Context, o options, w *report.Writer) error {
	o.together = true
	if o.ledger == 0 {
		o.ledger = 1_000_000
	}
	for _, name := range o.systems {
		for _, n := range o.ns {
			for run := range o.runs {
				if err := consoleOnce(ctx, o, w, name, n, run+1); err != nil {
					return fmt.Errorf("console, %s, n = %d: %w", name, n, err)
				}
			}
		}
	}
	return nil
}

func consoleOnce(ctx context.Context, o options, w *report.Writer, name string, n, run int) (err error) {
	s, err := start(ctx, o, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	c, ok := s.(*site.Site)
	if !ok {
		return fmt.Errorf("console is for carillon and carillon-sqlite")
	}
	fleet := site.Fleet{Schedules: n, Runs: o.ledger}
	if err := c.RegisterFleet(ctx, fleet); err != nil {
		return err
	}
	runs, err := c.FleetPast(ctx, fleet)
	if err != nil {
		return err
	}
	pages, err := consolePages(ctx, c)
	if err != nil {
		return err
	}
	if err := sleepUntil(ctx, time.Now().Add(o.before)); err != nil {
		return err
	}
	for _, p := range pages {
		took, size, err := visit(ctx, "http://"+c.HTTP()+p.path)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		line := report.Line{
			Workload: fmt.Sprintf("console, %d runs, %s", runs, p.name), System: name, N: n, Run: run, Settings: given(),
			Figures: map[string]float64{
				"first_ms": millis(took[0]), "p50_ms": millis(sorted(took)[len(took)/2]), "max_ms": millis(slices.Max(took)), "kilobytes": float64(size) / 1024,
			},
		}
		if slices.Max(took) > p.bound {
			line.Bad = map[string]int{"over_bound": 1}
		}
		if err := w.Add(line); err != nil { // a slow page is a figure, and no reason to fail
			return err
		}
	}
	return nil
}

func sorted(took []time.Duration) []time.Duration {
	took = slices.Clone(took)
	slices.Sort(took)
	return took
}

// consolePage is one address of the console and how long it may take.
type consolePage struct {
	name, path string
	bound      time.Duration
}

func consolePages(ctx context.Context, c *site.Site) ([]consolePage, error) {
	rawKey, runID, schedule, err := c.Sample(ctx)
	if err != nil {
		return nil, err
	}
	key, from := hex.EncodeToString(rawKey), url.QueryEscape(time.Now().Add(-12*time.Hour).UTC().Format(time.RFC3339))
	pages := []consolePage{
		{name: "overview", path: "/"},
		{name: "next 24 hours", path: "/ui/timeline", bound: forecastBound},
		{name: "next 24 hours of an owner", path: "/ui/timeline?owner=owner-3", bound: forecastBound},
		{name: "schedules", path: "/ui/schedules"},
		{name: "schedules, paused", path: "/ui/schedules?state=paused"},
		{name: "schedules, exhausted (none)", path: "/ui/schedules?state=exhausted"},
		{name: "schedules, of an owner", path: "/ui/schedules?owner=owner-small"},
		{name: "schedules, with a label", path: "/ui/schedules?label=team%3Dteam-7"},
		{name: "schedules, with a label (none)", path: "/ui/schedules?label=team%3Dnone"},
		{name: "schedules, of a workflow", path: "/ui/schedules?workflow=workflow-rare"},
		{name: "schedules, search finds many", path: "/ui/schedules?q=fleet"},
		{name: "schedules, search finds the last id", path: "/ui/schedules?q=" + "fleet-9999"},
		{name: "schedules, search finds a label", path: "/ui/schedules?q=team-19"},
		{name: "schedules, search finds none", path: "/ui/schedules?q=no-such-thing"},
		{name: "a schedule", path: "/ui/schedules/" + schedule},
		{name: "a schedule's year", path: "/ui/schedules/" + schedule + "/year"},
		{name: "a schedule's history", path: "/ui/schedules/" + schedule + "/history"},
		{name: "a schedule, explained", path: "/ui/schedules/" + schedule + "/explain?at=last"},
		{name: "a schedule's backfills", path: "/ui/schedules/" + schedule + "/backfills"},
		{name: "runs", path: "/ui/runs"},
		{name: "runs, in flight", path: "/ui/runs?status=LAUNCHING&status=ENQUEUED&status=STARTED"},
		{name: "runs, planned", path: "/ui/runs?status=PLANNED"},
		{name: "runs, failed", path: "/ui/runs?status=FAILED"},
		{name: "runs, failed before noon", path: "/ui/runs?status=FAILED&to=" + from},
		{name: "runs, cancelled (none)", path: "/ui/runs?status=CANCELLED"},
		{name: "runs, with a reason", path: "/ui/runs?reason=overlap"},
		{name: "runs, with a reason (none)", path: "/ui/runs?reason=grant_denied"},
		{name: "runs, by hand", path: "/ui/runs?trigger=manual"},
		{name: "runs, by a backfill (none)", path: "/ui/runs?trigger=backfill"},
		{name: "runs, of an owner with many", path: "/ui/runs?owner=owner-3"},
		{name: "runs, of an owner with few", path: "/ui/runs?owner=owner-small"},
		{name: "runs, failed, of an owner", path: "/ui/runs?owner=owner-3&status=FAILED"},
		{name: "runs, of a workflow with many", path: "/ui/runs?workflow=workflow-7"},
		{name: "runs, of a workflow with few", path: "/ui/runs?workflow=workflow-rare"},
		{name: "runs, found by run_id", path: "/ui/runs?q=" + runID},
		{name: "a run", path: "/ui/runs/" + key},
		{name: "workers", path: "/ui/workers"},
		{name: "alerts", path: "/ui/alerts"},
		{name: "simulate", path: "/ui/simulate"},
		{name: "preview", path: "/ui/preview?cron=*%2F5+*+*+*+*"},
	}
	for i := range pages {
		if pages[i].bound == 0 {
			pages[i].bound = consoleBound
		}
	}
	return pages, nil
}

// visit asks for a page as a browser does that has no script.
func visit(ctx context.Context, address string) (took []time.Duration, size int64, err error) {
	for range consoleLooks {
		began := time.Now()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
		if err != nil {
			return nil, 0, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, 0, err
		}
		size, err = io.Copy(io.Discard, resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			return nil, 0, err
		}
		if resp.StatusCode != http.StatusOK {
			return nil, 0, fmt.Errorf("%s answers %s", address, resp.Status)
		}
		took = append(took, time.Since(began))
		if err := sleepUntil(ctx, time.Now().Add(consoleApart)); err != nil {
			return nil, 0, err
		}
	}
	return took, size, nil
}
