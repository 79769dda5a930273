package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// newAccepting is a field with an executor that accepts every run.
func newAccepting(t *testing.T, rest bool, settings map[string]any) *field {
	if settings == nil {
		settings = make(map[string]any)
	}
	settings["owner_writes_per_s"] = 0
	return &field{guarded: newGuarded(t, settings), rest: rest, dags: make(map[string]string)}
}

// accepted starts a run of ada and waits until the executor has accepted it.
func (f *field) accepted(id string) schedule.Key {
	f.t.Helper()
	f.register("ada", "", id, "w")
	started := &carillonv1.TriggerScheduleResponse{}
	if err := f.ask("ada", "ScheduleService/TriggerSchedule", "POST /v1/schedules/"+id+":trigger", &carillonv1.TriggerScheduleRequest{ScheduleId: id}, started); err != nil {
		f.t.Fatal(err)
	}
	key, err := schedule.ParseKey(started.GetRun().GetIdempotencyKey())
	if err != nil {
		f.t.Fatal(err)
	}
	eventually(f.t, "the run is accepted", func() bool { return f.run(key).GetStatus() == "ENQUEUED" })
	return key
}

func (f *field) run(key schedule.Key) *carillonv1.Run {
	f.t.Helper()
	resp := &carillonv1.GetRunResponse{}
	if err := f.ask("ada", "RunService/GetRun", "GET /v1/runs/"+key.String(), &carillonv1.GetRunRequest{IdempotencyKey: key.String()}, resp); err != nil {
		f.t.Fatal(err)
	}
	return resp.GetRun()
}

// reports sends a report with the run's token.
func (f *field) reports(key schedule.Key, req *carillonv1.ReportRunRequest) error {
	req.IdempotencyKey = key.String()
	token := schedule.ReportToken([]byte(reportSecret), key)
	if !f.rest {
		ctx := metadata.AppendToOutgoingContext(f.t.Context(), "authorization", "Bearer "+token)
		_, err := carillonv1.NewRunServiceClient(f.conn).ReportRun(ctx, req)
		return err
	}
	members := map[string]any{"status": req.GetStatus(), "output": req.GetOutput(), "log_url": req.GetLogUrl()}
	if req.ExitCode != nil {
		members["exit_code"] = req.GetExitCode()
	}
	body, err := json.Marshal(members)
	if err != nil {
		f.t.Fatal(err)
	}
	if code, answer := f.send(token, http.MethodPost, "/v1/runs/"+key.String()+":report", string(body)); code != http.StatusOK {
		return fmt.Errorf("%d %s", code, answer)
	}
	return nil
}

func (f *field) logs(who string, key schedule.Key, after uint32) (*carillonv1.GetRunLogsResponse, error) {
	resp := &carillonv1.GetRunLogsResponse{}
	err := f.ask(who, "RunService/GetRunLogs", fmt.Sprintf("GET /v1/runs/%s/logs?after=%d", key, after), &carillonv1.GetRunLogsRequest{IdempotencyKey: key.String(), After: after}, resp)
	return resp, err
}

func TestTheOutputOfAReportIsMaskedAndVisibleToReadersOfTheRun(t *testing.T) {
	t.Parallel()
	for _, store := range databases {
		for _, rest := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, REST %v", store.name, rest), func(t *testing.T) {
				t.Parallel()
				f := newAccepting(t, rest, map[string]any{
					"database_url": store.url(t), "log_mask": "acme-[0-9]+", "metrics_token": "metrics-token-of-this-process",
					"log_url_template": "https://logs.example/search?run={key}", "trace_url_template": "https://traces.example/{trace_id}",
				})
				key := f.accepted("nightly")
				if got := f.run(key); got.GetLogUrl() != "https://logs.example/search?run="+key.String() || got.GetTraceUrl() != "https://traces.example/"+key.TraceID() || got.ExitCode != nil {
					t.Errorf("before a report: %v", got)
				}
				said := "\x1b[31mred\x1b[0m\r\n<b>acme-17</b> metrics-token-of-this-process password=hunter2!\x00\n"
				if err := f.reports(key, &carillonv1.ReportRunRequest{Status: "STARTED", Output: said, LogUrl: "javascript:alert(1)"}); err != nil {
					t.Fatal(err)
				}
				first, err := f.logs("ada", key, 0)
				if err != nil || first.GetComplete() || len(first.GetParts()) != 1 {
					t.Fatalf("%v, %v", first, err)
				}
				if got, want := first.GetParts()[0].GetText(), "red\n<b>***</b> *** password=***\n"; got != want {
					t.Errorf("kept as %q, want %q", got, want)
				}
				if got := f.run(key); got.GetLogUrl() != "https://logs.example/search?run="+key.String() {
					t.Errorf("a URL that browsers would run is shown: %q", got.GetLogUrl())
				}
				if err := f.reports(key, &carillonv1.ReportRunRequest{Status: "FAILED", Output: "all of it\n", ExitCode: new(int32(3)), LogUrl: "https://ci.example/17"}); err != nil {
					t.Fatal(err)
				}
				last, err := f.logs("ada", key, first.GetNextAfter())
				if err != nil || !last.GetComplete() || len(last.GetParts()) != 1 || last.GetParts()[0].GetText() != "all of it\n" || last.GetStatus() != "FAILED" {
					t.Errorf("behind the first: %v, %v", last, err)
				}
				if got := f.run(key); got.GetExitCode() != 3 || got.GetLogUrl() != "https://ci.example/17" {
					t.Errorf("the run has %v", got)
				}
				if _, err := f.logs("bob", key, 0); status.Code(err) != codes.NotFound {
					t.Errorf("another owner reads it: %v", err)
				}
			})
		}
	}
}

func TestReadingTheLastLinesOfAnOutput(t *testing.T) {
	t.Parallel()
	for _, store := range databases {
		for _, rest := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, REST %v", store.name, rest), func(t *testing.T) {
				t.Parallel()
				f := newAccepting(t, rest, map[string]any{"database_url": store.url(t)})
				key := f.accepted("nightly")
				if err := f.reports(key, &carillonv1.ReportRunRequest{Status: "STARTED", Output: "one\ntwo\nthree\n"}); err != nil {
					t.Fatal(err)
				}
				ask := func(lines, after uint32) (*carillonv1.GetRunLogsResponse, error) {
					resp := &carillonv1.GetRunLogsResponse{}
					return resp, f.ask("ada", "RunService/GetRunLogs", fmt.Sprintf("GET /v1/runs/%s/logs?tail_lines=%d&after=%d", key, lines, after),
						&carillonv1.GetRunLogsRequest{IdempotencyKey: key.String(), TailLines: &lines, After: after}, resp)
				}
				for lines, want := range map[uint32]string{0: "", 1: "three\n", 2: "two\nthree\n", 10_000: "one\ntwo\nthree\n"} {
					got, err := ask(lines, 0)
					if err != nil {
						t.Fatal(err)
					}
					var text string
					for _, p := range got.GetParts() {
						text += p.GetText()
					}
					if text != want || got.GetNextAfter() != 1 || got.GetComplete() {
						t.Errorf("the last %d lines: %v, want %q", lines, got, want)
					}
				}
				for _, c := range [][2]uint32{{1, 1}, {10_001, 0}} {
					if _, err := ask(c[0], c[1]); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "tail_lines") {
						t.Errorf("tail_lines %d after %d: %v", c[0], c[1], err)
					}
				}
			})
		}
	}
}

func TestTooLongOutputIsCutAtItsBeginning(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("x", 99) + "\n"
	for _, c := range []struct {
		name string
		rest bool
		size int
	}{
		{"64 KiB over gRPC", false, 64 << 10},
		{"more than is kept, over gRPC", false, 76 << 10},
		{"64 KiB over REST", true, 64 << 10},
		{"much more than is kept, over REST", true, 400 << 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newAccepting(t, c.rest, nil)
			key := f.accepted("long")
			whole := strings.Repeat(line, c.size/len(line)) + "the end\n"
			whole = whole[max(0, len(whole)-c.size):]
			if err := f.reports(key, &carillonv1.ReportRunRequest{Status: "FAILED", Output: whole}); err != nil {
				t.Fatal(err)
			}
			f.rest = false // an answer over REST is read up to 64 KiB here
			got, err := f.logs("ada", key, 0)
			if err != nil || len(got.GetParts()) != 1 {
				t.Fatalf("%v, %v", got, err)
			}
			p := got.GetParts()[0]
			if !strings.HasSuffix(p.GetText(), "\nthe end\n") || len(p.GetText()) > schedule.MaxReportedOutput || int(p.GetSkippedBytes())+len(p.GetText()) != len(whole) {
				t.Errorf("%d bytes are kept and %d skipped of %d", len(p.GetText()), p.GetSkippedBytes(), len(whole))
			}
		})
	}
}

func TestALargeReportNeedsTheRunsTokenBeforeItsBodyIsRead(t *testing.T) {
	t.Parallel()
	f := newAccepting(t, true, nil)
	key, other := f.accepted("mine"), f.accepted("other")
	body := fmt.Sprintf(`{"status":"STARTED","output":%q}`, strings.Repeat("x", 100<<10))
	for name, c := range map[string]struct {
		token string
		want  int
	}{
		"no token":                {"", http.StatusUnauthorized},
		"a token that is made up": {strings.Repeat("a", 64), http.StatusBadRequest},
		"another run's token":     {schedule.ReportToken([]byte(reportSecret), other), http.StatusBadRequest},
		"the run's token":         {schedule.ReportToken([]byte(reportSecret), key), http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			if code, answer := f.send(c.token, http.MethodPost, "/v1/runs/"+key.String()+":report", body); code != c.want {
				t.Errorf("%d %s, want %d", code, answer, c.want)
			}
		})
	}
}

func TestAReportWithBinaryOutputIsAccepted(t *testing.T) {
	t.Parallel()
	f := newAccepting(t, true, nil)
	key := f.accepted("binary")
	body := "{\"status\":\"FAILED\",\"output\":\"a\xff\xfeb\\u0000c\\ud800d\"}"
	if code, answer := f.send(schedule.ReportToken([]byte(reportSecret), key), http.MethodPost, "/v1/runs/"+key.String()+":report", body); code != http.StatusOK {
		t.Fatalf("%d %s", code, answer)
	}
	got, err := f.logs("ada", key, 0)
	if err != nil || len(got.GetParts()) != 1 || got.GetParts()[0].GetText() != "a\uFFFDb\uFFFDc\uFFFDd" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestOutputIsPrunedByLogRetentionDays(t *testing.T) {
	t.Parallel()
	f := newAccepting(t, false, map[string]any{"log_retention_days": 2})
	key := f.accepted("old")
	now := time.Now()
	for i, age := range []time.Duration{49 * time.Hour, 47 * time.Hour} {
		part := schedule.LogPart{Seq: int64(i + 1), Step: "s", WrittenAt: now.Add(-age), Text: age.String()}
		if err := f.Store().AppendRunLog(t.Context(), schedule.RunLogAppend{Key: key, Parts: []schedule.LogPart{part}}); err != nil {
			t.Fatal(err)
		}
	}
	f.PruneLogs(t.Context())
	got, err := f.logs("ada", key, 0)
	if err != nil || len(got.GetParts()) != 1 || got.GetParts()[0].GetText() != "47h0m0s" {
		t.Errorf("%v, %v", got, err)
	}
}
