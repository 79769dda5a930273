package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/carillon/carillon/internal/app"
	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/auth/tokenfile"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/test/services/migrated"
)

// guarded is a process with authentication, a token for each role, and an executor that accepts every
// run.
type guarded struct {
	*app.App
	t      *testing.T
	conn   *grpc.ClientConn
	tokens map[string]string // by caller: the name of a role, or bob, another user
	cfg    app.Config
	stop   func() // stops the process cleanly, as the end of the test does

	mu  sync.Mutex
	log bytes.Buffer
}

func (g *guarded) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.log.Write(p)
}

func (g *guarded) logged() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.log.String()
}

const reportSecret = "known-to-these-cases-only"

func newGuarded(t *testing.T, settings map[string]any) *guarded {
	t.Helper()
	g := &guarded{t: t, tokens: make(map[string]string)}
	executor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"run_id":"r"}`)
	}))
	t.Cleanup(executor.Close)
	dir := t.TempDir()
	all := map[string]any{
		"http_addr": "127.0.0.1:0", "grpc_addr": "127.0.0.1:0", "data_dir": filepath.Join(dir, "data"), "workflow_store": "none", "executor_url": executor.URL,
		"auth_tokens_file": g.writeTokens(filepath.Join(dir, "tokens.yaml")), "report_secret": reportSecret, "log_level": "debug",
	}
	for name, value := range settings {
		all[name] = value
	}
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	app.Flags(fs, nil)
	cfg, err := app.Load(fs, all)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.DatabaseURL == "" {
		migrated.SQLite(t, filepath.Join(cfg.DataDir, "carillon.db"))
	}
	if g.App, err = app.New(t.Context(), cfg, app.Options{Logger: app.NewLogger(g, cfg), Migrate: true, Reflection: true}); err != nil {
		t.Fatal(err)
	}
	g.cfg = cfg
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	if g.conn, err = grpc.NewClient(g.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	g.stop = sync.OnceFunc(func() {
		_ = g.conn.Close()
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(g.stop)
	return g
}

func (g *guarded) writeTokens(path string) string {
	lines := []string{"tokens:"}
	add := func(who, owner string, role auth.Role) {
		made := tokenfile.Entry{Subject: "subject-" + who, Owner: owner, Roles: []auth.Role{role}}
		if who == "user" {
			made.Accounts = []string{"acme"}
		}
		token, entry, err := tokenfile.New(made)
		if err != nil {
			g.t.Fatal(err)
		}
		g.tokens[who] = token
		lines = append(lines, entry.Line())
	}
	for _, role := range auth.Roles {
		owner := ""
		if role == auth.User {
			owner = "ada"
		}
		add(string(role), owner, role)
	}
	add("bob", "bob", auth.User)
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		g.t.Fatal(err)
	}
	return path
}

// send makes a REST call as who; "" shows nothing.
func (g *guarded) send(who, method, path, body string, headers ...string) (code int, answer string) {
	g.t.Helper()
	req, err := http.NewRequestWithContext(g.t.Context(), method, "http://"+g.HTTPAddr()+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	if who != "" {
		req.Header.Add("Authorization", "Bearer "+g.shown(who))
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	ctx, cancel := context.WithTimeout(g.t.Context(), 5*time.Second)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = resp.Body.Close() })()
	text := make([]byte, 80<<10)
	n, err := io.ReadFull(resp.Body, text)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && ctx.Err() == nil {
		g.t.Fatal(err)
	}
	return resp.StatusCode, string(text[:n])
}

// shown is the token of who; an unknown name is used as the token.
func (g *guarded) shown(who string) string {
	if token, known := g.tokens[who]; known {
		return token
	}
	return who
}

// invoke makes a gRPC call with an empty request and returns its code.
func (g *guarded) invoke(who string, m protoreflect.MethodDescriptor) codes.Code {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), 30*time.Second)
	defer cancel()
	if who != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+g.shown(who))
	}
	method := fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name())
	if !m.IsStreamingServer() && !m.IsStreamingClient() {
		return status.Code(g.conn.Invoke(ctx, method, dynamicpb.NewMessage(m.Input()), dynamicpb.NewMessage(m.Output())))
	}
	ctx, end := context.WithTimeout(ctx, time.Second) // admitted streams do not end; a busy machine may refuse late
	defer end()
	stream, err := g.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err == nil {
		if err = stream.SendMsg(dynamicpb.NewMessage(m.Input())); err == nil || errors.Is(err, io.EOF) {
			_ = stream.CloseSend()
			err = stream.RecvMsg(dynamicpb.NewMessage(m.Output()))
		}
	}
	if errors.Is(err, io.EOF) {
		return codes.OK
	}
	return status.Code(err)
}

// may is the oracle of the rules, independent of the product's table: c compiler, u user, w worker,
// l launcher, e executor, o operator, v viewer.
var may = map[string]string{
	"ScheduleService/UpsertSchedule": "cuo", "ScheduleService/PatchSchedule": "cuo", "ScheduleService/ApplySchedules": "cuo", "ScheduleService/GetSchedule": "cuwov", "ScheduleService/ListSchedules": "cuwov", "ScheduleService/GroupFailures": "cuwov",
	"ScheduleService/PauseSchedule": "cuo", "ScheduleService/ResumeSchedule": "cuo", "ScheduleService/SetPaused": "cuo", "ScheduleService/DeleteSchedule": "cuo",
	"ScheduleService/TriggerSchedule": "cuo", "ScheduleService/PreviewSchedule": "cuwov", "ScheduleService/ListScheduleEvents": "cuwov", "ScheduleService/ExplainSlot": "cuwov", "ScheduleService/ForecastLaunches": "cuwov", "ScheduleService/GetOverview": "cuwov", "ScheduleService/ListRevisions": "cuwov",
	"ScheduleService/BackfillSchedule": "cuo", "ScheduleService/GetBackfill": "cuwov", "ScheduleService/ListBackfills": "cuwov", "ScheduleService/PauseBackfill": "cuo", "ScheduleService/ResumeBackfill": "cuo", "ScheduleService/CancelBackfill": "cuo",
	"ScheduleService/SimulateSchedules":  "cuwov",
	"WorkflowService/PutWorkflowVersion": "cuo", "WorkflowService/GetWorkflowVersion": "cuwov", "WorkflowService/ListWorkflowVersions": "cuwov", "WorkflowService/DeployWorkflow": "cuo",
	"WorkflowService/ShareWorkflow": "co", "WorkflowService/UnshareWorkflow": "co", "WorkflowService/ListWorkflowShares": "cov",
	"GroupService/CreateGroup": "cuo", "GroupService/AddToGroup": "cuo", "GroupService/SealGroup": "cuo", "GroupService/GetGroup": "cuwov", "GroupService/ListGroups": "cuwov", "GroupService/CancelGroup": "cuo", "GroupService/RetryGroup": "cuo",
	"OverlapGroupService/ListOverlapGroups": "cuwov", "OverlapGroupService/GetOverlapGroup": "cuwov", "OverlapGroupService/RunOverlapGroup": "cuo",
	"EventService/GetHandlerState": "cuwov", "EventService/SetHandlerState": "cuo",
	"EventService/PublishEvents": "cuop", "EventService/GetEvent": "cuwov", "EventService/ExplainEvent": "cuwov", "EventService/ListEvents": "cuwov", "EventService/ListInbox": "cuwov", "EventService/ListTopics": "cuwov", "EventService/GetTopic": "cuwov", "EventService/AuditTopic": "cuwov",
	"LimitService/UpsertLimit": "cuo", "LimitService/GetLimit": "cuwov", "LimitService/ListLimits": "cuwov", "LimitService/DeleteLimit": "cuo", "LimitService/SetLimitKey": "cuo",
	"QueueService/UpsertQueue": "cuo", "QueueService/GetQueue": "cuwov", "QueueService/ListQueues": "cuwov", "QueueService/DeleteQueue": "cuo", "QueueService/PauseQueue": "cuo", "QueueService/ResumeQueue": "cuo", "QueueService/CloseQueue": "cuo", "QueueService/OpenQueue": "cuo", "QueueService/ListQueueEvents": "cuwov", "QueueService/EnqueueRun": "cuo", "QueueService/EnqueueRuns": "cuo", "QueueService/ListWaiting": "cuwov", "QueueService/SimulateQueue": "cuwov",
	"QueueService/ReserveSlot": "cuo", "QueueService/GetReservation": "cuwov", "QueueService/ListReservations": "cuwov", "QueueService/ExtendReservation": "cuo", "QueueService/ReleaseReservation": "cuo",

	"RunService/GetRun": "cuwov", "RunService/GetRunLogs": "cuwov", "RunService/ListRuns": "cuwov", "RunService/WatchRuns": "cuwov", "RunService/ExportRuns": "cuwov", "RunService/CancelRun": "cuo", "RunService/CancelRuns": "cuo", "RunService/RetryRun": "cuo", "RunService/RedriveRuns": "cuo", "RunService/RedeliverWebhooks": "cuo", "RunService/UpdateRun": "cuo", "RunService/MoveRun": "cuo", "RunService/ExplainRun": "cuwov", "RunService/ReportRun": "le",
	"WorkerService/ListWorkers": "ov", "WorkerService/ListProcesses": "ov", "WorkerService/ListLeaderTerms": "ov", "WorkerService/Resign": "o",
	"RunLauncher/Start": "w", "RunLauncher/StartBatch": "w", "RunLauncher/Cancel": "w", "RunLauncher/FetchRuns": "e",
	"AuditService/ListAudit":  "o",
	"AlertService/ListAlerts": "cuwov", "AlertService/GetAlert": "cuwov", "AlertService/AcknowledgeAlert": "cuo",
	"AlertService/ListAlertDeliveries": "ov", "AlertService/RedeliverAlert": "o", "AlertService/TestAlerts": "o",
	"GrantService/CreateGrant": "cuo", "GrantService/GetGrant": "cuov", "GrantService/ListGrants": "cuov", "GrantService/RevokeGrant": "uo",
}

// eachCall visits every method that the product serves.
func eachCall(visit func(service string, m protoreflect.MethodDescriptor)) {
	protoregistry.GlobalFiles.RangeFilesByPackage("carillon.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			s := file.Services().Get(i)
			for j := range s.Methods().Len() {
				if s.Name() != "Executor" { // users serve it
					visit(string(s.Name()), s.Methods().Get(j))
				}
			}
		}
		return true
	})
}

func (g *guarded) callers() []string {
	out := []string{"", "carillon_" + strings.Repeat("A", 52), "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZGEifQ.", strings.Repeat("a", 64)}
	for _, role := range auth.Roles {
		out = append(out, string(role))
	}
	return out
}

func TestEveryRoleMayMakeItsCallsAndNoOther(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, nil)
	cells := 0
	eachCall(func(service string, m protoreflect.MethodDescriptor) {
		name := service + "/" + string(m.Name())
		letters, known := may[name]
		if !known {
			t.Errorf("%s is not in the table of this test: who may make it?", name)
			return
		}
		for _, who := range g.callers() {
			cells++
			isRole := slices.Contains(auth.Roles, auth.Role(who))
			want := "unauthenticated"
			switch {
			case isRole && strings.Contains(letters, who[:1]):
				want = "admitted"
			case isRole:
				want = "denied"
			case len(who) == 64 && m.Name() == "ReportRun":
				want = "admitted" // then refused because the request names no run
			}
			got := "admitted"
			switch code := g.invoke(who, m); code {
			case codes.Unauthenticated:
				got = "unauthenticated"
			case codes.PermissionDenied:
				got = "denied"
			case codes.Internal, codes.Unknown:
				t.Errorf("%s as %.20q: %s", name, who, code)
			}
			if got != want {
				t.Errorf("%s as %.20q: %s, want %s", name, who, got, want)
			}
		}
	})
	if cells < 300 {
		t.Errorf("only %d cells", cells)
	}
}

var inPath = regexp.MustCompile(`\{(\w+)\}`)

// bindings are the REST routes of a call.
func bindings(m protoreflect.MethodDescriptor) []*annotations.HttpRule {
	rule, _ := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
	if rule == nil {
		return nil
	}
	return append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...)
}

func verb(rule *annotations.HttpRule) (method, path string) {
	switch p := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		method, path = http.MethodGet, p.Get
	case *annotations.HttpRule_Put:
		method, path = http.MethodPut, p.Put
	case *annotations.HttpRule_Post:
		method, path = http.MethodPost, p.Post
	case *annotations.HttpRule_Patch:
		method, path = http.MethodPatch, p.Patch
	case *annotations.HttpRule_Delete:
		method, path = http.MethodDelete, p.Delete
	}
	return method, inPath.ReplaceAllStringFunc(path, func(name string) string {
		switch name {
		case "{idempotency_key}":
			return strings.Repeat("0", 64)
		case "{version}":
			return "1"
		}
		return "none"
	})
}

func TestRESTAdmitsTheSameCallersAsGRPC(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, nil)
	cells := 0
	eachCall(func(service string, m protoreflect.MethodDescriptor) {
		name := service + "/" + string(m.Name())
		for _, rule := range bindings(m) {
			method, path := verb(rule)
			body := ""
			if rule.GetBody() != "" {
				body = "{}"
			}
			for _, who := range g.callers() {
				isRole := slices.Contains(auth.Roles, auth.Role(who))
				if m.Name() == "WatchRuns" && isRole && strings.Contains(may[name], who[:1]) {
					continue // the stream does not end; gRPC covers it
				}
				cells++
				code, answer := g.send(who, method, path, body, "X-HTTP-Method-Override", "GET")
				want := code != http.StatusUnauthorized && code != http.StatusForbidden && code < 500
				switch {
				case isRole && strings.Contains(may[name], who[:1]):
				case isRole:
					want = code == http.StatusForbidden
				case len(who) == 64 && m.Name() == "ReportRun":
					want = code == http.StatusBadRequest // then refused because the request is empty
				default:
					want = code == http.StatusUnauthorized
				}
				if !want {
					t.Errorf("%s %s as %.20q: %d %s", method, path, who, code, answer)
				}
			}
		}
	})
	if cells < 250 {
		t.Errorf("only %d cells", cells)
	}
}

func TestPagesOutsideTheAPINeedAuthenticationToo(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, map[string]any{"metrics_token": "scrape-with-this"})
	eventually(t, "ready", func() bool { code, _ := g.send("", http.MethodGet, "/readyz", ""); return code == http.StatusOK })
	for _, c := range []struct {
		who, path string
		want      int
	}{
		{"", "/healthz", 200},
		{"", "/readyz", 200},
		{"", "/metrics", 401},
		{"wrong", "/metrics", 401},
		{"user", "/metrics", 403},
		{"worker", "/metrics", 403},
		{"viewer", "/metrics", 200},
		{"operator", "/metrics", 200},
		{"scrape-with-this", "/metrics", 200},
		{"scrape-with-this", "/v1/schedules", 401},
		{"", "/nothing/of/the/kind", 401},
		{"viewer", "/nothing/of/the/kind", 404},
		{"", "/", 200}, // the console, which shows the sign-in page
		{"", "/v1/../healthz", 200},
	} {
		if code, answer := g.send(c.who, http.MethodGet, c.path, ""); code != c.want {
			t.Errorf("%s as %q: %d %s, want %d", c.path, c.who, code, answer, c.want)
		}
	}
	if _, answer := g.send("", http.MethodGet, "/readyz", ""); strings.Contains(answer, "database") {
		t.Errorf("anybody sees %s", answer)
	}
	if _, answer := g.send("operator", http.MethodGet, "/readyz", ""); !strings.Contains(answer, "database") {
		t.Errorf("an operator sees only %s", answer)
	}
	if code, answer := g.send("", http.MethodPost, "/api/internal/graphs/w/runs", "{}", "Idempotency-Key", "k"); code != 401 {
		t.Errorf("the graph run API lets anybody in: %d %s", code, answer)
	}
	for _, line := range []string{
		`"method":"GET /metrics","code":"Unauthenticated"`, `"method":"GET /metrics","code":"PermissionDenied","took"`,
	} {
		if !strings.Contains(g.logged(), line) {
			t.Errorf("the access log has no line with %s", line)
		}
	}
	eventually(t, "the log counts the five refusals of strangers", func() bool { _, calls := g.callLines(""); return calls == 5 })
	if _, metrics := g.send("operator", http.MethodGet, "/metrics", ""); !strings.Contains(metrics, `carillon_calls_total{code="Unauthenticated",method="other"} 5`) {
		t.Error("what is refused over REST is not counted")
	}
}

func TestAnOwnerSeesAndChangesOnlyItsOwnRows(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, nil)
	must := func(code int, answer string) string {
		t.Helper()
		if code != http.StatusOK {
			t.Fatalf("%d %s", code, answer)
		}
		return answer
	}
	must(g.send("user", "PUT", "/v1/schedules/adas", `{"workflow_id":"w","version":1}`)) // user_id defaults to the caller
	answer := must(g.send("user", "POST", "/v1/schedules/adas:trigger", `{"request_id":"first"}`))
	var triggered struct {
		Run struct {
			Key    string `json:"idempotency_key"`
			UserID string `json:"user_id"`
		} `json:"run"`
	}
	if err := json.Unmarshal([]byte(answer), &triggered); err != nil || triggered.Run.UserID != "ada" {
		t.Fatalf("%s, %v", answer, err)
	}
	run := "/v1/runs/" + triggered.Run.Key
	for _, path := range []string{"GET /v1/schedules/adas", "POST /v1/schedules/adas:pause", "POST /v1/schedules/adas:resume", "POST /v1/schedules/adas:trigger", "DELETE /v1/schedules/adas", "GET /schedules/adas", "GET /v1/schedules/adas/runs", "GET /v1/schedules/adas/events", "GET /v1/schedules/adas:explain?time=2026-03-08T00:00:00Z", "GET /v1/schedules/adas/revisions", "GET " + run, "POST " + run + ":cancel", "POST " + run + ":retry"} {
		method, path, _ := strings.Cut(path, " ")
		body := ""
		if method == "POST" {
			body = "{}"
		}
		code, theirs := g.send("bob", method, path, body)
		never, nobodys := g.send("bob", method, strings.ReplaceAll(strings.ReplaceAll(path, "adas", "none"), triggered.Run.Key, strings.Repeat("0", 64)), body)
		theirs = strings.ReplaceAll(strings.ReplaceAll(theirs, "adas", "none"), triggered.Run.Key, strings.Repeat("0", 64))
		if code != http.StatusNotFound || never != code || theirs != nobodys {
			t.Errorf("%s %s of another: %d %s\nof nobody: %d %s", method, path, code, theirs, never, nobodys)
		}
	}
	for _, list := range []string{"/v1/schedules", "/v1/schedules?user_id=ada", "/v1/runs", "/v1/runs?user_id=ada"} {
		if answer := must(g.send("bob", "GET", list, "")); strings.Contains(answer, "adas") {
			t.Errorf("%s shows another's: %s", list, answer)
		}
		if answer := must(g.send("viewer", "GET", list, "")); !strings.Contains(answer, "adas") {
			t.Errorf("%s shows a viewer only %s", list, answer)
		}
	}
	if code, answer := g.send("bob", "PUT", "/v1/schedules/bobs", `{"workflow_id":"w","version":1,"user_id":"ada"}`); code != http.StatusBadRequest || !strings.Contains(answer, "user_id") {
		t.Errorf("a schedule for another: %d %s", code, answer)
	}
	if code, answer := g.send("bob", "PUT", "/v1/schedules/adas", `{"workflow_id":"w","version":1}`); code != http.StatusOK || !strings.Contains(answer, `"bob:adas"`) {
		t.Errorf("an id that another owner has: %d %s", code, answer)
	}
	if code, answer := g.send("compiler", "PUT", "/v1/schedules/adas", `{"workflow_id":"w","version":1,"user_id":"bob"}`); code != http.StatusConflict {
		t.Errorf("a compiler asks for an id that another owner has: %d %s", code, answer)
	}
	must(g.send("compiler", "PUT", "/v1/schedules/adas", `{"workflow_id":"w","version":2,"user_id":"ada"}`))
	g.reports(triggered.Run.Key)
	g.audited()
	log := g.logged()
	if !strings.Contains(log, `"subject":"subject-bob"`) {
		t.Error("the log does not say who called")
	}
	for who, token := range g.tokens {
		if strings.Contains(log, token) {
			t.Errorf("the log holds the token of %s", who)
		}
	}
}

// reports checks who may report a run.
func (g *guarded) reports(hexKey string) {
	g.t.Helper()
	key, err := schedule.ParseKey(hexKey)
	if err != nil {
		g.t.Fatal(err)
	}
	own, other := schedule.ReportToken([]byte(reportSecret), key), schedule.ReportToken([]byte(reportSecret), schedule.ManualKey("x", "y"))
	for _, c := range []struct {
		who  string
		want int
	}{{"", 401}, {other, 401}, {strings.ToUpper(own), 401}, {"user", 403}, {"operator", 403}, {"worker", 403}, {own, 200}, {"executor", 401}, {"launcher", 200}} {
		eventually(g.t, "the run is launched", func() bool {
			return !strings.Contains(second(g.send("operator", "GET", "/v1/runs/"+hexKey, "")), "PLANNED")
		})
		if code, answer := g.send(c.who, "POST", "/v1/runs/"+hexKey+":report", `{"status":"STARTED"}`); code != c.want {
			g.t.Errorf("a report by %.20q: %d %s, want %d", c.who, code, answer, c.want)
		}
	}
	for token, want := range map[string]int{own: http.StatusOK, other: http.StatusUnauthorized, "": http.StatusUnauthorized} {
		if code, answer := g.send("executor", "POST", "/v1/runs/"+hexKey+":report", `{"status":"STARTED"}`, "X-Carillon-Report-Token", token); code != want {
			g.t.Errorf("a report by an executor that shows %.20q besides: %d %s, want %d", token, code, answer, want)
		}
	}
	if code, _ := g.send(own, "GET", "/v1/runs/"+hexKey, ""); code != http.StatusUnauthorized {
		g.t.Errorf("the run's token reads: %d", code)
	}
}

func second(_ int, answer string) string { return answer }

// audited checks the audit entries of the calls above.
func (g *guarded) audited() {
	g.t.Helper()
	code, answer := g.send("operator", "GET", "/v1/audit?page_size=200", "")
	if code != http.StatusOK {
		g.t.Fatalf("%d %s", code, answer)
	}
	var trail struct {
		Entries []struct {
			Subject, Via, Method, Target, Code string
			UserID                             string `json:"user_id"`
			RequestID                          string `json:"request_id"`
			Before                             uint32 `json:"revision_before"`
			After                              uint32 `json:"revision_after"`
		}
	}
	if err := json.Unmarshal([]byte(answer), &trail); err != nil {
		g.t.Fatal(err)
	}
	has := func(want string) {
		for _, e := range trail.Entries {
			line := fmt.Sprintf("%s %s %s %s %s %d-%d %s", e.Subject, e.Via, e.Method, e.Target, e.UserID, e.Before, e.After, e.Code)
			if line == want {
				return
			}
		}
		g.t.Errorf("%q is not in the trail: %s", want, answer)
	}
	has("subject-user token UpsertSchedule adas ada 0-1 OK")
	has("subject-user token TriggerSchedule adas ada 1-1 OK")
	has("subject-compiler token UpsertSchedule adas ada 1-2 OK")
	has("subject-bob token PauseSchedule adas  0-0 NotFound")
	has("subject-bob token UpsertSchedule bob:adas bob 0-1 OK")
	has("subject-compiler token UpsertSchedule adas  0-0 AlreadyExists")
	if strings.Contains(answer, tokenfile.Prefix) || strings.Contains(answer, "ReportRun") {
		g.t.Errorf("the trail holds a token, or what is none of its business: %s", answer)
	}
}
