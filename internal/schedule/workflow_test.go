package schedule_test

import (
	"testing"

	"github.com/carillon/carillon/internal/schedule"
)

func TestWhichVersionARunLoads(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		user   string
		access schedule.WorkflowAccess
		from   string
		ok     bool
	}{
		{name: "an owner's own", user: "ada", access: schedule.WorkflowAccess{Own: true}, from: "ada", ok: true},
		{name: "an owner's own before what it was given", user: "ada", access: schedule.WorkflowAccess{Own: true, Given: true}, from: "ada", ok: true},
		{name: "a version the owner was given", user: "ada", access: schedule.WorkflowAccess{Given: true}, ok: true},
		{name: "a version the owner was not given", user: "ada"},
		{name: "a run without an owner loads the version stored for all owners", ok: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			from, ok := schedule.WorkflowUse{UserID: c.user, WorkflowID: "w", Version: 1}.LoadsFrom(c.access)
			if from != c.from || ok != c.ok {
				t.Errorf("LoadsFrom = %q, %v; want %q, %v", from, ok, c.from, c.ok)
			}
		})
	}
}

func TestAnOwnersFolderIsOneSafePathSegment(t *testing.T) {
	t.Parallel()
	for user, want := range map[string]string{
		"": "", "ada": "owners/ada", "a.b": "owners/a.b", "auth0|ada": "owners/auth0%7Cada",
		"a/b": "owners/a%2Fb", "../ada": "owners/..%2Fada", `..\ada`: "owners/..%5Cada", "%2e%2e": "owners/%252e%252e", "a\x00b": "owners/a%00b",
	} {
		if got, ok := schedule.OwnerPath(user); got != want || !ok {
			t.Errorf("OwnerPath(%q) = %q, %v; want %q", user, got, ok, want)
		}
	}
	for _, user := range []string{".", ".."} {
		if got, ok := schedule.OwnerPath(user); ok {
			t.Errorf("OwnerPath(%q) = %q, want none", user, got)
		}
	}
}
