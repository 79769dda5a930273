package app_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/carillon/carillon/internal/app"
)

// If staging looks like production, people change production by mistake.
func TestTheEnvironmentIsShownEverywhere(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var told []string
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct{ Data struct{ Environment string } }
		_ = json.Unmarshal(body, &m) // an unreadable body has no name
		mu.Lock()
		defer mu.Unlock()
		told = append(told, m.Data.Environment)
	}))
	t.Cleanup(receiver.Close)
	g := newGuarded(t, map[string]any{
		"environment": "staging-2", "alert_webhook_url": receiver.URL, "allow_egress": "loopback",
		"alert_webhook_secret": "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
	})
	if code, answer := g.send("operator", "POST", "/v1/alerts:test", `{}`); code != http.StatusOK {
		t.Fatalf("%d %s", code, answer)
	}
	eventually(t, "a notification names it", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(told) > 0 && told[0] == "staging-2"
	})
	page := g.browse("operator", "/", nil)
	for _, want := range []string{`<span class="environment" title="Environment">staging-2</span>`, "<title>[staging-2] "} {
		if !strings.Contains(page.text, want) {
			t.Errorf("the console lacks %s", want)
		}
	}
	if _, metrics := g.send("operator", "GET", "/metrics", ""); !strings.Contains(metrics, `carillon_build_info{environment="staging-2",`) {
		t.Error("carillon_build_info lacks it")
	}
}

func TestEveryLineOfTheLogNamesTheEnvironment(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"prod": true, "": false} {
		var out bytes.Buffer
		app.NewLogger(&out, app.Config{LogFormat: "json", LogLevel: "info", Environment: name}).Info("up")
		if got := strings.Contains(out.String(), `"environment"`); got != want {
			t.Errorf("with %q: %s", name, &out)
		}
	}
}
