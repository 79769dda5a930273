package launchqueue_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/carillon/carillon/launcher/launchqueue"
)

// figure is one gauge without labels, or with one.
func figure(t *testing.T, r *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if label == "" || m.GetLabel()[0].GetValue() == label {
				return m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

func TestAWorkerSeesWhetherTheQueueIsThereAndSomebodyReadsIt(t *testing.T) {
	t.Parallel()
	r := newRig(t, openSQLite(t))
	w, through := r.wired()
	client, err := launchqueue.Open(through)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	registry := prometheus.NewRegistry()
	publisher := launchqueue.NewPublisher(client, launchqueue.NewMetrics(registry))
	is := func(up, read float64, reason string) error {
		err := publisher.Reach(t.Context())
		switch {
		case (err == nil) != (reason == ""), err != nil && !strings.Contains(err.Error(), reason):
			return fmt.Errorf("it says something else than %q: %w", reason, errors.Join(errors.New("it says"), err))
		case figure(t, registry, "carillon_launch_queue_up", "") != up, figure(t, registry, "carillon_launch_queue_read", "") != read:
			return errors.New("the figures say something else")
		}
		return nil
	}
	if err := is(1, 0, "no launcher reads the launch queue"); err != nil {
		t.Errorf("before the first launcher: %v", err)
	}
	launches := r.claim(3)
	r.publish(launches...)
	if err := is(1, 0, "no launcher reads"); err != nil {
		t.Error(err)
	}
	if depth := figure(t, registry, "carillon_launch_queue_depth", "launches"); depth != 3 {
		t.Errorf("three runs wait, the depth is %v", depth)
	}
	c := r.consume(10)
	r.eventually("a launcher reads", func() error { return is(1, 1, "") })
	w.set(true)
	r.eventually("Redis is away", func() error { return is(0, 0, "launch queue is unavailable") })
	w.set(false)
	r.eventually("it is back", func() error { return is(1, 1, "") })
	c.stop()
	<-c.ended
	r.eventually("the launcher is gone", func() error { return is(1, 0, "no launcher reads") })
}
