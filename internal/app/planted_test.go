package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/rawjson"
	"github.com/carillon/carillon/internal/test/services/migrated"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// field is a process with two owners, ada and bob, and a compiler, over one protocol.
type field struct {
	*guarded
	rest     bool
	versions string // the folder of WORKFLOW_STORE=dir; "": versions go through the API

	mu   sync.Mutex
	dags map[string]string // that the executor was sent, by schedule
}

func newField(t *testing.T, rest bool, settings map[string]any) *field {
	f := &field{rest: rest, dags: make(map[string]string)}
	executor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			ScheduleID string          `json:"schedule_id"`
			DAG        json.RawMessage `json:"dag"`
		}
		_ = json.NewDecoder(r.Body).Decode(&call)
		f.mu.Lock()
		f.dags[call.ScheduleID] = string(call.DAG)
		f.mu.Unlock()
		_, _ = w.Write([]byte(`{"run_id":"r","status":"SUCCESS"}`))
	}))
	t.Cleanup(executor.Close)
	settings["executor_url"], settings["owner_writes_per_s"] = executor.URL, 0
	f.versions, _ = settings["workflow_dir"].(string)
	f.guarded = newGuarded(t, settings)
	return f
}

// ask makes a call as who; rest is its REST route, such as "PUT /v1/...", with the request as body.
func (f *field) ask(who, method, rest string, req, resp proto.Message) error {
	f.t.Helper()
	if !f.rest {
		ctx := metadata.AppendToOutgoingContext(f.t.Context(), "authorization", "Bearer "+f.tokens[f.token(who)])
		return f.conn.Invoke(ctx, "/carillon.v1."+method, req, resp)
	}
	verb, path, _ := strings.Cut(rest, " ")
	body := ""
	if verb != http.MethodGet {
		text, err := rawjson.Marshal(req)
		if err != nil {
			f.t.Fatal(err)
		}
		body = string(text)
	}
	code, answer := f.send(f.token(who), verb, path, body)
	if code == http.StatusOK {
		return rawjson.Unmarshal([]byte(answer), resp)
	}
	var refused struct {
		Code    codes.Code `json:"code"`
		Message string     `json:"message"`
	}
	_ = json.Unmarshal([]byte(answer), &refused)
	return status.Error(refused.Code, refused.Message)
}

// token is the name of the token of who: ada is "user".
func (f *field) token(who string) string {
	if who == "ada" {
		return "user"
	}
	return who
}

func (f *field) put(who, user, workflow string, version int32, dag string) error {
	return f.ask(who, "WorkflowService/PutWorkflowVersion", fmt.Sprintf("PUT /v1/workflows/%s/versions/%d", workflow, version),
		&carillonv1.PutWorkflowVersionRequest{WorkflowId: workflow, Version: version, UserId: user, Dag: []byte(dag)}, &carillonv1.PutWorkflowVersionResponse{})
}

// store writes a DAG directly to the place from which runs load it.
func (f *field) store(who, user, workflow, dag string) {
	f.t.Helper()
	if err := f.put(who, "", workflow, 1, dag); err != nil {
		f.t.Fatalf("%s stores %s: %v", who, workflow, err)
	}
	if f.versions == "" {
		return
	}
	path := filepath.Join(f.versions, workflow, "1.json")
	if user != "" {
		path = filepath.Join(f.versions, "owners", user, workflow, "1.json")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(dag), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f *field) register(who, user, id, workflow string) {
	f.t.Helper()
	req := &carillonv1.UpsertScheduleRequest{ScheduleId: id, WorkflowId: workflow, Version: 1, UserId: user}
	if err := f.ask(who, "ScheduleService/UpsertSchedule", "POST /v1/schedules", req, &carillonv1.UpsertScheduleResponse{}); err != nil {
		f.t.Fatalf("%s registers %s: %v", who, id, err)
	}
}

// get returns the DAG that who sees, or "".
func (f *field) get(who, user, workflow string) string {
	f.t.Helper()
	resp := &carillonv1.GetWorkflowVersionResponse{}
	err := f.ask(who, "WorkflowService/GetWorkflowVersion", "GET /v1/workflows/"+workflow+"/versions/1?user_id="+user,
		&carillonv1.GetWorkflowVersionRequest{WorkflowId: workflow, Version: 1, UserId: user}, resp)
	if err != nil && status.Code(err) != codes.NotFound {
		f.t.Errorf("%s reads %s: %v", who, workflow, err)
	}
	return string(resp.GetWorkflowVersion().GetDag())
}

// runs starts a schedule as who, and returns the DAG that the executor received, or the reason why it
// received none.
func (f *field) runs(who, id string) string {
	f.t.Helper()
	f.mu.Lock()
	delete(f.dags, id)
	f.mu.Unlock()
	started := &carillonv1.TriggerScheduleResponse{}
	err := f.ask(who, "ScheduleService/TriggerSchedule", "POST /v1/schedules/"+id+":trigger", &carillonv1.TriggerScheduleRequest{ScheduleId: id}, started)
	if err != nil {
		f.t.Fatalf("%s starts %s: %v", who, id, err)
	}
	var run *carillonv1.Run
	eventually(f.t, "the run of "+id+" ends", func() bool {
		resp := &carillonv1.GetRunResponse{}
		key := started.GetRun().GetIdempotencyKey()
		if err := f.ask(who, "RunService/GetRun", "GET /v1/runs/"+key, &carillonv1.GetRunRequest{IdempotencyKey: key}, resp); err != nil {
			f.t.Fatal(err)
		}
		run = resp.GetRun()
		return run.GetStatus() == "SUCCESS" || run.GetStatus() == "FAILED"
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if run.GetStatus() == "FAILED" {
		if f.dags[id] != "" {
			f.t.Errorf("the run of %s failed and the executor was sent %s", id, f.dags[id])
		}
		return run.GetReason()
	}
	return f.dags[id]
}

func (f *field) want(what, got, want string) {
	f.t.Helper()
	if got != want {
		f.t.Errorf("%s: %s, want %s", what, got, want)
	}
}

func TestCodeOfAnOwnerNeverRunsForAnotherOwner(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"SQLite", "Postgres"} {
		for _, store := range []string{"db", "dir", "blob"} {
			for _, protocol := range []string{"REST", "gRPC"} {
				t.Run(engine+", "+store+", "+protocol, func(t *testing.T) {
					t.Parallel()
					settings := map[string]any{"workflow_store": store}
					switch store {
					case "dir":
						settings["workflow_dir"] = t.TempDir()
					case "blob":
						settings["workflow_blob_url"] = "file://" + t.TempDir()
					}
					if engine == "Postgres" {
						settings["database_url"] = migrated.Postgres(t)
					}
					f := newField(t, protocol == "REST", settings)
					f.plant()
					f.give()
				})
			}
		}
	}
}

const (
	bobs      = `{"by":"bob"}`
	adas      = `{"by":"ada"}`
	compilers = `{"by":"compiler"}`
	notFound  = "workflow_not_found"
)

// plant makes bob try to store code that ada's runs would execute.
func (f *field) plant() {
	f.t.Helper()
	f.store("bob", "bob", "planted", bobs)
	f.register("ada", "", "ada.planted", "planted")
	f.want("ada's run of what bob alone has stored", f.runs("ada", "ada.planted"), notFound)
	f.register("compiler", "ada", "ci.planted", "planted")
	f.want("the run that a compiler registered for ada, of what bob alone has stored", f.runs("compiler", "ci.planted"), notFound)
	f.want("what ada sees of it", f.get("ada", "", "planted"), "")
	f.register("bob", "", "bob.planted", "planted")
	f.want("bob's own run", f.runs("bob", "bob.planted"), bobs)

	for _, user := range []string{"ada", "compiler"} {
		if err := f.put("bob", user, "report", 1, bobs); status.Code(err) != codes.InvalidArgument {
			f.t.Errorf("bob stores a version for %s: %v", user, err)
		}
	}
	f.store("bob", "bob", "report", bobs)
	f.store("compiler", "", "report", compilers) // nobody is in its way
	f.store("ada", "ada", "own", adas)
	f.store("bob", "bob", "own", bobs)
	deploy := &carillonv1.DeployWorkflowRequest{WorkflowId: "own", Version: 1, UserId: "ada", Dag: []byte(bobs)}
	err := f.ask("bob", "WorkflowService/DeployWorkflow", "POST /v1/workflows/own:deploy", deploy, &carillonv1.DeployWorkflowResponse{})
	if status.Code(err) != codes.InvalidArgument {
		f.t.Errorf("bob deploys for ada: %v", err)
	}
	apply := &carillonv1.ApplySchedulesRequest{Set: "s", Workflows: []*carillonv1.DeployWorkflowRequest{deploy}}
	if err := f.ask("bob", "ScheduleService/ApplySchedules", "POST /v1/schedules:apply", apply, &carillonv1.ApplySchedulesResponse{}); status.Code(err) != codes.InvalidArgument {
		f.t.Errorf("bob applies for ada: %v", err)
	}
	f.register("ada", "", "ada.own", "own")
	f.want("ada's run of her own version", f.runs("ada", "ada.own"), adas)
	f.want("what ada sees of it", f.get("ada", "", "own"), adas)
	f.want("what an operator sees of bob's", f.get("operator", "bob", "own"), bobs)
}

// give makes a compiler share its workflow with ada and unshare it.
func (f *field) give() {
	f.t.Helper()
	f.register("ada", "", "ada.report", "report")
	f.want("ada's run of what she was not given", f.runs("ada", "ada.report"), notFound)
	f.want("what ada sees of it", f.get("ada", "", "report"), "")
	f.register("compiler", "ada", "ci.report", "report")
	f.want("ada's run once a compiler has registered it for her", f.runs("ada", "ada.report"), compilers)
	f.want("what ada sees of it", f.get("ada", "", "report"), compilers)
	f.want("what bob sees under the same name", f.get("bob", "", "report"), bobs)
	share := &carillonv1.UnshareWorkflowRequest{WorkflowId: "report", UserId: "ada"}
	if err := f.ask("compiler", "WorkflowService/UnshareWorkflow", "POST /v1/workflows/report:unshare", share, &carillonv1.UnshareWorkflowResponse{}); err != nil {
		f.t.Fatal(err)
	}
	f.want("what ada sees when it was taken back", f.get("ada", "", "report"), "")
	eventually(f.t, "no run of ada's loads it any more", func() bool { return f.runs("ada", "ada.report") == notFound })
	if err := f.ask("bob", "WorkflowService/ShareWorkflow", "POST /v1/workflows/report:share",
		&carillonv1.ShareWorkflowRequest{WorkflowId: "report", UserId: "bob"}, &carillonv1.ShareWorkflowResponse{}); status.Code(err) != codes.PermissionDenied {
		f.t.Errorf("bob shares a workflow with himself: %v", err)
	}
}
