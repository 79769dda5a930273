package worker_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	rules "github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/worker"
)

// flown is a store with other flights in its history.
type flown struct {
	ledger
	flights func(rules.FlightsRequest) []rules.Flight
}

func (f flown) Flights(_ context.Context, req rules.FlightsRequest) ([]rules.Flight, error) {
	return f.flights(req), nil
}

// The verdict of each run is the leader's alone. What it got wrong shows in history only.
func TestALeaderFindsRunsThatOverlapped(t *testing.T) {
	inBubble(t, func(r *rig) {
		var log bytes.Buffer
		registry := prometheus.NewRegistry()
		r.log, r.metrics = slog.New(slog.NewTextHandler(&log, nil)), worker.NewMetrics(registry)
		var asked []rules.FlightsRequest
		r.over = func(s *sqlite.Store) ledger {
			return flown{s, func(req rules.FlightsRequest) []rules.Flight {
				if asked = append(asked, req); len(asked) != 2 {
					return nil
				}
				return []rules.Flight{
					{Key: schedule.Key{1}, OverlapKey: "u/k", Launched: r.at(0), Completed: r.at(20 * time.Second)},
					{Key: schedule.Key{2}, OverlapKey: "u/k", Launched: r.at(10 * time.Second), Completed: r.at(30 * time.Second)},
					{Key: schedule.Key{3}, OverlapKey: "u/other", Launched: r.at(10 * time.Second), Completed: r.at(30 * time.Second)},
				}
			}}
		}
		r.work(3*time.Minute + 30*time.Second)
		if len(asked) != 4 {
			t.Fatalf("history was read %d times in three minutes and a half, want once a minute", len(asked))
		}
		for i, req := range asked {
			if i > 0 && !req.From.Equal(asked[i-1].Until) {
				t.Errorf("one check ends at %s and the next begins at %s", asked[i-1].Until, req.From)
			}
			if req.First != 0 || req.Last != schedule.Buckets-1 {
				t.Errorf("buckets %d to %d are read, want all", req.First, req.Last)
			}
		}
		if got := counted(t, registry, "carillon_overlap_violations_total"); got != 1 {
			t.Errorf("%v violations are counted, want 1", got)
		}
		for _, key := range []schedule.Key{{1}, {2}} {
			if !strings.Contains(log.String(), key.String()) {
				t.Errorf("the log does not name the run that began too early and the other one:\n%s", log.String())
			}
		}
	})
}

func TestManyEndsAreCheckedInParts(t *testing.T) {
	inBubble(t, func(r *rig) {
		var asked []rules.FlightsRequest
		r.over = func(s *sqlite.Store) ledger {
			return flown{s, func(req rules.FlightsRequest) []rules.Flight {
				if asked = append(asked, req); len(asked) == 1 {
					return make([]rules.Flight, req.Limit)
				}
				return make([]rules.Flight, req.Limit/64)
			}}
		}
		r.work(3*time.Minute + 30*time.Second)
		for i, req := range asked[1:] {
			if first, last := 16*i, 16*i+15; req.First != first || req.Last != last {
				t.Errorf("check %d reads the buckets %d to %d, want %d to %d", i, req.First, req.Last, first, last)
			}
		}
		if len(asked) != 4 {
			t.Errorf("%d checks, want 4", len(asked))
		}
	})
}

// counted is the value of a counter without labels.
func counted(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}
