package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/carillon/carillon/internal/app"
	"github.com/carillon/carillon/internal/rawjson"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// returns sends a report with the run's token and gives its answer.
func (f *field) returns(key schedule.Key, req *carillonv1.ReportRunRequest) *carillonv1.ReportRunResponse {
	f.t.Helper()
	req.IdempotencyKey = key.String()
	token := schedule.ReportToken([]byte(reportSecret), key)
	resp := &carillonv1.ReportRunResponse{}
	if !f.rest {
		ctx := metadata.AppendToOutgoingContext(f.t.Context(), "authorization", "Bearer "+token)
		resp, err := carillonv1.NewRunServiceClient(f.conn).ReportRun(ctx, req)
		if err != nil {
			f.t.Fatal(err)
		}
		return resp
	}
	code, answer := f.send(token, http.MethodPost, "/v1/runs/"+key.String()+":report", f.reportBody(req))
	if code != http.StatusOK {
		f.t.Fatalf("%d %s", code, answer)
	}
	if err := rawjson.Unmarshal([]byte(answer), resp); err != nil {
		f.t.Fatal(err)
	}
	return resp
}

// reportBody is a report as the body of its REST call.
func (f *field) reportBody(req *carillonv1.ReportRunRequest) string {
	f.t.Helper()
	body, err := rawjson.Marshal(req)
	if err != nil {
		f.t.Fatal(err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		f.t.Fatal(err)
	}
	delete(members, "idempotency_key")
	if body, err = json.Marshal(members); err != nil {
		f.t.Fatal(err)
	}
	return string(body)
}

// refusedReport sends a report that is refused as invalid, and returns why.
func (f *field) refusedReport(key schedule.Key, req *carillonv1.ReportRunRequest) string {
	f.t.Helper()
	token := schedule.ReportToken([]byte(reportSecret), key)
	if f.rest {
		code, answer := f.send(token, http.MethodPost, "/v1/runs/"+key.String()+":report", f.reportBody(req))
		if code != http.StatusBadRequest {
			f.t.Errorf("%d %s", code, answer)
		}
		return answer
	}
	req.IdempotencyKey = key.String()
	_, err := carillonv1.NewRunServiceClient(f.conn).ReportRun(metadata.AppendToOutgoingContext(f.t.Context(), "authorization", "Bearer "+token), req)
	if status.Code(err) != codes.InvalidArgument {
		f.t.Error(err)
	}
	return fmt.Sprint(status.Convert(err).Details(), err)
}

func TestWhatAReportReturnsIsShownWithItsRunAndNoLaterReportChangesIt(t *testing.T) {
	t.Parallel()
	for _, store := range databases {
		for _, rest := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, REST %v", store.name, rest), func(t *testing.T) {
				t.Parallel()
				f := newAccepting(t, rest, map[string]any{"database_url": store.url(t), "result_retention_days": 3})
				key := f.accepted("nightly")
				artifacts := []*carillonv1.RunArtifact{{Name: "model", Url: "s3://bucket/model", Bytes: 1 << 40, Sha256: strings.Repeat("0a", 32)}, {Name: "log"}}
				early := f.returns(key, &carillonv1.ReportRunRequest{Status: "STARTED", Result: []byte(`1`)})
				if !early.GetMoved() || !strings.Contains(early.GetResultProblem(), "end of a run") || f.run(key).GetResult() != nil {
					t.Errorf("a result of STARTED: %v", early)
				}
				end := f.returns(key, &carillonv1.ReportRunRequest{Status: "SUCCESS", ExitCode: new(int32(0)), Result: []byte(`{"rows": 1.50}`), Artifacts: artifacts})
				if !end.GetMoved() || end.GetResultProblem() != "" {
					t.Errorf("the end: %v", end)
				}
				before := f.run(key)
				if string(before.GetResult()) != `{"rows": 1.50}` && string(before.GetResult()) != `{"rows":1.50}` {
					t.Errorf("result %s", before.GetResult())
				}
				if diff := cmp.Diff(artifacts, before.GetArtifacts(), protocmp.Transform()); diff != "" {
					t.Error(diff)
				}
				if left := time.Until(before.GetResultExpiresAt().AsTime()); before.ExitCode == nil || left > 72*time.Hour || left < 71*time.Hour {
					t.Errorf("exit code %v, kept for %s", before.ExitCode, left)
				}
				for _, late := range []string{"SUCCESS", "FAILED"} {
					again := f.returns(key, &carillonv1.ReportRunRequest{Status: late, ExitCode: new(int32(1)), Result: []byte(`2`), LogUrl: "https://late.example"})
					if again.GetMoved() {
						t.Errorf("a later %s: %v", late, again)
					}
				}
				if diff := cmp.Diff(before, f.run(key), protocmp.Transform()); diff != "" {
					t.Errorf("after later reports: %s", diff)
				}
			})
		}
	}
}

func TestAResultThatIsTooLargeIsRefusedAndTheEndIsKeptAndSaysSo(t *testing.T) {
	t.Parallel()
	for _, rest := range []bool{false, true} {
		t.Run(fmt.Sprintf("REST %v", rest), func(t *testing.T) {
			t.Parallel()
			f := newAccepting(t, rest, nil)
			large := []byte(`"` + strings.Repeat("x", 70<<10) + `"`)
			many := make([]*carillonv1.RunArtifact, 21)
			for i := range many {
				many[i] = &carillonv1.RunArtifact{Name: "a"}
			}
			for name, tc := range map[string]struct {
				req  *carillonv1.ReportRunRequest
				want string
			}{
				"large": {&carillonv1.ReportRunRequest{Status: "FAILED", Result: large}, "result has 71682 bytes, more than 65536: it was not kept"},
				"many":  {&carillonv1.ReportRunRequest{Status: "SUCCESS", Artifacts: many}, "artifacts has 21 entries, more than 20: no artifact was kept"},
				"deep":  {&carillonv1.ReportRunRequest{Status: "SUCCESS", Result: []byte(strings.Repeat("[", 33) + strings.Repeat("]", 33))}, "result is nested deeper than 32 levels: it was not kept"},
			} {
				key := f.accepted(name)
				end := f.returns(key, tc.req)
				got := f.run(key)
				if !end.GetMoved() || end.GetResultProblem() != tc.want || got.GetStatus() != tc.req.GetStatus() || got.GetResult() != nil || len(got.GetArtifacts()) > 0 || got.GetResultProblem() != tc.want {
					t.Errorf("%s: %v, then %v", name, end, got)
				}
				why := &carillonv1.ExplainRunResponse{}
				if err := f.ask("ada", "RunService/ExplainRun", "GET /v1/runs/"+key.String()+":explain", &carillonv1.ExplainRunRequest{IdempotencyKey: key.String()}, why); err != nil {
					t.Fatal(err)
				}
				if said := strings.Join(why.GetSentences(), "\n"); !strings.Contains(said, tc.want) {
					t.Errorf("%s is explained with\n%s", name, said)
				}
			}
		})
	}
}

func TestTheProgressOfARunIsShownUntilItsEnd(t *testing.T) {
	t.Parallel()
	for _, rest := range []bool{false, true} {
		t.Run(fmt.Sprintf("REST %v", rest), func(t *testing.T) {
			t.Parallel()
			f := newAccepting(t, rest, nil)
			key := f.accepted("nightly")
			want := &carillonv1.RunProgress{Done: 3, Total: 10, Note: "<b>größer</b>"}
			f.returns(key, &carillonv1.ReportRunRequest{Status: "STARTED", Progress: want})
			f.returns(key, &carillonv1.ReportRunRequest{Status: "STARTED"})
			if diff := cmp.Diff(want, f.run(key).GetProgress(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
			for field, bad := range map[string]*carillonv1.RunProgress{
				"progress.done": {Done: 11, Total: 10}, "progress.note": {Note: strings.Repeat("x", 257)},
			} {
				req := &carillonv1.ReportRunRequest{Status: "STARTED", Progress: bad}
				if answer := f.refusedReport(key, req); !strings.Contains(answer, field) {
					t.Errorf("%v is answered with %s", bad, answer)
				}
			}
			if diff := cmp.Diff(want, f.run(key).GetProgress(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
			why := &carillonv1.ExplainRunResponse{}
			if err := f.ask("ada", "RunService/ExplainRun", "GET /v1/runs/"+key.String()+":explain", &carillonv1.ExplainRunRequest{IdempotencyKey: key.String()}, why); err != nil {
				t.Fatal(err)
			}
			if said := strings.Join(why.GetSentences(), "\n"); !strings.Contains(said, "it has done 3 of 10, <b>größer</b>") {
				t.Errorf("it is explained with\n%s", said)
			}
			if !rest {
				f.browse("user", "/ui/runs/"+key.String(), nil).holds(t, "the run's page", "<dt>Progress</dt><dd>3 of 10, &lt;b&gt;größer&lt;/b&gt;</dd>")
			}
			f.returns(key, &carillonv1.ReportRunRequest{Status: "SUCCESS", Progress: &carillonv1.RunProgress{Done: 11, Total: 10}})
			if got := f.run(key); got.GetStatus() != "SUCCESS" || got.GetProgress() != nil {
				t.Errorf("after its end: %v", got)
			}
		})
	}
}

func TestTheConsoleShowsWhatARunReturned(t *testing.T) {
	t.Parallel()
	f := newAccepting(t, false, nil)
	key := f.accepted("nightly")
	f.returns(key, &carillonv1.ReportRunRequest{Status: "SUCCESS", ExitCode: new(int32(0)), Result: []byte(`{"rows":"<b>"}`), Artifacts: []*carillonv1.RunArtifact{
		{Name: "model", Url: "https://files.example/model", Bytes: 17}, {Name: "other", Url: "javascript:alert(1)"},
	}})
	f.browse("user", "/ui/runs/"+key.String(), nil).holds(t, "the run's page", "Result</h2>", "{\n  &#34;rows&#34;: &#34;&lt;b&gt;&#34;\n}", `href="https://files.example/model"`, "17 bytes", "<dt>Exit code</dt><dd>0</dd>", "not: href=\"javascript")
	bad := f.accepted("bad")
	f.returns(bad, &carillonv1.ReportRunRequest{Status: "SUCCESS", Artifacts: []*carillonv1.RunArtifact{{}}})
	f.browse("user", "/ui/runs/"+bad.String(), nil).holds(t, "the run's page", "artifacts[0].name is required: no artifact was kept")
}

func TestResultsArePrunedOnceTheyExpire(t *testing.T) {
	t.Parallel()
	f := newAccepting(t, false, nil)
	key := f.accepted("old")
	f.returns(key, &carillonv1.ReportRunRequest{Status: "SUCCESS", Result: []byte(`1`)})
	f.PruneLogs(t.Context())
	if got := f.run(key); string(got.GetResult()) != "1" {
		t.Errorf("it is gone at once: %v", got)
	}
	if n, err := f.Store().PruneRunResults(t.Context(), time.Now().Add(8*24*time.Hour), 10); n != 1 || err != nil {
		t.Errorf("after eight days %d, %v", n, err)
	}
	if got := f.run(key); got.GetResult() != nil || got.GetResultExpiresAt() != nil || got.GetStatus() != "SUCCESS" {
		t.Errorf("after its retention: %v", got)
	}
}

func TestResultsAreNotKeptLongerThanTheirRuns(t *testing.T) {
	t.Parallel()
	cfg := app.Config{RetentionDays: 30, ResultRetentionDays: 31}
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "RESULT_RETENTION_DAYS: 31 is more than RETENTION_DAYS (30)") {
		t.Error(err)
	}
}
