package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// Whatever a client sends, it is the client's mistake or none: never a 5xx
// (501 says that there is no such call), never an answer of unbounded length.

func FuzzRESTBody(f *testing.F) {
	r := newRig(f)
	for _, c := range append(refusedDefinitions, refusedOthers...) {
		if len(c.body) < 4<<10 {
			f.Add(c.rest, c.body)
		}
	}
	f.Add("POST /schedules/upsert", documents)
	f.Add("POST /v1/schedules/s1:pause", `{"note":"x","until":"2030-01-01T00:00:00Z"}`)
	f.Add("POST /v1/schedules/s1:trigger", `{"input":[1]}`)
	f.Add("POST /v1/schedules:preview", `{"cron_expr":"*/7 * * * * *","page_size":3}`)
	f.Add("POST /v1/workflows/w:deploy", `{"version":1,"user_id":"u","dag":{"triggers":[{"type":"schedule_based"}]}}`)
	f.Fuzz(func(t *testing.T, call, body string) {
		method, path, _ := strings.Cut(call, " ")
		if method == "" {
			method, path = http.MethodPost, "/schedules/upsert"
		}
		try(t, r, method, path, body)
	})
}

func FuzzRESTPathAndQuery(f *testing.F) {
	r := newRig(f)
	r.must("POST", "/schedules/upsert", documents)
	for _, seed := range []string{
		"/v1/schedules/%ff", "/v1/schedules/%00", "/v1/schedules/..%2f..", "/v1/schedules/a:b:pause", "/v1/schedules?page_token=%ff",
		"/v1/schedules?page_token=c3Mx&page_size=1&label=a=b", "/v1/runs?status=FAILED&status=%ff&from=2026-01-01T00:00:00Z",
		"/v1/runs?from=x", "/v1/schedules/s1/events?page_token=ZTE", "/v1/runs?from.seconds=5", "/v1/schedules?state=", "/v1/schedules?page_size=-1",
		"/v1/schedules?state[0]=paused", "/v1/workflows/w/versions/1", "/v1/workflows/w/versions?page_token=dzE", "//", "/v1/schedules/s1?x=%zz",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		try(t, r, http.MethodGet, path, "")
	})
}

func try(t *testing.T, r *rig, method, path, body string) {
	t.Helper()
	u, err := url.ParseRequestURI(path)
	if err != nil || u.Host != "" || u.Path == "/v1/runs:watch" {
		return // no HTTP server would have read it; or it does not end
	}
	req := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/", strings.NewReader(body))
	req.Method, req.URL = method, u
	w := httptest.NewRecorder()
	r.gateway.ServeHTTP(w, req)
	if w.Code >= http.StatusInternalServerError && w.Code != http.StatusNotImplemented {
		t.Errorf("%s %q %q: %d %s", method, path, body, w.Code, w.Body)
	}
	if w.Code >= http.StatusBadRequest && w.Body.Len() > 32<<10 {
		t.Errorf("%s %q: an error of %d bytes", method, path, w.Body.Len())
	}
}
