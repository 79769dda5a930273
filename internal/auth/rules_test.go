package auth_test

import (
	"context"
	"slices"
	"testing"

	"github.com/carillon/carillon/internal/auth"
)

func TestAdmitKeepsOnlyTheRolesThatAllowTheCall(t *testing.T) {
	const (
		upsert = "/carillon.v1.ScheduleService/UpsertSchedule"
		list   = "/carillon.v1.ScheduleService/ListSchedules"
		start  = "/carillon.v1.RunLauncher/Start"

		publish = "/carillon.v1.EventService/PublishEvents"
		event   = "/carillon.v1.EventService/GetEvent"
	)
	for _, c := range []struct {
		name      string
		id        auth.Identity
		method    string
		admitted  bool
		wantOwner string
	}{
		{"a user changes its own", auth.Identity{Roles: []auth.Role{auth.User}, Owner: "ada"}, upsert, true, "ada"},
		{"a user who is a viewer too sees everything", auth.Identity{Roles: []auth.Role{auth.User, auth.Viewer}, Owner: "ada"}, list, true, ""},
		{"and still changes only its own", auth.Identity{Roles: []auth.Role{auth.User, auth.Viewer}, Owner: "ada"}, upsert, true, "ada"},
		{"a user who is an operator too changes everything", auth.Identity{Roles: []auth.Role{auth.User, auth.Operator}, Owner: "ada"}, upsert, true, ""},
		{"a viewer changes nothing", auth.Identity{Roles: []auth.Role{auth.Viewer}}, upsert, false, ""},
		{"a user without an owner is refused", auth.Identity{Roles: []auth.Role{auth.User}}, list, false, ""},
		{"no role, no call", auth.Identity{Subject: "x"}, list, false, ""},
		{"a user launches nothing", auth.Identity{Roles: []auth.Role{auth.User}, Owner: "ada"}, start, false, ""},
		{"a publisher publishes for its owner", auth.Identity{Roles: []auth.Role{auth.Publisher}, Owner: "ada"}, publish, true, "ada"},
		{"a publisher without an owner is refused", auth.Identity{Roles: []auth.Role{auth.Publisher}}, publish, false, ""},
		{"a publisher reads no event", auth.Identity{Roles: []auth.Role{auth.Publisher}, Owner: "ada"}, event, false, ""},
		{"a publisher changes nothing", auth.Identity{Roles: []auth.Role{auth.Publisher}, Owner: "ada"}, upsert, false, ""},
		{"a publisher who is a user too publishes for its owner", auth.Identity{Roles: []auth.Role{auth.User, auth.Publisher}, Owner: "ada"}, publish, true, "ada"},
		{"a publisher who is a viewer too still publishes for its owner", auth.Identity{Roles: []auth.Role{auth.Publisher, auth.Viewer}, Owner: "ada"}, publish, true, "ada"},
		{"a publisher who is a viewer too reads every event", auth.Identity{Roles: []auth.Role{auth.Publisher, auth.Viewer}, Owner: "ada"}, event, true, ""},
		{"a compiler publishes for any owner", auth.Identity{Roles: []auth.Role{auth.Compiler}}, publish, true, ""},
		{"a viewer publishes nothing", auth.Identity{Roles: []auth.Role{auth.Viewer}}, publish, false, ""},
		{"a worker launches", auth.Identity{Roles: []auth.Role{auth.Worker}}, start, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			rule, ok := auth.RuleOf(c.method)
			if !ok {
				t.Fatal("no rule")
			}
			got, admitted := rule.Admit(c.id)
			if admitted != c.admitted || admitted && got.Owner != c.wantOwner {
				t.Errorf("admitted %v as %q; want %v as %q", admitted, got.Owner, c.admitted, c.wantOwner)
			}
		})
	}
}

func TestACallWithoutARuleIsDenied(t *testing.T) {
	for _, method := range []string{"", "/", "carillon.v1.RunService/GetRun", "/carillon.v1.RunService/getrun", "/carillon.v1.RunService/GetRun/", "/x.Y/Z"} {
		if _, ok := auth.RuleOf(method); ok {
			t.Errorf("%q has a rule", method)
		}
	}
}

func TestAContextCarriesItsCaller(t *testing.T) {
	if id := auth.FromContext(t.Context()); id.Subject != "" || id.Owner != "" || !id.Sees("anybody") {
		t.Errorf("a call of this process is %+v", id)
	}
	ctx := auth.NewContext(context.Background(), auth.Identity{Subject: "ada", Owner: "ada", Roles: []auth.Role{auth.User}})
	id := auth.FromContext(ctx)
	if id.Subject != "ada" || !id.Has(auth.User) || !id.Sees("ada") || id.Sees("bob") || id.Sees("") {
		t.Errorf("%+v", id)
	}
	for method, rule := range auth.Rules {
		if slices.Contains(rule.Roles, auth.Publisher) != (method == "/carillon.v1.EventService/PublishEvents") {
			t.Errorf("a publisher may call %s", method)
		}
	}
	if !slices.Contains(auth.Roles, auth.Compiler) {
		t.Error("the roles are not all there")
	}
}
