package httpexecutor_test

import (
	stdcmp "cmp"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/executor"
	httpexecutor "github.com/carillon/carillon/launcher/executor/http"
)

func TestGraphDialectSendsTheInternalRunAPI(t *testing.T) {
	call := exampleCall()
	again := exampleCall()
	again.Key, again.Trigger = schedule.RetryKey(call.Key, "1"), schedule.TriggerRetry
	byHand := exampleCall()
	byHand.Key, byHand.Trigger = schedule.ManualKey(call.ScheduleID, "1"), schedule.TriggerManual
	longest := byHand
	longest.ScheduleID, longest.Trigger = strings.Repeat("s", schedule.MaxIDLength), schedule.TriggerBackfill
	named := exampleCall()
	named.Key, named.ClientKey = launcher.GraphKey("theirs: 1"), "theirs: 1"
	without := exampleCall()
	without.Input = nil
	tests := []struct {
		name    string
		call    launcher.Call
		wantKey string
		input   string // default: the call's
	}{
		{name: "a slot goes by its pair", call: call, wantKey: "s-1:2026-03-08T14:00:00Z"},
		{name: "no input is an empty one", call: without, wantKey: "s-1:2026-03-08T14:00:00Z", input: "{}"},
		{
			name: "a retry must not be answered with the slot's outcome", call: again,
			wantKey: "s-1:2026-03-08T14:00:00Z:retry:" + again.Key.String(),
		},
		{
			name: "nor a run by hand in the same second", call: byHand,
			wantKey: "s-1:2026-03-08T14:00:00Z:manual:" + byHand.Key.String(),
		},
		{
			name: "the longest fits into 256 bytes", call: longest,
			wantKey: longest.ScheduleID + ":2026-03-08T14:00:00Z:backfill:" + byHand.Key.String(),
		},
		{name: "a caller's own key is passed on", call: named, wantKey: "theirs: 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got string
			e := serve(t, httpexecutor.Config{URL: "/base/", Dialect: httpexecutor.DialectGraph, Token: "secret"}, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got = strings.Join([]string{
					r.Method, r.URL.String(), r.Header.Get("Authorization"), r.Header.Get("Idempotency-Key"), r.Header.Get("X-Carillon-Key"),
					r.Header.Get("X-Carillon-Report-Url"), r.Header.Get("X-Carillon-Report-Token"), strings.TrimSpace(string(body)),
				}, "\n")
				_, _ = io.WriteString(w, `{"ok":true,"runId":"r"}`)
			})
			if _, err := e.Run(t.Context(), tt.call); err != nil {
				t.Fatal(err)
			}
			want := strings.Join([]string{
				"POST", "/base/api/internal/graphs/w:1/runs", "Bearer secret", tt.wantKey, tt.call.Key.String(),
				tt.call.ReportURL, tt.call.ReportToken,
				`{"executionGrantId":"g-1","input":` + stdcmp.Or(tt.input, string(call.Input)) + `}`,
			}, "\n")
			if len(tt.wantKey) > 256 {
				t.Errorf("the key has %d bytes, more than that API takes", len(tt.wantKey))
			}
			if got != want {
				t.Errorf("request:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func TestGraphDialectUnderstandsAnswers(t *testing.T) {
	trace := executor.TraceID(exampleCall().Key)
	tests := []struct {
		name    string
		status  int
		body    string
		want    schedule.Outcome
		refused *launcher.Refusal
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
		{
			name: "not ok, with a sentence for a code", status: 200, body: `{"ok":false,"errorCode":"No credit: top up!"}`,
			want: schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, TraceID: trace, ErrorCode: "No_credit:_top_up"},
		},
		{name: "null", status: 200, body: `null`, unknown: true},
		{name: "ok as a text", status: 200, body: `{"ok":"true"}`, unknown: true},
		{
			name: "refused with its code", status: 403, body: `{"errorCode":"grant_revoked","message":"no more"}`,
			refused: &launcher.Refusal{Code: "grant_revoked", Message: "no more"},
		},
		{name: "refused without one", status: 401, body: "who are you?", refused: &launcher.Refusal{Code: "http_401", Message: "who are you?"}},
		{name: "refused for want of credit", status: 402, body: `{"message":"empty"}`, refused: &launcher.Refusal{Code: "http_402", Message: "empty"}},
		{
			name: "the key is another request's", status: 422, body: `{"message":"payload mismatch"}`,
			refused: &launcher.Refusal{Code: "key_conflict", Message: "payload mismatch", Reason: schedule.ReasonKeyConflict},
		},
		{name: "being worked on", status: 409, unknown: true},
		{name: "too early", status: 425, unknown: true},
		{name: "slow down", status: 429, unknown: true},
		{name: "broken", status: 500, body: `{"ok":false,"errorCode":"internal"}`, unknown: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := serve(t, httpexecutor.Config{Dialect: httpexecutor.DialectGraph}, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			got, err := e.Run(t.Context(), exampleCall())
			var refusal *launcher.Refusal
			errors.As(err, &refusal)
			if !cmp.Equal(refusal, tt.refused) || tt.unknown != (err != nil && refusal == nil) || got != tt.want {
				t.Errorf("Run() = %+v, %+v; want %+v, refused %+v, unknown %v", got, err, tt.want, tt.refused, tt.unknown)
			}
		})
	}
}
