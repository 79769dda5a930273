package httpexecutor_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	httpexecutor "github.com/carillon/carillon/launcher/executor/http"
)

func TestGraphDialectSendsTheInternalRunAPI(t *testing.T) {
	call := exampleCall()
	again := exampleCall()
	again.Key, again.Trigger = schedule.RetryKey(call.Key, "1"), schedule.TriggerRetry
	tests := []struct {
		name    string
		call    launcher.Call
		wantKey string
	}{
		{name: "a slot goes by its pair", call: call, wantKey: "s-1:2026-03-08T14:00:00Z"},
		{name: "a retry must not be answered with the slot's outcome", call: again, wantKey: again.Key.String()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got string
			e := serve(t, httpexecutor.Config{URL: "/base/", Dialect: httpexecutor.DialectGraph}, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got = strings.Join([]string{
					r.Method, r.URL.String(), r.Header.Get("Idempotency-Key"), r.Header.Get("X-Carillon-Key"), strings.TrimSpace(string(body)),
				}, "\n")
				_, _ = io.WriteString(w, `{"ok":true,"runId":"r"}`)
			})
			if _, err := e.Run(t.Context(), tt.call); err != nil {
				t.Fatal(err)
			}
			want := strings.Join([]string{
				"POST", "/base/api/internal/graphs/w:1/runs", tt.wantKey, tt.call.Key.String(),
				`{"executionGrantId":"g-1","input":` + string(call.Input) + `}`,
			}, "\n")
			if got != want {
				t.Errorf("request:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func TestGraphDialectUnderstandsAnswers(t *testing.T) {
	tests := []struct {
		name    string
		status  int
		body    string
		want    schedule.Outcome
		refused bool
		unknown bool
	}{
		{
			name: "ok", status: 200, body: `{"ok":true,"runId":"r","traceId":"t"}`,
			want: schedule.Outcome{Status: schedule.StatusSuccess, RunID: "r", TraceID: "t"},
		},
		{
			name: "not ok", status: 200, body: `{"ok":false,"runId":"r","traceId":"t","errorCode":"credit"}`,
			want: schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, RunID: "r", TraceID: "t", ErrorCode: "credit"},
		},
		{
			name: "accepted", status: 202, body: `{"runId":"r","traceId":"t"}`,
			want: schedule.Outcome{Status: schedule.StatusEnqueued, RunID: "r", TraceID: "t"},
		},
		{name: "no ok at all", status: 200, body: `{"runId":"r"}`, unknown: true},
		{name: "refused", status: 403, body: `{"errorCode":"grant_revoked"}`, refused: true},
		{name: "being worked on", status: 409, unknown: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := serve(t, httpexecutor.Config{Dialect: httpexecutor.DialectGraph}, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			got, err := e.Run(t.Context(), exampleCall())
			var refusal *launcher.Refusal
			if tt.refused != errors.As(err, &refusal) || tt.unknown != (err != nil && refusal == nil) || got != tt.want {
				t.Errorf("Run() = %+v, %v; want %+v, refused %v, unknown %v", got, err, tt.want, tt.refused, tt.unknown)
			}
		})
	}
}
