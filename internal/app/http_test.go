package app

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestEachChangeOfReadinessIsLoggedOnceWithItsReasons(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	var problem error
	h := ready([]check{
		{name: "process", run: func(context.Context) error { return nil }},
		{name: "database", run: func(context.Context) error { return problem }},
	}, slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})), func(*http.Request) bool { return true })
	probe := func(ctx context.Context, times, want int) {
		t.Helper()
		for range times {
			answer := httptest.NewRecorder()
			h.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil))
			if answer.Code != want || strings.Contains(answer.Body.String(), "refused") {
				t.Errorf("%d %s, want %d without reasons", answer.Code, answer.Body, want)
			}
		}
	}
	probe(t.Context(), 3, http.StatusOK)
	problem = errors.New("connection refused")
	left, leave := context.WithCancel(t.Context())
	leave()
	probe(left, 1, http.StatusServiceUnavailable)
	if text := out.String(); strings.Contains(text, "not ready") {
		t.Errorf("a probe whose client left says something: %s", text)
	}
	probe(t.Context(), 3, http.StatusServiceUnavailable)
	problem = nil
	probe(t.Context(), 3, http.StatusOK)
	text := out.String()
	if strings.Count(text, "\n") != 3 || strings.Count(text, "msg=ready") != 2 || !strings.Contains(text, "database: connection refused") {
		t.Errorf("want ready, not ready with the reason, ready:\n%s", text)
	}
}
