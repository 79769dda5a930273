package postgres_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
	"github.com/carillon/carillon/internal/test/services"
)

func TestAPoolerThatSharesSessionsIsRefusedInWords(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"transaction", "statement"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			url := services.PgBouncer(t, services.Postgres(t, migrate), mode)
			refused := func() {
				s, err := postgres.Open(t.Context(), url, postgres.Options{MaxConns: 2})
				if err == nil {
					_ = s.Close()
				}
				if !errors.Is(err, schedule.ErrUnsupported) || !strings.Contains(err.Error(), "pool_mode = session") {
					t.Errorf("got %v, want ErrUnsupported and what to do", err)
				}
			}
			refused()
			var several sync.WaitGroup // whose sessions are mixed
			for range 8 {
				several.Go(refused)
			}
			several.Wait()
		})
	}
}

func TestAPoolerThatHandsOutItsSessionsInTurnIsRefusedInWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		sessions int
	}{
		{name: "with a session for all, which an open transaction keeps from the others", sessions: 1},
		{name: "with several sessions, given out in turn", sessions: 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store, err := postgres.Open(t.Context(), pooled(t, services.Postgres(t, nil), c.sessions), postgres.Options{MaxConns: 2})
			if err == nil {
				_ = store.Close()
			}
			if !errors.Is(err, schedule.ErrUnsupported) || !strings.Contains(err.Error(), "pool_mode = session") {
				t.Errorf("got %v, want ErrUnsupported and what to do", err)
			}
		})
	}
}

func TestAPoolerInSessionModeIsAccepted(t *testing.T) {
	t.Parallel()
	database := services.Postgres(t, migrate)
	url := services.PgBouncer(t, database, "session")
	store := open(t, url, postgres.Options{MaxConns: 2})
	create(t, store, noon, everySecond("s", noon))
	if _, err := store.GetSchedule(t.Context(), "s"); err != nil {
		t.Error(err)
	}
	if err := store.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	var left int
	err := connect(t, database).QueryRow(t.Context(), `SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database
		WHERE locktype = 'advisory' AND datname = current_database()`).Scan(&left)
	if err != nil || left != 0 {
		t.Errorf("%d locks of the probe are left (%v)", left, err)
	}
}
