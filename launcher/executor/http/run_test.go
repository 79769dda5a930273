package httpexecutor_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/test/services/reserve"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/executor"
	httpexecutor "github.com/carillon/carillon/launcher/executor/http"
)

var runAt = time.Date(2026, 3, 8, 14, 0, 0, 0, time.UTC)

// exampleCall is the call of a slot; every member is set.
func exampleCall() launcher.Call {
	return launcher.Call{
		StartRequest: schedule.StartRequest{
			Key: schedule.SlotKey("s-1", runAt), ScheduleID: "s-1", WorkflowID: "w:1", Version: 3, UserID: "u",
			ScheduledFor: runAt, FireAt: runAt, Trigger: schedule.TriggerSchedule, Attempt: 1, MaxAttempts: 3, QueueID: "q", GroupID: "g", Epoch: 7,
			ExecutionGrantID: "g-1", Input: json.RawMessage(`{"b":1e400,"a":"<&>","n":9007199254740993}`), RunTimeout: time.Hour,
		},
		DAG:       json.RawMessage(`{"steps":[]}`),
		ReportURL: "http://c/v1/runs/k:report", ReportToken: "rt",
	}
}

// serve starts an executor's side and a client of it.
func serve(t *testing.T, cfg httpexecutor.Config, h http.HandlerFunc) *httpexecutor.Executor {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	cfg.URL = server.URL + cfg.URL
	if cfg.CancelURL != "" {
		cfg.CancelURL = server.URL + cfg.CancelURL
	}
	return newExecutor(t, cfg)
}

func newExecutor(t *testing.T, cfg httpexecutor.Config) *httpexecutor.Executor {
	t.Helper()
	e, err := httpexecutor.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func TestRunSendsTheContract(t *testing.T) {
	var method, path string
	var header http.Header
	var body []byte
	e := serve(t, httpexecutor.Config{URL: "/w/{workflow_id}/run?v={version}", Token: "secret"}, func(w http.ResponseWriter, r *http.Request) {
		method, path, header = r.Method, r.URL.String(), r.Header
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
	})
	call := exampleCall()
	if _, err := e.Run(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	if method != http.MethodPost || path != "/w/w:1/run?v=3" {
		t.Errorf("%s %s, want POST /w/w:1/run?v=3", method, path)
	}
	key := call.Key.String()
	for name, want := range map[string]string{
		"Idempotency-Key": key, "Authorization": "Bearer secret", "Content-Type": "application/json",
	} {
		if got := header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := header.Get("traceparent"); !regexp.MustCompile("^00-" + key[:32] + "-[0-9a-f]{16}-01$").MatchString(got) {
		t.Errorf("traceparent: %q", got)
	}
	want := `{"idempotency_key":"` + key + `","schedule_id":"s-1","workflow_id":"w:1","version":3,"user_id":"u",` +
		`"scheduled_for":"2026-03-08T14:00:00Z","trigger":"schedule","attempt":1,"max_attempts":3,"epoch":7,"execution_grant_id":"g-1","queue_id":"q","group_id":"g",` +
		`"input":{"b":1e400,"a":"<&>","n":9007199254740993},"dag":{"steps":[]},` +
		`"report_url":"http://c/v1/runs/k:report","report_token":"rt"}`
	if diff := cmp.Diff(want, strings.TrimSpace(string(body))); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

func TestRunLeavesOutWhatThereIsNot(t *testing.T) {
	var body map[string]json.RawMessage
	var header http.Header
	e := serve(t, httpexecutor.Config{}, func(_ http.ResponseWriter, r *http.Request) {
		header = r.Header
		_ = json.NewDecoder(r.Body).Decode(&body)
	})
	call := exampleCall()
	call.Input, call.DAG, call.ReportURL, call.ReportToken, call.MaxAttempts, call.QueueID, call.GroupID = nil, nil, "", "", 0, "", ""
	_, _ = e.Run(t.Context(), call)
	for _, member := range []string{"dag", "report_url", "report_token", "max_attempts", "queue_id", "group_id"} {
		if _, ok := body[member]; ok {
			t.Errorf("%s is sent: %s", member, body[member])
		}
	}
	if string(body["input"]) != "null" {
		t.Errorf("input = %s, want null", body["input"])
	}
	if _, ok := header["Authorization"]; ok {
		t.Errorf("Authorization is sent without a token: %q", header["Authorization"])
	}
}

func TestRunUnderstandsAnswers(t *testing.T) {
	trace := executor.TraceID(exampleCall().Key)
	tests := []struct {
		name    string
		status  int
		body    string
		want    schedule.Outcome
		refusal *launcher.Refusal
		unknown string // part of the message
	}{
		{
			name: "finished well", status: 200, body: `{"run_id":"r","status":"SUCCESS"}`,
			want: schedule.Outcome{Status: schedule.StatusSuccess, RunID: "r", TraceID: trace},
		},
		{
			name: "finished badly", status: 200, body: `{"run_id":"r","status":"FAILED","error_code":"oom","error_message":"too\nbig"}`,
			want: schedule.Outcome{
				Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed,
				RunID: "r", TraceID: trace, ErrorCode: "oom", ErrorMessage: "too big",
			},
		},
		{
			name: "snoozed", status: 200, body: `{"run_id":"r","status":"SNOOZE","delay_ms":2592000000}`,
			want: schedule.Outcome{Status: schedule.StatusSkipped, Reason: schedule.ReasonSnoozed, RunID: "r", TraceID: trace, SnoozeFor: 30 * 24 * time.Hour},
		},
		{
			name: "snoozed without a delay", status: 200, body: `{"status":"SNOOZE"}`,
			want: schedule.Outcome{Status: schedule.StatusSkipped, Reason: schedule.ReasonSnoozed, TraceID: trace},
		},
		{
			name: "finished with a result", status: 200,
			body: `{"status":"SUCCESS","exit_code":0,"result":{"n": 1.50},"artifacts":[{"name":"a","url":"s3://b/c","bytes":7}]}`,
			want: schedule.Outcome{
				Status: schedule.StatusSuccess, TraceID: trace, ExitCode: new(int32(0)),
				Result: &schedule.RunResult{Result: []byte(`{"n": 1.50}`), Artifacts: []schedule.Artifact{{Name: "a", URL: "s3://b/c", Bytes: 7}}},
			},
		},
		{
			name: "finished with an exit code, a result and artifacts that cannot be kept", status: 200,
			body: `{"status":"FAILED","exit_code":"x","result":"` + strings.Repeat("x", 300<<10) + `","artifacts":"a"}`,
			want: schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, TraceID: trace, Result: &schedule.RunResult{
				Problem: `exit_code "\"x\"" is not a whole number of 32 bits: it was not kept; artifacts is not a list of {name, url, bytes, sha256}: no artifact was kept; ` +
					"result has 307202 bytes, more than 65536: it was not kept",
			}},
		},
		{
			name: "finished with a commit", status: 200, body: `{"status":"SUCCESS","state":{"n": 1.50},"publish":[{"topic":"t","event_id":"e","data":null}]}`,
			want: schedule.Outcome{Status: schedule.StatusSuccess, TraceID: trace, Commit: &schedule.Commit{
				State: []byte(`{"n": 1.50}`), Events: []schedule.CommitEvent{{Topic: "t", EventID: "e", Data: []byte("null"), DataHash: sha256.Sum256([]byte("null"))}},
			}},
		},
		{
			name: "finished with a commit that breaks a rule", status: 200, body: `{"run_id":"r","status":"SUCCESS","state":1,"publish":[{"topic":"a b","data":1}]}`,
			want: schedule.Outcome{
				Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, RunID: "r", TraceID: trace, ErrorCode: "commit_invalid", FailureClass: schedule.ClassLogic,
				ErrorMessage: `nothing was committed: invalid: publish[0].topic: "a b" is not a topic; use 1 to 128 of A–Z a–z 0–9 . _ : -`,
			},
		},
		{
			name: "failed with a commit", status: 200, body: `{"status":"FAILED","state":1,"publish":"x"}`,
			want: schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, TraceID: trace},
		},
		{name: "snoozed for too long", status: 200, body: `{"status":"SNOOZE","delay_ms":2592000001}`, unknown: "delay_ms"},
		{name: "snoozed into the past", status: 200, body: `{"status":"SNOOZE","delay_ms":-1}`, unknown: "delay_ms"},
		{name: "snoozed for a word", status: 200, body: `{"status":"SNOOZE","delay_ms":"1h"}`, unknown: "delay_ms"},
		{
			name: "finished well, with a delay_ms of its own", status: 200, body: `{"run_id":"r","status":"SUCCESS","delay_ms":"1h"}`,
			want: schedule.Outcome{Status: schedule.StatusSuccess, RunID: "r", TraceID: trace},
		},
		{
			name: "goes on", status: 202, body: `{"run_id":"r","extra":[1]}`,
			want: schedule.Outcome{Status: schedule.StatusEnqueued, RunID: "r", TraceID: trace},
		},
		{
			name: "goes on, without a word", status: 202, body: " \n",
			want: schedule.Outcome{Status: schedule.StatusEnqueued, TraceID: trace},
		},
		{
			name: "its own trace is kept", status: 202, body: `{"run_id":"r","trace_id":"t"}`,
			want: schedule.Outcome{Status: schedule.StatusEnqueued, RunID: "r", TraceID: "t"},
		},
		{name: "refused with error_message", status: 403, body: `{"error_message":"not you","message":"x"}`, refusal: &launcher.Refusal{Code: "http_403", Message: "not you"}},
		{name: "refused with message", status: 400, body: `{"message":"bad input"}`, refusal: &launcher.Refusal{Code: "http_400", Message: "bad input"}},
		{name: "refused with text", status: 404, body: "no such\n workflow", refusal: &launcher.Refusal{Code: "http_404", Message: "no such workflow"}},
		{name: "refused without a word", status: 422, body: "", refusal: &launcher.Refusal{Code: "http_422", Message: "the executor answered 422 Unprocessable Entity"}},
		{name: "408 is asked again", status: 408, unknown: "answered 408"},
		{name: "409 is asked again", status: 409, unknown: "answered 409"},
		{name: "425 is asked again", status: 425, unknown: "answered 425"},
		{name: "429 is asked again", status: 429, body: "slow down", unknown: "429 Too Many Requests: slow down"},
		{name: "a server's error is asked again", status: 500, body: "boom", unknown: "500 Internal Server Error: boom"},
		{name: "a gateway's error is asked again", status: 503, unknown: "answered 503"},
		{name: "another 2xx says nothing", status: 201, body: `{"run_id":"r","status":"SUCCESS"}`, unknown: "answered 201"},
		{name: "204 says nothing", status: 204, unknown: "answered 204"},
		{name: "200 without a status", status: 200, body: `{"run_id":"r"}`, unknown: `with status ""`},
		{name: "200 with another status", status: 200, body: `{"run_id":"r","status":"DONE"}`, unknown: `with status "DONE"`},
		{name: "200 with a status in lower case", status: 200, body: `{"status":"success"}`, unknown: `with status "success"`},
		{name: "200 with a page", status: 200, body: "<html>", unknown: "something other than the JSON object"},
		{name: "200 with two values", status: 200, body: `{"status":"SUCCESS"}{}`, unknown: "something other than the JSON object"},
		{name: "200 with null", status: 200, body: "null", unknown: "it is null"},
		{name: "200 with nothing", status: 200, body: "", unknown: "something other than the JSON object"},
		{name: "202 with a page", status: 202, body: "<html>", unknown: "something other than the JSON object"},
		{name: "a run_id that no row can hold", status: 202, body: `{"run_id":"a\u0000b"}`, unknown: "cannot be stored"},
		{name: "a run_id that is too long", status: 202, body: `{"run_id":"` + strings.Repeat("r", 129) + `"}`, unknown: "cannot be stored"},
		{name: "more than 2 MiB", status: 200, body: `{"status":"SUCCESS"}` + strings.Repeat(" ", 2<<20), unknown: "more than 2097152 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := serve(t, httpexecutor.Config{}, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			got, err := e.Run(t.Context(), exampleCall())
			var refusal *launcher.Refusal
			switch {
			case tt.unknown != "":
				if err == nil || errors.As(err, &refusal) || errors.Is(err, launcher.ErrNotSent) || !strings.Contains(err.Error(), tt.unknown) {
					t.Errorf("Run() = %+v, %v, want an unknown outcome with %q", got, err, tt.unknown)
				}
			case tt.refusal != nil:
				if !errors.As(err, &refusal) || *refusal != *tt.refusal {
					t.Errorf("Run() = %+v, %v, want %v", got, err, tt.refusal)
				}
			default:
				if err != nil || !cmp.Equal(got, tt.want) {
					t.Errorf("Run() = %+v, %v, want %+v", got, err, tt.want)
				}
			}
		})
	}
}

func TestRedirectsAreNotFollowedAndAreNoRefusal(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the redirect was followed")
	}))
	t.Cleanup(elsewhere.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		e := serve(t, httpexecutor.Config{Token: "secret"}, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+"/?secret=1", status)
		})
		_, err := e.Run(t.Context(), exampleCall())
		var refusal *launcher.Refusal
		if err == nil || errors.As(err, &refusal) || !strings.Contains(err.Error(), "redirects are not followed") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d: %v, want an unknown outcome that says why", status, err)
		}
	}
}

func TestNotSentIsSaidOnlyWhenNothingCanHaveLeft(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	ended, end := context.WithCancel(t.Context())
	end()
	tests := []struct {
		name string
		ctx  context.Context
		url  string
	}{
		{name: "nobody listens", ctx: t.Context(), url: "http://" + reserve.Addr(t)},
		{name: "the TLS handshake fails", ctx: t.Context(), url: strings.Replace(plain.URL, "http:", "https:", 1)},
		{name: "the call is over before it begins", ctx: ended, url: plain.URL},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newExecutor(t, httpexecutor.Config{URL: tt.url, CancelURL: tt.url + "/{run_id}"})
			if _, err := e.Run(tt.ctx, exampleCall()); !errors.Is(err, launcher.ErrNotSent) {
				t.Errorf("Run: %v, want ErrNotSent", err)
			}
			if err := e.Cancel(tt.ctx, schedule.CancelRequest{RunID: "r"}); !errors.Is(err, launcher.ErrNotSent) {
				t.Errorf("Cancel: %v, want ErrNotSent", err)
			}
		})
	}
}

func TestOnceConnectedNoAnswerIsUnknown(t *testing.T) {
	tests := []struct {
		name   string
		says   string
		answer http.HandlerFunc
	}{
		{name: "the connection is closed without an answer", says: "the connection broke before the answer was complete: ", answer: func(w http.ResponseWriter, _ *http.Request) { drop(w) }},
		{name: "the answer does not come in time", says: "no complete answer within 200 milliseconds (EXECUTOR_TIMEOUT_MS)", answer: func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // from then on the server sees that the client goes
			<-r.Context().Done()
		}},
		{name: "the answer breaks off", says: "the connection broke before the answer was complete: read the executor's answer (200): ", answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"status":"SUCCESS"`)
			_ = http.NewResponseController(w).Flush()
			drop(w)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := serve(t, httpexecutor.Config{Timeout: 200 * time.Millisecond}, tt.answer)
			_, err := e.Run(t.Context(), exampleCall())
			var refusal *launcher.Refusal
			if err == nil || errors.Is(err, launcher.ErrNotSent) || errors.As(err, &refusal) || launcher.CallCode(err) != schedule.CodeExecutorTimeout {
				t.Fatalf("Run: %v, want an unknown outcome with the code executor_timeout", err)
			}
			if !strings.HasPrefix(err.Error(), "call the executor: "+tt.says) {
				t.Errorf("Run: %v, want …%s…", err, tt.says)
			}
		})
	}
}

// drop ends the connection under a request.
func drop(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

func TestTheCallsDeadlineHolds(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts by its backlog and never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	e := newExecutor(t, httpexecutor.Config{URL: "http://" + listener.Addr().String(), Timeout: time.Hour})
	call := exampleCall()
	call.Deadline = time.Now().Add(50 * time.Millisecond)
	_, err = e.Run(t.Context(), call)
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, launcher.ErrNotSent) {
		t.Errorf("Run: %v, want a deadline exceeded with unknown outcome", err)
	}
}

func TestAWorkflowCannotClimbOutOfThePath(t *testing.T) {
	e := serve(t, httpexecutor.Config{URL: "/w/{workflow_id}/run"}, func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("called %s", r.URL)
	})
	for _, id := range []string{".", ".."} {
		call := exampleCall()
		call.WorkflowID = id
		_, err := e.Run(t.Context(), call)
		var refusal *launcher.Refusal
		if !errors.As(err, &refusal) || refusal.Code != "workflow_id_unsafe" {
			t.Errorf("Run of workflow %q: %v, want a refusal", id, err)
		}
	}
}

func TestInputThatIsNotJSONIsRefused(t *testing.T) {
	e := serve(t, httpexecutor.Config{}, func(http.ResponseWriter, *http.Request) { t.Error("called") })
	call := exampleCall()
	call.Input = json.RawMessage(`{`)
	_, err := e.Run(t.Context(), call)
	var refusal *launcher.Refusal
	if !errors.As(err, &refusal) || refusal.Code != "request_invalid" {
		t.Errorf("Run: %v, want a refusal", err)
	}
}
