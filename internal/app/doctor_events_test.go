package app_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
)

func TestTheDoctorAuditsTheEventsOfTheLastHour(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "carillon.db")
	cfg := onDatabase(t, "sqlite:"+path)
	store := emptyStore(t, cfg)
	now := store.Now()
	publish := func(id string, at time.Time) {
		t.Helper()
		p := topic.Publication{UserID: "u", Now: at, Events: []topic.Event{{Topic: "orders", EventID: id, Data: []byte("{}"), DataHash: schedule.ManualKey("data", id)}}}
		if _, err := store.Publish(t.Context(), &p); err != nil {
			t.Fatal(err)
		}
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"there is none", func() {}, ""},
		{"one is old", func() { publish("old", now.Add(-2*time.Hour)) }, ""},
		{"one has no consumer", func() { publish("a", now.Add(-time.Minute)) }, "ok 1 event of the last hour, each where it must be"},
		{"one is pending", func() {
			row := schedule.Schedule{
				Definition: schedule.Definition{
					ScheduleID: "c", WorkflowID: "w", Version: 1, UserID: "u", OverlapPolicy: schedule.OverlapQueue, OverlapKey: "c", CatchupPolicy: schedule.CatchupNone,
					Timezone: "UTC", DST: schedule.DSTVixie, RunTimeoutMS: 3_600_000, Consume: schedule.Consume{Topics: []string{"orders"}, MaxEvents: 1},
				},
				Revision: 1, RevisedAt: now, CreatedAt: now, UpdatedAt: now,
			}
			err := store.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: []string{"c"}}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
				return []schedule.Change{{ScheduleID: "c", Row: &row, NewRevision: true, Created: true, Now: now}}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			publish("b", now.Add(-time.Minute))
		}, "ok 2 events of the last hour, each where it must be"},
		{"nothing would look at it", func() {
			if _, err := db.ExecContext(t.Context(), "DELETE FROM wakes"); err != nil {
				t.Fatal(err)
			}
		}, `fail 1 problem among the events of the last hour; the first: event "b" of topic "orders", consumer "c": is pending, and nothing would look at it: there is no wake row and no open run`},
	} {
		if step.do(); finding(t, cfg, "events") != step.want {
			t.Errorf("%s: %q, want %q", step.name, finding(t, cfg, "events"), step.want)
		}
	}
}
