package app_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/test/services/migrated"
)

func TestTheDoctorReportsAWorkerWithoutAStandby(t *testing.T) {
	t.Parallel()
	cfg := onDatabase(t, migrated.Postgres(t))
	store := emptyStore(t, cfg)
	for host, roles := range map[string]string{"a:1": "registrar", "b:2": "worker", "c:3": "launcher"} {
		self := schedule.Instance{ID: host, Host: host, Version: "v1", Roles: []string{roles}, StartedAt: store.Now()}
		if err := store.Heartbeat(t.Context(), self); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := finding(t, cfg, "processes"), "warn one worker, no standby: if b:2 ends, nothing is launched"; got != want {
		t.Errorf("processes: %q, want %q", got, want)
	}
}

func TestTheDoctorReportsALauncherThatIsUnhealthy(t *testing.T) {
	t.Parallel()
	cfg := onDatabase(t, migrated.Postgres(t))
	store := emptyStore(t, cfg)
	for _, i := range []schedule.Instance{
		{ID: "a", Host: "a:1", Version: "v1", Roles: []string{"worker"}},
		{ID: "b", Host: "b:2", Version: "v1", Roles: []string{"registrar", "worker"}},
		{ID: "c", Host: "c:3", Version: "v1", Roles: []string{"launcher"}, Unhealthy: "cannot take the presence lock"},
	} {
		i.StartedAt = store.Now()
		if err := store.Heartbeat(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	want := "warn launcher c (c:3) is unhealthy: cannot take the presence lock\nok 3 seen in the last minute, 2 with the role worker, version v1"
	if got := finding(t, cfg, "processes"); got != want {
		t.Errorf("processes: %q, want %q", got, want)
	}
}

func TestTheDoctorReportsGapsWithoutALeader(t *testing.T) {
	t.Parallel()
	cfg := onDatabase(t, "sqlite:"+filepath.Join(t.TempDir(), "carillon.db")) // its terms use this machine's clock
	store := emptyStore(t, cfg)
	if got := finding(t, cfg, "leadership"); got != "ok no gap in the last 15 minutes" {
		t.Errorf("leadership of an empty database: %q", got)
	}
	now := store.Now().Truncate(time.Second)
	terms := []struct {
		holder string
		ago    time.Duration
		ttl    time.Duration
	}{
		{"first", time.Hour, time.Second}, // the gap after it is too old
		{"second", 50 * time.Minute, 49 * time.Minute},
		{"third", 40 * time.Second, time.Hour},
	}
	for _, term := range terms {
		req := schedule.TakeoverRequest{Holder: term.holder, TTL: term.ttl, LockHeld: true, Now: now.Add(-term.ago)}
		if _, ok, err := store.Takeover(t.Context(), req); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	want := "warn No worker led shard 0 from " + now.Add(-50*time.Minute).UTC().Format(time.RFC3339) + " to " + now.Add(-40*time.Second).UTC().Format(time.RFC3339) +
		" (leader stopped renewing: killed, hung or cut off)"
	if got := finding(t, cfg, "leadership"); got != want {
		t.Errorf("leadership: %q, want %q", got, want)
	}
}
