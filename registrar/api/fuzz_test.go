package api_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// No client input may cause a 5xx (except 501, no such call) or an answer of unbounded length.

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

// FuzzUpsert: an accepted definition can be read, and sending the same back changes nothing.
func FuzzUpsert(f *testing.F) {
	r := newRig(f)
	for _, c := range append(refusedDefinitions, refusedOthers...) {
		if len(c.body) < 4<<10 {
			f.Add(c.body)
		}
	}
	for _, changes := range [][]string{
		{"interval_ms", "60000", "cron_expr", "-"},
		{"once_at", `"2099-01-01T00:00:00+01:00"`, "cron_expr", "-"},
		{"timezone", `"Asia/Kathmandu"`, "dst", `"literal"`, "jitter_ms", "3600000"},
		{"input", `{"b": [1e400, -0, 12345678901234567890], "a": "\u00e9"}`},
		{"labels", `{"team": "a \"b\""}`, "paused", "true"},
		{"overlap_policy", `"queue"`, "max_queued", "1", "overlap_key", `"k"`, "priority", "-1000"},
		{"catchup_policy", `"spread"`, "catchup_window_ms", "0", "run_timeout_ms", "1000"},
		{"start_at", `"2026-01-01T00:00:00Z"`, "end_at", `"2099-01-01T00:00:00Z"`},
	} {
		f.Add(upsert(changes...))
	}
	f.Add(documents)
	f.Fuzz(func(t *testing.T, body string) {
		code, answer := try(t, r, http.MethodPost, "/v1/schedules", body)
		if code != http.StatusOK {
			return
		}
		read := "/v1/schedules/" + member(t, answer, "schedule_id")
		_, before := try(t, r, http.MethodGet, read, "")
		stored := member(t, before, "schedule")
		again := definitionOf(t, stored)
		if code, answer := try(t, r, http.MethodPost, "/v1/schedules", again); code != http.StatusOK {
			t.Fatalf("%q was taken, but what was read of it is refused: %s\n%d %s", body, again, code, answer)
		}
		if _, after := try(t, r, http.MethodGet, read, ""); member(t, member(t, after, "schedule"), "revision") != member(t, stored, "revision") {
			t.Errorf("%q: what was read, sent back, is a change:\n%s\n%s", body, before, after)
		}
		try(t, r, http.MethodDelete, read, "") // so that the next may be another owner's
	})
}

// definitionOf is the upsert of a schedule that was read.
func definitionOf(t *testing.T, read string) string {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(read), &members); err != nil {
		t.Fatal(err)
	}
	fields := (&carillonv1.UpsertScheduleRequest{}).ProtoReflect().Descriptor().Fields()
	var kept []string
	for name, value := range members {
		unset := string(value) == "null" || string(value) == `""` || name == "interval_ms" && string(value) == "0"
		if fields.ByName(protoreflect.Name(name)) != nil && (!unset || name == "input") {
			kept = append(kept, fmt.Sprintf("%q:%s", name, value)) // json.Marshal would give input another layout
		}
	}
	return "{" + strings.Join(kept, ",") + "}"
}

// lists are the calls with pages, and the content of their tokens.
var lists = []struct {
	path, rows, row string
	place           *regexp.Regexp
}{
	{"/v1/schedules", "schedules", "schedule_id", regexp.MustCompile(`^s[A-Za-z0-9._:-]{1,128}$`)},
	{"/v1/grants", "grants", "grant_id", regexp.MustCompile(`^g[A-Za-z0-9._:-]{1,128}/[A-Za-z0-9._:-]{1,128}$`)},
	{"/v1/schedules/s1/runs", "runs", "idempotency_key", regexp.MustCompile(`^r(0|[1-9][0-9]*)\.[0-9a-f]{64}$`)},
	{"/v1/schedules/s1/events", "events", "event_id", regexp.MustCompile(`^e[1-9][0-9]*$`)},
	{"/v1/schedules/s1/revisions", "revisions", "revision", regexp.MustCompile(`^v[1-9][0-9]*$`)},
	{"/v1/workflows/w/versions", "workflow_versions", "version", regexp.MustCompile(`^w[1-9][0-9]*\.([A-Za-z0-9._:-]{1,128})?$`)},
	{"/v1/workflows/w/shares", "shares", "user_id", regexp.MustCompile(`^h(\*|[A-Za-z0-9._:-]{1,128})$`)},
}

// FuzzPageToken: a list takes no token but one that it might have given, and
// shows for it the rest of the list from some place on.
func FuzzPageToken(f *testing.F) {
	r := newRig(f)
	for i := range 3 {
		r.must("POST", "/v1/schedules", upsert("schedule_id", fmt.Sprintf(`"s%d"`, i)))
		r.must("POST", "/v1/schedules", upsert("schedule_id", `"s1"`, "priority", fmt.Sprint(i+1)))
		r.must("POST", "/v1/schedules/s1:trigger", fmt.Sprintf(`{"request_id":"r%d","overlap_policy":"allow"}`, i))
		r.must("PUT", fmt.Sprintf("/v1/workflows/w/versions/%d", i+1), `{"dag":{}}`)
		r.must("POST", "/v1/workflows/w:share", fmt.Sprintf(`{"user_id":"o%d"}`, i))
		r.must("POST", "/v1/grants", fmt.Sprintf(`{"grant_id":"g%d","user_id":"u","billing_account_id":"b","scopes":["graph:execute:w"]}`, i))
	}
	whole := make([][]string, len(lists))
	for i, l := range lists {
		first := r.must("GET", l.path+"?page_size=1", "")
		f.Add(member(f, first, "next_page_token"))
		whole[i] = rowsOf(f, r.must("GET", l.path, ""), l.rows, l.row)
		if len(whole[i]) < 3 {
			f.Fatalf("%s has %d rows, want 3 or more", l.path, len(whole[i]))
		}
	}
	for _, place := range []string{"s", "g\x00", "g\xff", "s1", "r5.", "r+5." + strings.Repeat("0", 64), "w01.", "w3", "w3.\xff", "h*", "h", "e9223372036854775808", "v-1", "p1", ""} {
		f.Add(base64.RawURLEncoding.EncodeToString([]byte(place)))
	}
	f.Fuzz(func(t *testing.T, token string) {
		place, _ := base64.RawURLEncoding.Strict().DecodeString(token)
		for i, l := range lists {
			code, answer := try(t, r, http.MethodGet, l.path+"?page_token="+url.QueryEscape(token), "")
			if code != http.StatusOK || token == "" {
				continue
			}
			if !l.place.Match(place) {
				t.Errorf("%s takes the token %q, made of %q", l.path, token, place)
			}
			rest := rowsOf(t, answer, l.rows, l.row)
			if all := whole[i]; len(rest) > len(all) || !slices.Equal(rest, all[len(all)-len(rest):]) {
				t.Errorf("%s behind %q: %v is not the rest of %v", l.path, place, rest, all)
			}
		}
	})
}

func rowsOf(t testing.TB, answer, rows, row string) []string {
	t.Helper()
	var all map[string]json.RawMessage
	var list []map[string]json.RawMessage
	if err := json.Unmarshal([]byte(answer), &all); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(all[rows], &list); err != nil {
		t.Fatalf("%s of %s: %v", rows, answer, err)
	}
	out := []string{}
	for _, members := range list {
		out = append(out, string(members[row]))
	}
	return out
}

func try(t *testing.T, r *rig, method, path, body string) (code int, answer string) {
	t.Helper()
	u, err := url.ParseRequestURI(path)
	if err != nil || u.Host != "" || u.Path == "/v1/runs:watch" {
		return 0, "" // no HTTP server would have read it; or it does not end
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
	return w.Code, w.Body.String()
}
