package app

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/launcher/graphapi"
)

const readyTimeout = 2 * time.Second

// check is a condition for readiness.
type check struct {
	name string
	run  func(ctx context.Context) error
	open bool // the answer contains the error; otherwise only the log does
}

// newMux serves HTTP_ADDR: REST, the console, the graph run API of a launcher, metrics and health. All
// other paths need authentication.
func (a *App) newMux(gateway http.Handler, checks []check) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.Handle("GET /readyz", ready(checks, a.log, a.seesDetail))
	metrics := promhttp.HandlerFor(a.registry, promhttp.HandlerOpts{Registry: a.registry})
	mux.Handle("GET /metrics", a.gate.Only(metrics, a.cfg.MetricsToken.Reveal(), auth.Operator, auth.Viewer))
	if graphs := a.graphs(); graphs != nil {
		mux.Handle(graphapi.Path, graphs)
	}
	a.addConsole(mux)
	mux.Handle("/", a.gate.Authenticate(gateway))
	return mux
}

// seesDetail reports whether the caller may see the failed checks: callers that may see workers, or
// all callers with authentication off.
func (a *App) seesDetail(r *http.Request) bool {
	id, err := a.gate.IdentifyHTTP(r)
	return err == nil && (id.Via == auth.ViaOpen || id.Has(auth.Operator) || id.Has(auth.Viewer))
}

// ready answers 200 if every check passes, otherwise 503 with the failed ones. Reasons are logged once
// per change.
func ready(checks []check, log *slog.Logger, detailed func(*http.Request) bool) http.Handler {
	state := readiness{log: log}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		answer := map[string]string{"status": "ready"}
		code := http.StatusOK
		var failed, reasons []string
		for _, c := range checks {
			answer[c.name] = "ok"
			if err := c.run(ctx); err != nil {
				answer[c.name], answer["status"], code = "failed", "not ready", http.StatusServiceUnavailable
				if c.open {
					answer[c.name] = "failed: " + err.Error()
				}
				failed, reasons = append(failed, c.name), append(reasons, c.name+": "+err.Error())
			}
		}
		if r.Context().Err() == nil { // otherwise the checks failed because the client disconnected
			state.is(failed, reasons)
		}
		if !detailed(r) {
			answer = map[string]string{"status": answer["status"]}
		}
		writeJSON(w, code, answer)
	})
}

// readiness holds the last result of the checks.
type readiness struct {
	log *slog.Logger

	mu     sync.Mutex
	known  bool
	failed []string
}

func (s *readiness) is(failed, reasons []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known && slices.Equal(s.failed, failed) {
		return
	}
	s.known, s.failed = true, failed
	switch {
	case slices.Contains(failed, "database"): // databaseWatch logs the outage
		s.log.Debug("not ready", "reasons", reasons)
		return
	case len(failed) > 0:
		s.log.Warn("not ready", "reasons", reasons)
		return
	}
	s.log.Info("ready")
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // an error means that the client has disconnected
}
