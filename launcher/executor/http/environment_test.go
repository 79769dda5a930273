package httpexecutor_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/schedule"
	httpexecutor "github.com/carillon/carillon/launcher/executor/http"
)

func TestEveryCallNamesTheEnvironment(t *testing.T) {
	for _, tt := range []struct {
		name, environment, dialect string
		header, body               string
	}{
		{name: "our contract", environment: "prod", header: "prod", body: "prod"},
		{name: "the graph dialect has it in the header only", environment: "prod", dialect: httpexecutor.DialectGraph, header: "prod"},
		{name: "none is set, and the body is as it was"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var calls []string
			var header []string
			var bodies []map[string]any
			cfg := httpexecutor.Config{URL: "/w/{workflow_id}", CancelURL: "/runs/{run_id}", Dialect: tt.dialect, Environment: tt.environment}
			if tt.environment != "" {
				cfg.URL, cfg.CancelURL = "/{environment}"+cfg.URL, "/{environment}"+cfg.CancelURL
			}
			e := serve(t, cfg, func(w http.ResponseWriter, r *http.Request) {
				calls = append(calls, r.Method+" "+r.URL.String())
				header = append(header, strings.Join(r.Header.Values("X-Carillon-Environment"), ","))
				text, _ := io.ReadAll(r.Body)
				var body map[string]any
				_ = json.Unmarshal(text, &body) // a cancel has none
				bodies = append(bodies, body)
				w.WriteHeader(http.StatusAccepted)
				_, _ = io.WriteString(w, `{"runId":"r"}`)
			})
			if _, err := e.Run(t.Context(), exampleCall()); err != nil {
				t.Fatal(err)
			}
			_ = e.Cancel(t.Context(), schedule.CancelRequest{Key: exampleCall().Key, RunID: "r"}) // 202 is no confirmation
			prefix := ""
			if tt.environment != "" {
				prefix = "/" + tt.environment
			}
			if len(calls) != 2 || calls[0] != "POST "+prefix+"/w/w:1" || calls[1] != "DELETE "+prefix+"/runs/r" {
				t.Fatalf("called %q", calls)
			}
			if header[0] != tt.header || header[1] != tt.header {
				t.Errorf("the headers are %q, want %q", header, tt.header)
			}
			if body, found := bodies[0]["environment"]; found != (tt.body != "") || found && body != tt.body {
				t.Errorf("the body is %v, want environment %q", bodies[0], tt.body)
			}
		})
	}
}
