package worker_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	rules "github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/memory"
	"github.com/carillon/carillon/worker"
)

// A planned run that the leader's state does not know is a defect, once a claim has
// read the changes that name it.
func TestStraysAreOnlyWhatChangesDoNotName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		silent bool // the change is not read
		want   bool
	}{
		{name: "a run that is inserted six seconds after its fire_at is none"},
		{name: "a run whose change is never read is one", silent: true, want: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			now := time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)
			store := &deaf{Store: memory.New(memory.Options{Clock: func() time.Time { return now }})}
			term, ok, err := store.Takeover(t.Context(), schedule.TakeoverRequest{Holder: "w", TTL: time.Hour, Now: now})
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			steps := worker.NewSteps(t.Context(), worker.Options{
				ID: "w", Plans: store, Fires: store, Now: func() time.Time { return now },
				Logger: slog.New(slog.NewTextHandler(&log, nil)), Metrics: worker.NewMetrics(nil),
			}, term)
			fire := func() {
				t.Helper()
				if _, err := steps.Fire(); err != nil {
					t.Fatal(err)
				}
			}
			fire()
			store.silent = c.silent
			now = now.Add(10 * time.Second)
			insertDue(t, store, now, now.Add(-6*time.Second))
			for range 3 {
				fire()
				now = now.Add(1100 * time.Millisecond)
			}
			if got := bytes.Contains(log.Bytes(), []byte("differs from the tables")); got != c.want {
				t.Errorf("a stray is reported: %v, want %v\n%s", got, c.want, log.String())
			}
		})
	}
}

func insertDue(t *testing.T, store *deaf, now, fireAt time.Time) {
	t.Helper()
	d := schedule.Definition{ScheduleID: "s", UserID: "u", WorkflowID: "w", Version: 1, OverlapPolicy: schedule.OverlapAllow, OverlapKey: "s", Timezone: "UTC"}
	row := &schedule.Schedule{Definition: d, Revision: 1}
	run := schedule.Run{Key: schedule.SlotKey("s", fireAt), ScheduleID: "s", Revision: 1, Trigger: schedule.TriggerSchedule, OverlapKey: row.QualifiedOverlapKey(), OverlapPolicy: d.OverlapPolicy, RunAt: fireAt, FireAt: fireAt}
	err := store.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: []string{"s"}}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
		return []schedule.Change{{ScheduleID: "s", Row: row, NewRevision: true, Runs: []schedule.Run{run}, Now: now}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// deaf is a store that can lose changes.
type deaf struct {
	*memory.Store
	silent bool
}

func (d *deaf) Claim(ctx context.Context, req rules.ClaimRequest, claim *rules.Claim) (rules.Claimed, error) {
	if d.silent {
		open, err := d.LoadOpen(ctx, req.Term, req.Now, req.Now)
		if err != nil {
			return rules.Claimed{}, err
		}
		req.Position = open.Position
	}
	return d.Store.Claim(ctx, req, claim)
}
