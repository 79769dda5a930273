package e2e_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const webhookKey = "the key of the receiver of webhooks"

// hookCall is one request that a sink has got.
type hookCall struct {
	at   time.Time
	id   string
	body struct {
		Type      string    `json:"type"`
		Timestamp time.Time `json:"timestamp"`
		Data      struct {
			Run   map[string]any `json:"run"`
			Group map[string]any `json:"group"`
		} `json:"data"`
	}
}

// sink receives webhooks: it verifies each, and answers 503 while it is down.
type sink struct {
	*httptest.Server
	t     *testing.T
	mu    sync.Mutex
	calls []hookCall
	down  bool
}

func newSink(t *testing.T) *sink {
	s := &sink{t: t}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := readAll(r.Body)
	call := hookCall{at: time.Now(), id: r.Header.Get("webhook-id")}
	mac := hmac.New(sha256.New, []byte(webhookKey))
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", call.id, r.Header.Get("webhook-timestamp"), body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); r.Header.Get("webhook-signature") != want {
		s.t.Errorf("%s is signed %q, want %q", call.id, r.Header.Get("webhook-signature"), want)
	}
	if err := json.Unmarshal([]byte(body), &call.body); err != nil {
		s.t.Errorf("%s: %v in %s", call.id, err, body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
	if s.down {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (s *sink) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func (s *sink) got() []hookCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// targets writes a WEBHOOK_TARGETS_FILE that leads to the sink.
func (s *sink) targets() (setting string) {
	folder := s.t.TempDir()
	for name, text := range map[string]string{
		"secret": "whsec_" + base64.StdEncoding.EncodeToString([]byte(webhookKey)),
		"targets.yaml": `
targets:
  - {name: billing, url: "` + s.URL + `/billing", secret_file: secret}
  - {name: of-bob, url: "` + s.URL + `/bob", secret_file: secret, owners: [bob], retries: 0}
`,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	return "WEBHOOK_TARGETS_FILE=" + filepath.Join(folder, "targets.yaml")
}

// TestTheEndOfARunIsToldAtLeastOnce is acceptance 20.
func TestTheEndOfARunIsToldAtLeastOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes most of a minute: four attempts")
	}
	t.Parallel()
	onEachDatabase(t, tellEnds)
}

func tellEnds(t *testing.T, database string) {
	hooks := newSink(t)
	hooks.setDown(true)
	s := &script{said: make(map[string]string), keys: make(map[string][]string), ends: map[string][]string{"dies": {"logic", "SUCCESS"}}}
	server := newServer(t, s.ServeHTTP)
	p := newProcess(t, "carillon", []string{"serve", "--migrate"}, append(settings(database, time.Minute),
		"EXECUTOR=http", "EXECUTOR_URL="+server.URL+"/{workflow_id}", "ALLOW_EGRESS=loopback", hooks.targets()))
	p.startReady()
	api := newREST(t, p)
	api.do("PUT", "/v1/workflows/w/versions/1", `{"dag": {"workflow_id": "w", "version": 1}}`, nil)
	api.do("PUT", "/v1/schedules/dies", fmt.Sprintf(`{"workflow_id": "w", "version": 1, "user_id": "ada", "once_at": %q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)), nil)
	refuseWebhooks(t, api)
	api.do("PUT", "/v1/queues/q", `{"user_id": "ada", "webhook": "billing"}`, nil)
	api.do("POST", "/v1/queues/q/runs", `{"schedule_id": "dies"}`, nil)

	key := api.untilEnded("dies", 1)[0].Key
	shown := func() map[string]any {
		var answer struct {
			Run   map[string]any `json:"run"`
			Group map[string]any `json:"group"`
		}
		api.do("GET", "/v1/runs/"+key, nil, &answer)
		return answer.Run
	}
	ended := shown()
	if ended["webhook_state"] != "pending" || ended["dead"] != true {
		t.Errorf("after the end the message is pending: %v", ended)
	}
	becomes := func(state string) {
		t.Helper()
		eventually(t, time.Minute, "the message is "+state, func() error {
			if got := shown()["webhook_state"]; got != state {
				return fmt.Errorf("it is %v", got)
			}
			return nil
		})
	}
	becomes("dead")
	calls := hooks.got()
	if len(calls) != 4 {
		t.Fatalf("%d attempts, want 1 and 3 retries", len(calls))
	}
	const look = 3 * time.Second // the outbox is looked at every two seconds
	for i, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
		if gap := calls[i+1].at.Sub(calls[i].at); gap < want*8/10 || gap > want*12/10+look {
			t.Errorf("retry %d came after %s, want %s within a fifth", i+1, gap, want)
		}
	}

	// The message is of the end, also once the run was retried.
	api.do("POST", "/v1/queues/q:redrive", `{}`, nil)
	if after := shown(); after["dead"] != false {
		t.Errorf("a redriven run is not dead: %v", after)
	}
	hooks.setDown(false)
	redeliver := func(body string) (n int) {
		var answer struct {
			Redelivered int `json:"redelivered"`
		}
		api.do("POST", "/v1/webhooks:redeliver", body, &answer)
		return answer.Redelivered
	}
	if n := redeliver(`{"dead": true}`); n != 1 {
		t.Errorf("%d messages redelivered, want 1", n)
	}
	becomes("delivered")
	if n := redeliver(`{"idempotency_key": "` + key + `"}`); n != 1 {
		t.Errorf("%d messages redelivered by the run, want 1", n)
	}
	eventually(t, startBound, "the message comes once more", func() error {
		if n := len(about(hooks.got(), key)); n < 6 {
			return fmt.Errorf("%d calls", n)
		}
		return nil
	})
	becomes("delivered")
	delete(ended, "webhook_state")
	completed, err := time.Parse(time.RFC3339Nano, fmt.Sprint(ended["completed_at"]))
	if err != nil {
		t.Fatal(err)
	}
	for i, call := range about(hooks.got(), key) {
		delete(call.body.Data.Run, "webhook_state")
		if d := cmp.Diff(ended, call.body.Data.Run); d != "" || call.body.Type != "run.failed" || call.id != "run_"+key || !call.body.Timestamp.Equal(completed) {
			t.Errorf("call %d: %s %s at %s, run (- GET, + message):\n%s", i, call.id, call.body.Type, call.body.Timestamp, d)
		}
	}
	for name, c := range map[string]struct {
		body, says string
		want       int
	}{
		"nothing named":      {`{}`, "idempotency_key", http.StatusBadRequest},
		"both":               {`{"dead": true, "idempotency_key": "` + key + `"}`, "keep one", http.StatusBadRequest},
		"an unknown run":     {`{"idempotency_key": "` + strings.Repeat("f", 64) + `"}`, "", http.StatusNotFound},
		"dead ones, if none": {`{"dead": true, "webhook": "of-bob"}`, `"redelivered":0`, http.StatusOK},
	} {
		if status, answer, err := api.call("POST", "/v1/webhooks:redeliver", c.body); err != nil || status != c.want || !strings.Contains(strings.ReplaceAll(string(answer), " ", ""), strings.ReplaceAll(c.says, " ", "")) {
			t.Errorf("%s: %d %s (%v), want %d and %q", name, status, answer, err, c.want, c.says)
		}
	}
}

// about are the calls about one run, in their order.
func about(calls []hookCall, key string) []hookCall {
	return slices.DeleteFunc(calls, func(c hookCall) bool { return c.id != "run_"+key })
}

func refuseWebhooks(t *testing.T, api *rest) {
	t.Helper()
	api.do("PUT", "/v1/queues/plain", `{"user_id": "ada"}`, nil)
	for name, c := range map[string]struct{ method, path, body, field, says string }{
		"an unknown target of a queue":      {"PUT", "/v1/queues/x", `{"user_id": "ada", "webhook": "none"}`, "webhook", "not a target"},
		"a target of another owner":         {"PUT", "/v1/queues/x", `{"user_id": "ada", "webhook": "of-bob"}`, "webhook", "may not use"},
		"an owner's target of a shared one": {"PUT", "/v1/queues/x", `{"user_id": "bob", "webhook": "of-bob", "shared": true}`, "webhook", "shared"},
		"an unknown type":                   {"PUT", "/v1/queues/x", `{"user_id": "ada", "webhook": "billing", "webhook_events": ["run.lost"]}`, "webhook_events[0]", ""},
		"an unknown target of a run":        {"POST", "/v1/queues/plain/runs", `{"schedule_id": "dies", "webhook": "none"}`, "webhook", "not a target"},
		"another owner's target of a run":   {"POST", "/v1/queues/plain/runs", `{"schedule_id": "dies", "webhook": "of-bob"}`, "webhook", "may not use"},
		"a run of a batch":                  {"POST", "/v1/queues/plain/runs:batch", `{"runs": [{"schedule_id": "dies"}, {"schedule_id": "dies", "webhook": "none"}]}`, "runs[1].webhook", "not a target"},
	} {
		status, answer, err := api.call(c.method, c.path, c.body)
		said, named := refusals(t, answer)[c.field]
		if err != nil || status != http.StatusBadRequest || !named || !strings.Contains(said, c.says) {
			t.Errorf("%s: %d %s (%v)", name, status, answer, err)
		}
	}
	if status, _, _ := api.call("GET", "/v1/queues/x", nil); status != http.StatusNotFound {
		t.Errorf("a refused queue was written")
	}
}
