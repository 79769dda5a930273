package registrar_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// A process of an older release would start the runs of a queue at once, and retry nothing.
func TestQueuesAndRetriesWaitForProcessesOfOlderReleases(t *testing.T) {
	onQueues(t, func(l *line) {
		store := l.opts.Schedules.(interface {
			registrar.InstanceStore
			Heartbeat(ctx context.Context, i schedule.Instance) error
		})
		l.opts.Instances, l.opts.Config.OwnerMaxSchedules = store, 100
		l.Registrar = registrar.New(l.opts)
		beat := func(features []string, roles ...string) {
			i := schedule.Instance{ID: "old", Host: "box:7", Version: "v0.9", Roles: roles, Features: features, StartedAt: noon}
			if err := store.Heartbeat(l.Context(), i); err != nil {
				l.Fatal(err)
			}
		}
		plain := func(d *schedule.Definition) { d.QueueID, d.ScheduleID = "", "plain" }
		retried := func(d *schedule.Definition) {
			d.QueueID, d.ScheduleID, d.Retry = "", "retried", schedule.RetryPolicy{MaxAttempts: 2}
		}
		told := func(d *schedule.Definition) { d.QueueID, d.ScheduleID, d.Webhook = "", "told", "billing" }
		bounded := func(d *schedule.Definition) { d.QueueID, d.ScheduleID, d.MaxRunMS = "", "bounded", 60_000 }
		coalescing := func(d *schedule.Definition) {
			d.QueueID, d.ScheduleID, d.OverlapPolicy = "", "coalescing", schedule.OverlapCoalesce
		}
		queued := func(*schedule.Definition) {}
		for _, c := range []struct {
			name     string
			features []string
			role     string
			edit     func(*schedule.Definition)
			refused  bool
		}{
			{"a queue, and an old worker", nil, "worker", queued, true},
			{"a queue, and an old launcher", nil, "launcher", queued, true},
			{"retries, and an old worker", nil, "worker", retried, true},
			{"a webhook, and an old launcher", nil, "launcher", told, true},
			{"max_run_ms, and an old worker", nil, "worker", bounded, true},
			{"coalesce, and a worker without events", []string{schedule.FeatureQueues}, "worker", coalescing, true},
			{"coalesce, and a worker of this release", schedule.Features, "worker", coalescing, false},
			{"none of them, and an old worker", nil, "worker", plain, false},
			{"a queue, and an old registrar", nil, "registrar", queued, false},
			{"a queue, and a worker of this release", schedule.Features, "worker", queued, false},
			{"retries, and a worker of this release", schedule.Features, "worker", retried, false},
			{"a webhook, and a worker of this release", schedule.Features, "worker", told, false},
		} {
			beat(c.features, c.role)
			_, err := l.Upsert(l.Context(), slotted("s", c.edit))
			switch {
			case !c.refused && err != nil:
				l.Errorf("%s: %v", c.name, err)
			case c.refused && (!errors.Is(err, schedule.ErrPrecondition) || !strings.Contains(err.Error(), "old (box:7, release v0.9)")):
				l.Errorf("%s: %v, want a refusal that names the process", c.name, err)
			}
		}
	})
}
