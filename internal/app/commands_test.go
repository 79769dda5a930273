package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/carillon/carillon/internal/test/services/migrated"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestLocalExecutorRolesAreChecked(t *testing.T) {
	for _, c := range []struct {
		name string
		env  map[string]string
		want string // "": the settings are valid
	}{
		{"authentication and nothing said", map[string]string{"AUTH_TOKENS_FILE": "x"}, "LOCAL_EXECUTOR_ROLES: is required for EXECUTOR=local where authentication is on"},
		{"a registrar alone", map[string]string{"AUTH_TOKENS_FILE": "x", "ROLES": "registrar"}, "LOCAL_EXECUTOR_ROLES: is required"},
		{"a launcher alone", map[string]string{"AUTH_TOKENS_FILE": "x", "ROLES": "launcher"}, "LOCAL_EXECUTOR_ROLES: is required"},
		{"only commas", map[string]string{"AUTH_TOKENS_FILE": "x", "LOCAL_EXECUTOR_ROLES": " , "}, "LOCAL_EXECUTOR_ROLES: is required"},
		{"a role that stores nothing", map[string]string{"LOCAL_EXECUTOR_ROLES": "operator,viewer"}, `LOCAL_EXECUTOR_ROLES: "viewer" is not one of operator, compiler, user`},
		{"a user for another executor", map[string]string{"EXECUTOR": "http", "EXECUTOR_URL": "http://e", "LOCAL_EXECUTOR_USER": "ada"}, "LOCAL_EXECUTOR_USER: is for EXECUTOR=local, and EXECUTOR is http"},
		{"authentication with roles", map[string]string{"AUTH_TOKENS_FILE": "x", "LOCAL_EXECUTOR_ROLES": "operator, compiler"}, ""},
		{"even every owner, in words", map[string]string{"AUTH_TOKENS_FILE": "x", "LOCAL_EXECUTOR_ROLES": "user"}, ""},
		{"no authentication", nil, ""},
		{"another executor", map[string]string{"AUTH_TOKENS_FILE": "x", "EXECUTOR": "http", "EXECUTOR_URL": "http://e"}, ""},
		{"a worker, which stores and runs nothing", map[string]string{"AUTH_TOKENS_FILE": "x", "ROLES": "worker", "LAUNCHER_ADDR": "127.0.0.1:1"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			_, err := load(t)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v; want it to say %q", err, c.want)
			}
		})
	}
}

func TestOnlyTheNamedRolesStoreCommands(t *testing.T) {
	t.Parallel()
	const dag = `{"workflow_id":"w","version":1,"triggers":[],"steps":[{"id":"a","shell":"true"}]}`
	calls := []struct {
		name, method, path, body string
		stores                   bool
		grpc                     string
		message                  func() any
	}{
		{
			"a version", http.MethodPut, "/v1/workflows/w/versions/1", `{"dag":` + dag + `}`, true,
			carillonv1.WorkflowService_PutWorkflowVersion_FullMethodName,
			func() any {
				return &carillonv1.PutWorkflowVersionRequest{WorkflowId: "w", Version: 1, Dag: []byte(dag)}
			},
		},
		{
			"a deploy", http.MethodPost, "/v1/workflows/w:deploy", `{"version":1,"user_id":"ada","dag":` + dag + `}`, true,
			carillonv1.WorkflowService_DeployWorkflow_FullMethodName,
			func() any {
				return &carillonv1.DeployWorkflowRequest{WorkflowId: "w", Version: 1, UserId: "ada", Dag: []byte(dag)}
			},
		},
		{
			"a set with a workflow", http.MethodPost, "/v1/schedules:apply", `{"set":"s","workflows":[{"workflow_id":"w","version":1,"user_id":"ada","dag":` + dag + `}]}`, true,
			carillonv1.ScheduleService_ApplySchedules_FullMethodName,
			func() any {
				return &carillonv1.ApplySchedulesRequest{Set: "s", Workflows: []*carillonv1.DeployWorkflowRequest{{WorkflowId: "w", Version: 1, UserId: "ada", Dag: []byte(dag)}}}
			},
		},
		{
			"a set of schedules", http.MethodPost, "/v1/schedules:apply", `{"set":"t","schedules":[{"schedule_id":"t","workflow_id":"w","version":1,"user_id":"ada","cron_expr":"0 * * * *","timezone":"UTC"}]}`, false,
			carillonv1.ScheduleService_ApplySchedules_FullMethodName,
			func() any {
				return &carillonv1.ApplySchedulesRequest{Set: "t", Schedules: []*carillonv1.UpsertScheduleRequest{{
					ScheduleId: "t", WorkflowId: "w", Version: 1, UserId: "ada", Timezone: new("UTC"), CronExpr: new("0 * * * *"),
				}}}
			},
		},
	}
	const says = "LOCAL_EXECUTOR_ROLES allows only operator, compiler to store them"
	stores := map[string]func(t *testing.T) string{"SQLite": func(*testing.T) string { return "" }, "Postgres": func(t *testing.T) string { return migrated.Postgres(t) }}
	for store, database := range stores {
		t.Run(store, func(t *testing.T) {
			g := newGuarded(t, map[string]any{
				"executor": "local", "workflow_store": "db", "local_executor_roles": "operator,compiler", "database_url": database(t),
			})
			for _, c := range calls {
				for _, who := range []string{"user", "compiler", "operator"} {
					t.Run(fmt.Sprint(c.name, " by a ", who), func(t *testing.T) {
						refused := c.stores && who == "user"
						code, answer := g.send(who, c.method, c.path, c.body)
						if refused != (code == http.StatusForbidden) || refused != strings.Contains(answer, says) || !refused && code != http.StatusOK {
							t.Errorf("REST answers %d %s", code, answer)
						}
						ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+g.shown(who))
						err := g.conn.Invoke(ctx, c.grpc, c.message(), &emptypb.Empty{})
						if refused != (status.Code(err) == codes.PermissionDenied) || refused != strings.Contains(status.Convert(err).Message(), says) || !refused && err != nil {
							t.Errorf("gRPC answers %v", err)
						}
					})
				}
			}
			code, trail := g.send("operator", http.MethodGet, "/v1/audit?subject=subject-user", "")
			if code != http.StatusOK || strings.Count(trail, `"PermissionDenied"`) < 3 {
				t.Errorf("the refusals are not in the audit trail: %d %s", code, trail)
			}
		})
	}
}
