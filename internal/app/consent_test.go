package app_test

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/carillon/carillon/internal/test/services/migrated"
)

// whoGives runs a test against a process on each store, with workflows in the database.
func whoGives(t *testing.T, test func(t *testing.T, g *guarded)) {
	t.Run("sqlite", func(t *testing.T) { test(t, newGuarded(t, map[string]any{"workflow_store": "db"})) })
	t.Run("postgres", func(t *testing.T) {
		test(t, newGuarded(t, map[string]any{"workflow_store": "db", "database_url": migrated.Postgres(t)}))
	})
}

// call makes a unary gRPC call as who, with request and answer in JSON.
func (g *guarded) call(who, method, body string) (answer string, err error) {
	g.t.Helper()
	service, name, _ := strings.Cut(method, "/")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName("carillon.v1." + service + "." + name))
	if err != nil {
		g.t.Fatal(err)
	}
	m := found.(protoreflect.MethodDescriptor)
	req, resp := dynamicpb.NewMessage(m.Input()), dynamicpb.NewMessage(m.Output())
	if err := protojson.Unmarshal([]byte(body), req); err != nil {
		g.t.Fatal(err)
	}
	ctx := metadata.AppendToOutgoingContext(g.t.Context(), "authorization", "Bearer "+g.shown(who))
	err = g.conn.Invoke(ctx, "/carillon.v1."+method, req, resp)
	return protojson.Format(resp), err
}

func TestWhoMayGiveAGrantOverRESTAndGRPC(t *testing.T) {
	t.Parallel()
	whoGives(t, func(t *testing.T, g *guarded) {
		for who, workflow := range map[string]string{"user": "mine", "bob": "theirs"} {
			if code, answer := g.send(who, "PUT", "/v1/workflows/"+workflow+"/versions/1", `{"dag":{"nodes":[]}}`); code != http.StatusOK {
				t.Fatalf("put: %d %s", code, answer)
			}
		}
		for _, c := range []struct {
			name, who, body string
			code            codes.Code
			says            string
		}{
			{"an operator for any owner", "operator", `{"user_id":"ada","billing_account_id":"any","scopes":["graph:execute:w"]}`, codes.OK, ""},
			{"a compiler for any owner, everything", "compiler", `{"user_id":"bob","billing_account_id":"any","scopes":["graph:execute:*"],"allow_all_workflows":true}`, codes.OK, ""},
			{"an owner on the account of her own name", "user", `{"billing_account_id":"ada","scopes":["graph:execute:mine"]}`, codes.OK, ""},
			{"an owner on an account that her token lists", "user", `{"billing_account_id":"acme","scopes":["graph:execute:mine"]}`, codes.OK, ""},
			{"an owner on another's account", "user", `{"billing_account_id":"bob","scopes":["graph:execute:mine"]}`, codes.PermissionDenied, `billing_account_id "bob" is not yours`},
			{"an owner on another's workflow", "user", `{"billing_account_id":"acme","scopes":["graph:execute:theirs"]}`, codes.PermissionDenied, `scopes[0] "graph:execute:theirs" names a workflow that is not yours`},
			{"an owner on a workflow that nobody has", "user", `{"billing_account_id":"acme","scopes":["graph:execute:nowhere"]}`, codes.PermissionDenied, `scopes[0] "graph:execute:nowhere" names a workflow that is not yours`},
			{"an owner on a prefix", "user", `{"billing_account_id":"acme","scopes":["graph:execute:mine:*"]}`, codes.PermissionDenied, "ask an operator or a compiler"},
			{"an owner on everything", "user", `{"billing_account_id":"acme","scopes":["graph:execute:*"],"allow_all_workflows":true}`, codes.PermissionDenied, "ask an operator or a compiler"},
			{"an owner for another", "user", `{"user_id":"bob","billing_account_id":"acme","scopes":["graph:execute:mine"]}`, codes.InvalidArgument, "user_id"},
			{"a viewer", "viewer", `{"user_id":"ada","billing_account_id":"ada","scopes":["graph:execute:mine"]}`, codes.PermissionDenied, "CreateGrant"},
		} {
			t.Run(c.name, func(t *testing.T) {
				_, err := g.call(c.who, "GrantService/CreateGrant", c.body)
				if status.Code(err) != c.code || err != nil && !strings.Contains(err.Error(), c.says) {
					t.Errorf("gRPC: %v, want %s that says %q", err, c.code, c.says)
				}
				want := map[codes.Code]int{codes.OK: 200, codes.PermissionDenied: 403, codes.InvalidArgument: 400}[c.code]
				code, answer := g.send(c.who, "POST", "/v1/grants", c.body)
				if code != want || !strings.Contains(strings.ReplaceAll(answer, `\"`, `"`), c.says) {
					t.Errorf("REST: %d %s, want %d that says %q", code, answer, want, c.says)
				}
			})
		}
	})
}

// A grant in the request of a schedule follows the same rule.
func TestWhoMayCreateAGrantWithASchedule(t *testing.T) {
	t.Parallel()
	whoGives(t, func(t *testing.T, g *guarded) {
		if code, answer := g.send("user", "PUT", "/v1/workflows/w/versions/1", `{"dag":{"nodes":[]}}`); code != http.StatusOK {
			t.Fatalf("put: %d %s", code, answer)
		}
		for _, c := range []struct {
			who, account string
			code         int
		}{
			{"user", "bob", http.StatusForbidden},
			{"user", "acme", http.StatusOK},
			{"operator", "bob", http.StatusOK},
			{"compiler", "any", http.StatusOK},
		} {
			grant := func(workflow string) string {
				return `"grant":{"billing_account_id":"` + c.account + `","scopes":["graph:execute:` + workflow + `"]}`
			}
			id := c.who + "-" + c.account
			one := `{"schedule_id":"` + id + `","workflow_id":"w","version":1,"user_id":"ada","cron_expr":"@daily",` + grant("w") + `}`
			deployed := `{"user_id":"ada","version":1,"dag":{"triggers":[{"type":"schedule_based","cron_expr":"@daily",` + grant(id) + `}]}}`
			for _, way := range []struct{ name, method, path, body, field string }{
				{"a schedule", "PUT", "/v1/schedules/" + id, one, "grant."},
				{"a schedule of a set", "POST", "/v1/schedules:apply", `{"set":"x","adopt":true,"schedules":[` + one + `]}`, "schedules[0].grant."},
				{"a trigger of the workflow that is deployed", "POST", "/v1/workflows/" + id + ":deploy", deployed, "dag.triggers[0].grant."},
			} {
				code, answer := g.send(c.who, way.method, way.path, way.body)
				if code != c.code || code == http.StatusForbidden && !strings.Contains(answer, way.field+`billing_account_id`) {
					t.Errorf("%s brings a grant on account %s with %s: %d %s, want %d", c.who, c.account, way.name, code, answer, c.code)
				}
			}
		}
		if _, trail := g.send("operator", "GET", "/v1/audit?subject=subject-user", ""); strings.Count(trail, `"PermissionDenied"`) != 3 {
			t.Errorf("the audit trail does not have each of the three refusals: %s", trail)
		}
	})
}
