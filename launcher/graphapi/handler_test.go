package graphapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/graphapi"
)

// told is a launcher that answers as told.
type told struct {
	outcome schedule.Outcome
	err     error
	got     []launcher.GraphRun
	begun   chan struct{} // nil: it tells nobody
	waits   chan struct{} // nil: it does not
}

func (l *told) RunGraph(ctx context.Context, run launcher.GraphRun) (schedule.StartReply, error) {
	l.got = append(l.got, run)
	if l.waits != nil {
		close(l.begun)
		<-l.waits
	}
	return schedule.StartReply{Outcome: l.outcome}, errors.Join(l.err, ctx.Err())
}

func serve(t *testing.T, o graphapi.Options) *httptest.Server {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	mux := http.NewServeMux()
	mux.Handle(graphapi.Path, graphapi.New(o))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

const token = "a token that is long enough"

// request is what a well-behaved caller sends, until it is changed.
func request(t *testing.T, base string, change func(*http.Request)) *http.Request {
	t.Helper()
	body := `{"executionGrantId":"g-1","input":{"n":1}}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/api/internal/graphs/langgraph:poet/runs", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Idempotency-Key", "s-1:2026-03-08T14:00:00Z")
	r.Header.Set("Content-Type", "application/json")
	if change != nil {
		change(r)
	}
	return r
}

func body(text string) func(*http.Request) {
	return func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	}
}

func header(name string, values ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header[http.CanonicalHeaderKey(name)] = values }
}

func do(t *testing.T, r *http.Request) (status int, header http.Header, answer string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, strings.TrimSpace(string(text))
}

func TestARequestReachesTheLauncherAsItWasSent(t *testing.T) {
	grant := launcher.GraphRun{Key: "s-1:2026-03-08T14:00:00Z", WorkflowID: "langgraph:poet", ExecutionGrantID: "g-1"}
	with := func(change func(*launcher.GraphRun)) launcher.GraphRun {
		run := grant
		change(&run)
		return run
	}
	for _, tt := range []struct {
		name   string
		change func(*http.Request)
		want   launcher.GraphRun
	}{
		{name: "the documents' request", want: with(func(g *launcher.GraphRun) { g.Input = json.RawMessage(`{"n":1}`) })},
		{name: "no input", change: body(`{"executionGrantId":"g-1"}`), want: grant},
		{name: "the owner of the grant", change: body(`{"executionGrantId":"g-1","userId":"u"}`), want: with(func(g *launcher.GraphRun) { g.UserID = "u" })},
		{
			name: "a version, and an input with awkward numbers", change: body(`{"executionGrantId":"g-1","version":3,"input":{"b":1e400,"a":9007199254740993}}`),
			want: with(func(g *launcher.GraphRun) {
				g.Version, g.Input = 3, json.RawMessage(`{"b":1e400,"a":9007199254740993}`)
			}),
		},
		{
			name: "the longest key, of any text", change: header("Idempotency-Key", strings.Repeat("ö ", 85)+"!"),
			want: with(func(g *launcher.GraphRun) { g.Key, g.Input = strings.Repeat("ö ", 85)+"!", json.RawMessage(`{"n":1}`) }),
		},
		{
			name: "a scheme in lower case and a type with a charset",
			change: func(r *http.Request) {
				r.Header.Set("Authorization", "bearer "+token)
				r.Header.Set("Content-Type", "application/json; charset=utf-8")
			},
			want: with(func(g *launcher.GraphRun) { g.Input = json.RawMessage(`{"n":1}`) }),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := &told{outcome: schedule.Outcome{Status: schedule.StatusSuccess, RunID: "r", TraceID: "t"}}
			status, _, answer := do(t, request(t, serve(t, graphapi.Options{Launcher: l, Token: token}).URL, tt.change))
			if status != 200 || answer != `{"ok":true,"runId":"r","traceId":"t"}` {
				t.Errorf("%d %s", status, answer)
			}
			if diff := cmp.Diff([]launcher.GraphRun{tt.want}, l.got); diff != "" {
				t.Errorf("the launcher was given (-want +got):\n%s", diff)
			}
		})
	}
}

func TestARequestThatIsNotUnderstoodIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*http.Request)
		status int
		code   string
		says   string
	}{
		{name: "no token", change: header("Authorization"), status: 401, code: "unauthenticated"},
		{name: "another token", change: header("Authorization", "Bearer "+token+"!"), status: 401, code: "unauthenticated"},
		{name: "the token of another scheme", change: header("Authorization", "Basic "+token), status: 401, code: "unauthenticated"},
		{name: "another method", change: func(r *http.Request) { r.Method = http.MethodGet }, status: 405, code: "method_not_allowed"},
		{name: "no key", change: header("Idempotency-Key"), status: 400, code: "invalid_request", says: "Idempotency-Key"},
		{name: "an empty key", change: header("Idempotency-Key", ""), status: 400, code: "invalid_request", says: "Idempotency-Key"},
		{name: "two keys", change: header("Idempotency-Key", "a", "b"), status: 400, code: "invalid_request", says: "once"},
		{name: "a key that is too long", change: header("Idempotency-Key", strings.Repeat("k", 257)), status: 400, code: "invalid_request", says: "256"},
		{name: "a workflow that is none", change: func(r *http.Request) { r.URL.Path = "/api/internal/graphs/a b/runs" }, status: 400, code: "invalid_request", says: "workflow_id"},
		{name: "a form", change: header("Content-Type", "text/plain"), status: 415, code: "invalid_request", says: "application/json"},
		{name: "no JSON", change: body("grant"), status: 400, code: "invalid_request", says: "body"},
		{name: "a list", change: body("[]"), status: 400, code: "invalid_request", says: "object"},
		{name: "null", change: body("null"), status: 400, code: "invalid_request", says: "object"},
		{name: "nothing", change: body(""), status: 400, code: "invalid_request", says: "body"},
		{name: "a member twice", change: body(`{"input":1,"input":2}`), status: 400, code: "invalid_request", says: "input"},
		{name: "a member that nobody knows", change: body(`{"inputs":1}`), status: 400, code: "invalid_request", says: "inputs"},
		{name: "a grant that is no text", change: body(`{"executionGrantId":7}`), status: 400, code: "invalid_request", says: "executionGrantId"},
		{name: "a grant that is no id", change: body(`{"executionGrantId":"a b"}`), status: 400, code: "invalid_request", says: "executionGrantId"},
		{name: "an owner that is no id", change: body(`{"userId":"a\u200bb"}`), status: 400, code: "invalid_request", says: "userId"},
		{name: "a version below one", change: body(`{"version":0}`), status: 400, code: "invalid_request", says: "version"},
		{name: "a version that is no number", change: body(`{"version":"3"}`), status: 400, code: "invalid_request", says: "version"},
		{name: "too much input", change: body(`{"input":"` + strings.Repeat("x", schedule.MaxInputBytes) + `"}`), status: 400, code: "invalid_request", says: "65536"},
		{name: "too much of everything", change: body(`{"input":"` + strings.Repeat("x", schedule.MaxInputBytes+5000) + `"}`), status: 413, code: "request_too_large"},
		{name: "too deep an input", change: body(`{"input":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`), status: 400, code: "invalid_request"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := &told{}
			status, _, answer := do(t, request(t, serve(t, graphapi.Options{Launcher: l, Token: token}).URL, tt.change))
			var said struct {
				OK                 *bool
				ErrorCode, Message string
			}
			if err := json.Unmarshal([]byte(answer), &said); err != nil {
				t.Fatalf("%d %s: %v", status, answer, err)
			}
			if status != tt.status || said.OK == nil || *said.OK || said.ErrorCode != tt.code || !strings.Contains(said.Message, tt.says) {
				t.Errorf("%d %s, want %d %s with %q", status, answer, tt.status, tt.code, tt.says)
			}
			if len(l.got) != 0 {
				t.Errorf("the launcher was called with %+v", l.got)
			}
		})
	}
}

func TestOutcomesBecomeTheDocumentsAnswers(t *testing.T) {
	for _, tt := range []struct {
		name    string
		outcome schedule.Outcome
		err     error
		status  int
		answer  string
		again   bool
	}{
		{name: "done without feedback", outcome: schedule.Outcome{Status: schedule.StatusSuccess, Reason: schedule.ReasonAccepted}, status: 200, answer: `{"ok":true,"runId":"","traceId":null}`},
		{name: "goes on", outcome: schedule.Outcome{Status: schedule.StatusEnqueued, RunID: "r", TraceID: "t"}, status: 202, answer: `{"ok":true,"runId":"r","traceId":"t"}`},
		{
			name:    "failed",
			outcome: schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, RunID: "r", TraceID: "t", ErrorCode: "rate_limit", ErrorMessage: "later"},
			status:  200, answer: `{"ok":false,"runId":"r","traceId":"t","errorCode":"rate_limit","message":"later"}`,
		},
		{
			name: "failed without a code", outcome: schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed},
			status: 200, answer: `{"ok":false,"runId":"","traceId":null,"errorCode":"workflow_failed"}`,
		},
		{
			name: "refused by the executor", outcome: schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonLaunchRefused, ErrorCode: "http_402"},
			status: 200, answer: `{"ok":false,"runId":"","traceId":null,"errorCode":"http_402"}`,
		},
		{
			name: "no such workflow", outcome: schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowNotFound, ErrorCode: "workflow_not_found"},
			status: 404, answer: `{"ok":false,"runId":"","traceId":null,"errorCode":"workflow_not_found"}`,
		},
		{
			name: "no grant", outcome: schedule.Outcome{Status: schedule.StatusSkipped, Reason: schedule.ReasonGrantDenied, ErrorCode: "grant_denied"},
			status: 403, answer: `{"ok":false,"runId":"","traceId":null,"errorCode":"grant_denied"}`,
		},
		{
			name: "another request", outcome: schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonKeyConflict, ErrorCode: "key_conflict"},
			status: 422, answer: `{"ok":false,"runId":"","traceId":null,"errorCode":"key_conflict"}`,
		},
		{name: "busy", err: launcher.ErrBusy, status: 409, answer: `"errorCode":"in_progress"`, again: true},
		{name: "unknown", err: fmt.Errorf("%w: secret", launcher.ErrOutcomeUnknown), status: 503, answer: `"errorCode":"outcome_unknown"`, again: true},
		{name: "withheld", err: launcher.ErrWithheld, status: 503, answer: `"errorCode":"outcome_unknown"`, again: true},
		{name: "the executor is away", err: launcher.ErrNotSent, status: 503, answer: `"errorCode":"unavailable"`, again: true},
		{name: "the database is away", err: errors.New("dial secret"), status: 503, answer: `"errorCode":"unavailable"`, again: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := &told{outcome: tt.outcome, err: tt.err}
			status, header, answer := do(t, request(t, serve(t, graphapi.Options{Launcher: l, Token: token}).URL, nil))
			if status != tt.status || !strings.Contains(answer, tt.answer) || strings.Contains(answer, "secret") || (header.Get("Retry-After") != "") != tt.again {
				t.Errorf("%d %s (Retry-After %q), want %d %s", status, answer, header.Get("Retry-After"), tt.status, tt.answer)
			}
		})
	}
}

func TestWithoutATokenTheDeploymentDecides(t *testing.T) {
	for _, tt := range []struct {
		name   string
		open   bool
		header []string
		status int
	}{
		{name: "open lets anybody in", open: true, status: 200},
		{name: "open does not look at a token either", open: true, header: []string{"Bearer x"}, status: 200},
		{name: "closed lets nobody in", status: 401},
		{name: "not with an empty token either", header: []string{"Bearer "}, status: 401},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := &told{outcome: schedule.Outcome{Status: schedule.StatusSuccess}}
			server := serve(t, graphapi.Options{Launcher: l, Open: tt.open})
			if status, _, answer := do(t, request(t, server.URL, header("Authorization", tt.header...))); status != tt.status {
				t.Errorf("%d %s, want %d", status, answer, tt.status)
			}
		})
	}
}

func TestMoreCallsThanMayBeOpenAreToldToComeAgain(t *testing.T) {
	l := &told{outcome: schedule.Outcome{Status: schedule.StatusSuccess}, begun: make(chan struct{}), waits: make(chan struct{})}
	server := serve(t, graphapi.Options{Launcher: l, Token: token, MaxOpen: 1})
	var first sync.WaitGroup
	first.Go(func() {
		if status, _, answer := do(t, request(t, server.URL, nil)); status != 200 {
			t.Errorf("the first was answered %d %s", status, answer)
		}
	})
	<-l.begun
	if status, header, answer := do(t, request(t, server.URL, nil)); status != 503 || header.Get("Retry-After") == "" || !strings.Contains(answer, "unavailable") {
		t.Errorf("the second was answered %d %s", status, answer)
	}
	close(l.waits)
	first.Wait()
}
