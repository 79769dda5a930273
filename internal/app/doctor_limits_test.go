package app_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

func TestTheDoctorNamesFullLimitsAndUsesWithoutARun(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "carillon.db")
	cfg := onDatabase(t, "sqlite:"+path)
	store := emptyStore(t, cfg)
	if got := finding(t, cfg, "limits"); got != "" {
		t.Errorf("without limits: %q", got)
	}
	for id, most := range map[string]uint32{"card": 1, "api": 2} {
		l := schedule.Limit{LimitDefinition: schedule.LimitDefinition{LimitID: id, UserID: "u", MaxInFlight: most}, Revision: 1, CreatedAt: time.Now(), UpdatedAt: time.Now()}
		if _, err := store.ChangeLimit(t.Context(), id, func(schedule.LimitFacts) (schedule.LimitChange, error) { return schedule.LimitChange{After: &l}, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := finding(t, cfg, "limits"), "ok 2, none is full"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	// The use of a reservation has its reservation.
	q := schedule.Queue{QueueDefinition: schedule.QueueDefinition{QueueID: "q", UserID: "u", MaxInFlight: 1}, Revision: 1, CreatedAt: time.Now(), UpdatedAt: time.Now()}
	if _, err := store.ChangeQueue(t.Context(), "q", func(*schedule.Queue) (schedule.QueueChange, error) { return schedule.QueueChange{After: &q}, nil }); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	r := schedule.Reservation{ID: schedule.Key{1}, UserID: "u", Limits: "card", HoldMS: 3_600_000, CreatedAt: now, EndsAt: now.Add(time.Minute)}
	change := func(c schedule.ReserveChange) {
		t.Helper()
		c.Now = now
		_, _, err := store.ChangeReservations(t.Context(), schedule.ReserveRequest{QueueID: "q", UserID: "u"}, func(ledger.QueueFacts, *schedule.EnqueueRecord) (schedule.ReserveChange, error) { return c, nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	change(schedule.ReserveChange{Add: &r})
	if got, want := finding(t, cfg, "limits"), "ok 2, full: card (1 of 1)"; got != want {
		t.Errorf("with a reservation: %q, want %q", got, want)
	}
	change(schedule.ReserveChange{Release: []schedule.Key{r.ID}})
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), `INSERT INTO limit_uses (limit_no, limit_key, used_by) SELECT limit_no, '', randomblob(32) FROM limits WHERE limit_id = 'card'`); err != nil {
		t.Fatal(err)
	}
	want := "fail 1 use of limits is of a run that is not in flight, or of a reservation that has ended: its limit has less room than it allows\nok 2, full: card (1 of 1)"
	if got := finding(t, cfg, "limits"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheDoctorNamesFullKeysOfKeyedLimits(t *testing.T) {
	t.Parallel()
	cfg := onDatabase(t, "sqlite:"+filepath.Join(t.TempDir(), "carillon.db"))
	store := emptyStore(t, cfg)
	now := time.Now()
	l := schedule.Limit{LimitDefinition: schedule.LimitDefinition{LimitID: "customer", UserID: "u", Keyed: true, MaxInFlight: 2}, Revision: 1, CreatedAt: now, UpdatedAt: now}
	none, three := uint32(0), uint32(3)
	change := func(c schedule.LimitChange) {
		t.Helper()
		if _, err := store.ChangeLimit(t.Context(), "customer", func(schedule.LimitFacts) (schedule.LimitChange, error) { return c, nil }); err != nil {
			t.Fatal(err)
		}
	}
	change(schedule.LimitChange{After: &l})
	change(schedule.LimitChange{Now: now, Key: &schedule.LimitKey{Key: "stopped", MaxInFlight: &none}})
	change(schedule.LimitChange{Now: now, Key: &schedule.LimitKey{Key: "was-stopped", MaxInFlight: &none, Until: now.Add(-time.Hour)}})
	change(schedule.LimitChange{Now: now, Key: &schedule.LimitKey{Key: "large", MaxInFlight: &three}})
	q := schedule.Queue{QueueDefinition: schedule.QueueDefinition{QueueID: "q", UserID: "u", MaxInFlight: 10}, Revision: 1, CreatedAt: now, UpdatedAt: now}
	if _, err := store.ChangeQueue(t.Context(), "q", func(*schedule.Queue) (schedule.QueueChange, error) { return schedule.QueueChange{After: &q}, nil }); err != nil {
		t.Fatal(err)
	}
	for i, key := range []string{"full", "full", "large", "large", "half"} {
		r := schedule.Reservation{ID: schedule.Key{byte(i + 1)}, UserID: "u", Limits: schedule.Limits("customer=" + key), HoldMS: 3_600_000, CreatedAt: now, EndsAt: now.Add(time.Minute)}
		_, _, err := store.ChangeReservations(t.Context(), schedule.ReserveRequest{QueueID: "q", UserID: "u"}, func(ledger.QueueFacts, *schedule.EnqueueRecord) (schedule.ReserveChange, error) {
			return schedule.ReserveChange{Add: &r, Now: now}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got, want := finding(t, cfg, "limits"), "ok 1, full: customer=full (2 of 2), customer=stopped (0 of 0)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
