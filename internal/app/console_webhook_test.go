package app_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTheConsoleShowsTheWebhookOfARunAndSendsItAgain(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"secret": "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
		// Nothing answers there, so that the only attempt fails at once.
		"targets.yaml": "targets: [{name: billing, url: 'http://127.0.0.1:1/', secret_file: secret, retries: 0}]",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	onBothStoresWith(t, map[string]any{"allow_egress": "loopback", "webhook_targets_file": filepath.Join(folder, "targets.yaml")}, func(t *testing.T, g *guarded) {
		must := func(method, path, body string) string {
			t.Helper()
			code, text := g.send("operator", method, path, body)
			if code != http.StatusOK {
				t.Fatalf("%s %s: %d %s", method, path, code, text)
			}
			return text
		}
		must("PUT", "/v1/queues/told", `{"user_id":"ada","webhook":"billing"}`)
		must("POST", "/v1/queues/told:pause", `{}`)
		_, key, _ := strings.Cut(must("POST", "/v1/queues/told/runs", `{"workflow_id":"w","version":1}`), `"idempotency_key":"`)
		key = key[:64]
		page := "/ui/runs/" + key
		g.browse("operator", "/ui/queues/told", nil).holds(t, "the queue", "billing: run.succeeded, run.failed, run.skipped, run.cancelled")
		if got := g.browse("operator", page, nil); strings.Contains(got.text, "<dt>Webhook</dt>") {
			t.Errorf("a run that waits has a message")
		}
		must("POST", "/v1/runs/"+key+":cancel", `{}`)
		dead := func() bool { return strings.Contains(must("GET", "/v1/runs/"+key, ""), `"webhook_state":"dead"`) }
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for deadline := time.Now().Add(30 * time.Second); !dead(); <-ticker.C {
			if time.Now().After(deadline) {
				t.Fatal("the message is not dead")
			}
		}
		g.browse("operator", page, nil).holds(t, "the run", "<dt>Webhook</dt><dd>dead", `action="`+page+`/webhook"`)
		if got := g.browse("viewer", page+"/webhook", url.Values{}); got.code != http.StatusForbidden {
			t.Errorf("who may only look sends it again: %d", got.code)
		}
		g.browse("operator", page+"/webhook", url.Values{}).holds(t, "sent again", "Sending again")
	})
}
