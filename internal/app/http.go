package app

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/carillon/carillon/launcher/graphapi"
)

// The bounds of the HTTP listener.
const (
	readHeaderTimeout = 5 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 16 << 10
	readyTimeout      = 2 * time.Second
)

// check is one thing that must be well for this process to be ready.
type check struct {
	name string
	run  func(ctx context.Context) error
}

// newMux is everything on HTTP_ADDR: REST, the graph run API of a launcher,
// metrics, health.
func newMux(gateway, graphs http.Handler, registry *prometheus.Registry, checks []check) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.Handle("GET /readyz", ready(checks))
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry}))
	if graphs != nil {
		mux.Handle(graphapi.Path, graphs)
	}
	if gateway != nil {
		mux.Handle("/", gateway)
	}
	return mux
}

// ready answers 200 when every check passes and 503 with the ones that do
// not, by name only: the reasons stand in the log.
func ready(checks []check) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		answer := map[string]string{"status": "ready"}
		code := http.StatusOK
		for _, c := range checks {
			answer[c.name] = "ok"
			if err := c.run(ctx); err != nil {
				answer[c.name], answer["status"], code = "failed", "not ready", http.StatusServiceUnavailable
			}
		}
		writeJSON(w, code, answer)
	})
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the client is gone; nothing to do
}

func newHTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
	}
}
