package app_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
	"github.com/carillon/carillon/internal/test/services/migrated"
)

func TestTheDoctorFindsWhatBackgroundWorkLeftUndone(t *testing.T) {
	t.Parallel()
	url := migrated.Postgres(t)
	cfg := onDatabase(t, url)
	store := emptyStore(t, cfg)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	exec := func(statement string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	wants := func(want string) {
		t.Helper()
		if got := finding(t, cfg, "upkeep"); !strings.HasPrefix(got, want) {
			t.Errorf("upkeep: %q, want %q", got, want)
		}
	}
	const well = "ok nothing in flight is past its time limit, and leaders look at what is due"
	wants(well)
	if _, ok, err := store.Takeover(t.Context(), schedule.TakeoverRequest{Holder: "w", TTL: time.Hour, LockHeld: true}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	exec(`UPDATE leaders SET seen_until = now()`)
	run := addRuns(t, store, "s", 1)[0]
	wants(well)
	exec(`UPDATE open_runs SET state = 3, status = 4`)
	exec(`UPDATE leaders SET seen_until = now() - interval '1 hour'`)
	wants("fail runs in flight that passed their time limit over a minute ago: 1\nwarn the leader of shard 0 last looked at changes and due runs 1h0m")
	exec(`UPDATE leaders SET seen_until = now()`)
	exec(`CREATE TABLE kept AS SELECT * FROM open_runs`)
	if _, err := store.SettleLaunched(t.Context(), store.Now(), []schedule.Settlement{{Key: run.Key, To: schedule.StatusSuccess}}); err != nil {
		t.Fatal(err)
	}
	exec(`INSERT INTO open_runs SELECT * FROM kept`)
	exec(`UPDATE open_runs SET due_at = now() + interval '1 hour'`)
	wants("fail runs that are in flight although history has their end: 1")
}

func TestTheDoctorFindsLaunchersWithoutTheirPresenceLock(t *testing.T) {
	t.Parallel()
	url := migrated.Postgres(t)
	cfg := onDatabase(t, url)
	store := emptyStore(t, cfg)
	if got := finding(t, cfg, "presence"); got != "" {
		t.Errorf("presence without launchers: %q", got)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	holds := schedule.Instance{ID: "holds", Host: "a:1", Roles: []string{"launcher"}, StartedAt: store.Now()}
	no, err := store.Register(t.Context(), holds)
	if err == nil {
		_, err = conn.Exec(t.Context(), postgres.TakePresence, no)
	}
	var generation string
	if err == nil {
		err = conn.QueryRow(t.Context(), postgres.ServerGeneration).Scan(&generation)
	}
	if err == nil {
		err = store.ConfirmPresence(t.Context(), no, generation)
	}
	if err == nil {
		err = store.Heartbeat(t.Context(), holds)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, want := finding(t, cfg, "presence"), "ok launchers with a presence lock: 1"; got != want {
		t.Errorf("presence: %q, want %q", got, want)
	}
	never := schedule.Instance{ID: "never", Host: "b:2", Roles: []string{"launcher"}, StartedAt: store.Now()}
	if _, err := conn.Exec(t.Context(), `SELECT pg_advisory_unlock_all()`); err != nil {
		t.Fatal(err)
	}
	if err := store.Heartbeat(t.Context(), never); err != nil {
		t.Fatal(err)
	}
	if got, want := finding(t, cfg, "presence"), "warn launchers without a presence lock: b:2, a:1"; got != want {
		t.Errorf("presence: %q, want %q", got, want)
	}
}
