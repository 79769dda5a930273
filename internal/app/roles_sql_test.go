package app_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/carillon/carillon/internal/app"
	"github.com/carillon/carillon/internal/test/services/migrated"
	"github.com/carillon/carillon/schema"
)

// part is one process of a deployment, with its database role.
func part(t *testing.T, dsn, role string, settings map[string]any) *app.App {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("options", "-c role="+role)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	all := map[string]any{
		"http_addr": "127.0.0.1:0", "grpc_addr": "127.0.0.1:0", "data_dir": t.TempDir(), "database_url": u.String(), "report_secret": "the same for all",
	}
	for name, value := range settings {
		all[name] = value
	}
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	app.Flags(fs, nil)
	cfg, err := app.Load(fs, all)
	if err != nil {
		t.Fatal(err)
	}
	log := &strings.Builder{}
	a, err := app.New(t.Context(), cfg, app.Options{Logger: slog.New(slog.NewTextHandler(&locked{w: log}, nil))})
	if err != nil {
		t.Fatalf("%s: %v", role, err)
	}
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", role, err)
		}
		if err := a.Close(); err != nil {
			t.Errorf("%s: %v", role, err)
		}
		if strings.Contains(log.String(), "SQLSTATE 42501") || strings.Contains(log.String(), "permission denied") {
			t.Errorf("%s was refused something:\n%s", role, log)
		}
	})
	return a
}

// call makes a REST call that must succeed.
func call(t *testing.T, a *app.App, method, path, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+a.HTTPAddr()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%s %s: %d %s", method, path, resp.StatusCode, text)
	}
	return string(text)
}

func TestADeploymentWorksWithALeastPrivilegedRoleForEachPart(t *testing.T) {
	t.Parallel()
	dsn := migrated.Postgres(t)
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), schema.PostgresRoles); err != nil {
		t.Fatal(err)
	}
	executor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/later") {
			w.WriteHeader(http.StatusAccepted)
		}
		_, _ = io.WriteString(w, `{"run_id":"r","status":"SUCCESS"}`)
	}))
	defer executor.Close()

	registrar := part(t, dsn, "sched_api", map[string]any{"roles": "registrar"})
	launcher := part(t, dsn, "sched_launcher", map[string]any{"roles": "launcher", "executor_url": executor.URL + "/{workflow_id}"})
	part(t, dsn, "sched_worker", map[string]any{"roles": "worker", "launcher_addr": launcher.GRPCAddr()})

	call(t, registrar, "PUT", "/v1/workflows/now/versions/1", `{"dag":{"workflow_id":"now","version":1}}`)
	call(t, registrar, "POST", "/v1/workflows/later:deploy", `{"version":1,"user_id":"u","dag":{"workflow_id":"later","version":1,"triggers":[]}}`)
	for _, id := range []string{"now", "later"} {
		call(t, registrar, "PUT", "/v1/schedules/"+id, fmt.Sprintf(`{"workflow_id":%q,"version":1,"user_id":"u","interval_ms":1000}`, id))
	}
	eventually(t, "a run by schedule ended well, and another was taken", func() bool {
		return strings.Contains(call(t, registrar, "GET", "/v1/schedules/now/runs", ""), `"SUCCESS"`) &&
			strings.Contains(call(t, registrar, "GET", "/v1/schedules/later/runs", ""), `"ENQUEUED"`)
	})
	for _, id := range []string{"now", "later"} {
		call(t, registrar, "PUT", "/v1/schedules/"+id, fmt.Sprintf(`{"workflow_id":%q,"version":1,"user_id":"u","interval_ms":2000}`, id))
		call(t, registrar, "POST", "/v1/schedules/"+id+":pause", `{}`)
	}
	// Reported to the launcher, and to the registrar.
	for i, to := range []*app.App{launcher, registrar} {
		if i > 0 {
			call(t, registrar, "POST", "/v1/schedules/later:trigger", `{"overlap_policy":"allow"}`)
		}
		key := keyOf(t, func() string { return call(t, registrar, "GET", "/v1/runs?schedule_id=later&status=ENQUEUED", "") })
		call(t, to, "POST", "/v1/runs/"+key+":report", `{"status":"STARTED"}`)
		call(t, to, "POST", "/v1/runs/"+key+":report", `{"status":"SUCCESS"}`)
		call(t, to, "POST", "/v1/runs/"+key+":report", `{"status":"SUCCESS"}`) // changes nothing, but adds an event
	}
	reservesWithRoles(t, registrar, launcher)
	uniqueWithRoles(t, registrar, launcher)
	call(t, registrar, "POST", "/v1/schedules/now:trigger", `{"overlap_policy":"allow"}`)
	call(t, registrar, "GET", "/v1/workers", "")
	call(t, registrar, "DELETE", "/v1/schedules/now", "")
}

// uniqueWithRoles: the registrar replaces the run that holds a key, and the launcher frees the key.
func uniqueWithRoles(t *testing.T, registrar, launcher *app.App) {
	t.Helper()
	const unique = `{"workflow_id":"later","version":1,"unique":{"key":"k","on_duplicate":"replace"}}`
	call(t, registrar, "POST", "/v1/queues/gpu:pause", `{}`)
	_, key, _ := strings.Cut(call(t, registrar, "POST", "/v1/queues/gpu/runs", unique), `"idempotency_key":"`)
	key = key[:64]
	if answer := call(t, registrar, "POST", "/v1/queues/gpu/runs", unique); !strings.Contains(answer, `"replaced":true`) || !strings.Contains(answer, key) {
		t.Errorf("the run is not replaced: %s", answer)
	}
	call(t, registrar, "POST", "/v1/queues/gpu:resume", `{}`)
	eventually(t, "the executor has the run", func() bool {
		return strings.Contains(call(t, registrar, "GET", "/v1/runs/"+key, ""), `"STARTED"`)
	})
	call(t, launcher, "POST", "/v1/runs/"+key+":report", `{"status":"SUCCESS"}`)
	if answer := call(t, registrar, "POST", "/v1/queues/gpu/runs", unique); !strings.Contains(answer, `"duplicate":false`) {
		t.Errorf("the key is not free: %s", answer)
	}
}

// reservesWithRoles: the registrar grants a reservation, the launcher grants another one before a
// waiting run, and deletes it when its time is over.
func reservesWithRoles(t *testing.T, registrar, launcher *app.App) {
	t.Helper()
	id := func(answer string) string {
		_, rest, _ := strings.Cut(answer, `"reservation_id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		return id
	}
	call(t, registrar, "PUT", "/v1/limits/card", `{"user_id":"u","max_in_flight":1}`)
	call(t, registrar, "PUT", "/v1/queues/gpu", `{"user_id":"u","limits":["card"]}`)
	first := id(call(t, registrar, "POST", "/v1/queues/gpu:reserve", `{"hold_ms":60000}`))
	call(t, registrar, "POST", "/v1/reservations/"+first+":extend", `{}`)
	call(t, registrar, "POST", "/v1/reservations/"+first+":release", `{}`)
	call(t, registrar, "POST", "/v1/queues/gpu/runs", `{"workflow_id":"later","version":1}`)
	running := keyOf(t, func() string { return call(t, registrar, "GET", "/v1/queues/gpu/runs?status=STARTED", "") })
	call(t, registrar, "POST", "/v1/queues/gpu/runs", `{"workflow_id":"now","version":1,"input":2}`)
	second := id(call(t, registrar, "POST", "/v1/queues/gpu:reserve", `{"hold_ms":300}`))
	if answer := call(t, registrar, "GET", "/v1/reservations/"+second, ""); !strings.Contains(answer, `"granted":false`) {
		t.Errorf("the slot is taken: %s", answer)
	}
	call(t, launcher, "POST", "/v1/runs/"+running+":report", `{"status":"SUCCESS"}`)
	eventually(t, "the launcher has granted the reservation, and ended it", func() bool {
		log := call(t, registrar, "GET", "/v1/queues/gpu/events", "")
		return strings.Count(log, "reservation_granted") == 2 && strings.Contains(log, "reservation_expired")
	})
	eventually(t, "the run behind it has run", func() bool {
		return strings.Count(call(t, registrar, "GET", "/v1/queues/gpu/runs", ""), `"SUCCESS"`) == 2
	})
}

// keyOf waits for the first run of a list and returns its key.
func keyOf(t *testing.T, list func() string) (key string) {
	t.Helper()
	eventually(t, "a run", func() bool {
		_, rest, found := strings.Cut(list(), `"idempotency_key":"`)
		key, _, _ = strings.Cut(rest, `"`)
		return found
	})
	return key
}
