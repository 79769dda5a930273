package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
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
	sent := proto.CloneOf(req)
	sent.IdempotencyKey = ""
	body, err := rawjson.Marshal(sent)
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
	code, answer := f.send(token, http.MethodPost, "/v1/runs/"+key.String()+":report", string(body))
	if code != http.StatusOK {
		f.t.Fatalf("%d %s", code, answer)
	}
	if err := rawjson.Unmarshal([]byte(answer), resp); err != nil {
		f.t.Fatal(err)
	}
	return resp
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
