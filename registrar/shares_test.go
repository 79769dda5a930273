package registrar_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

func as(t *testing.T, owner string, role auth.Role) context.Context {
	return auth.NewContext(t.Context(), auth.Identity{Subject: "somebody", Owner: owner, Roles: []auth.Role{role}, Via: auth.ViaToken})
}

func TestACallerWithoutAnOwnerSharesTheWorkflowItRegisters(t *testing.T) {
	for _, c := range []struct {
		name  string
		owner string // of the caller; "": none
		role  auth.Role
		there func(*registrar.UpsertInput) // nil: there is no schedule yet
		gives bool
		quiet bool // nothing is written
	}{
		{name: "a compiler creates a schedule", role: auth.Compiler, gives: true},
		{name: "an operator creates a schedule", role: auth.Operator, gives: true},
		{name: "an owner creates one itself", owner: "u", role: auth.User},
		{name: "a compiler names another version", role: auth.Compiler, there: func(in *registrar.UpsertInput) { in.Definition.Version = 2 }, gives: true},
		{name: "a compiler names another workflow", role: auth.Compiler, there: func(in *registrar.UpsertInput) { in.Definition.WorkflowID = "other" }, gives: true},
		{name: "an owner names another workflow", owner: "u", role: auth.User, there: func(in *registrar.UpsertInput) { in.Definition.WorkflowID = "other" }},
		{name: "an operator edits the rest of what an owner has registered", role: auth.Operator, there: func(in *registrar.UpsertInput) { in.Definition.CronExpr = "5 * * * *" }},
		{name: "a compiler registers the same again", role: auth.Compiler, there: func(*registrar.UpsertInput) {}, quiet: true},
	} {
		for kind := range stores {
			t.Run(kind+", "+c.name, func(t *testing.T) {
				r := newShared(open(t, kind))
				if c.there != nil {
					if _, err := r.Upsert(as(t, "u", auth.User), hourly(c.there)); err != nil {
						t.Fatal(err)
					}
				}
				done, err := r.Upsert(as(t, c.owner, c.role), hourly())
				if err != nil || done.Changed == c.quiet {
					t.Fatalf("changed %v, %v", done.Changed, err)
				}
				shares, err := r.ListShares(t.Context(), "w", "", 10)
				if err != nil || (len(shares) == 1) != c.gives || c.gives && (shares[0].UserID != "u" || shares[0].GivenBy != "me") {
					t.Errorf("shares: %+v, %v; want one: %v", shares, err, c.gives)
				}
			})
		}
	}
}

func TestACallerWithoutAnOwnerNamesTheOwnerOfAVersion(t *testing.T) {
	r := newShared(open(t, "sqlite"))
	ci := as(t, "", auth.Compiler)
	put := func(user, workflow string) {
		t.Helper()
		dag := json.RawMessage(`{"by":"` + user + `"}`)
		if _, err := r.PutWorkflow(ci, registrar.WorkflowInput{WorkflowID: workflow, Version: 1, UserID: user, DAG: dag}); err != nil {
			t.Fatal(err)
		}
	}
	put("ada", "one")
	put("ada", "two")
	put("bob", "two")
	put("ada", "three")
	put("bob", "three")
	put("", "three")
	for _, c := range []struct{ name, user, workflow, want, refused string }{
		{name: "the only one there is", workflow: "one", want: `{"by":"ada"}`},
		{name: "one of several", workflow: "two", refused: "user_id: is required: several owners have a version 1 of workflow \"two\": ada, bob; name one of them"},
		{name: "one of several, by its owner", user: "bob", workflow: "two", want: `{"by":"bob"}`},
		{name: "the one for all owners before those of some", workflow: "three", want: `{"by":""}`},
		{name: "of an owner who has none and was given none", user: "carl", workflow: "three", refused: "there is no version 1 of workflow \"three\""},
		{name: "an unknown workflow", workflow: "none", refused: "there is no version 1 of workflow \"none\""},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, err := r.GetWorkflow(ci, c.user, c.workflow, 1)
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("error is %v, want it to say %s", err, c.refused)
				}
				return
			}
			if err != nil || string(found.DAG) != c.want {
				t.Errorf("%+v, %v; want %s", found, err, c.want)
			}
		})
	}
}

func TestAShareNamesOneOwnerOrAll(t *testing.T) {
	r := newShared(open(t, "sqlite"))
	ci := as(t, "", auth.Compiler)
	for name, in := range map[string]registrar.ShareInput{
		"nobody":                  {WorkflowID: "w"},
		"an owner and all":        {WorkflowID: "w", UserID: "ada", AllOwners: true},
		"an id that nobody has":   {WorkflowID: "w", UserID: schedule.AllOwners},
		"no workflow":             {UserID: "ada"},
		"a workflow that is none": {WorkflowID: "../w", UserID: "ada"},
	} {
		_, err := r.ShareWorkflow(ci, in)
		if _, invalid := errors.AsType[*schedule.InvalidError](err); !invalid {
			t.Errorf("share with %s: %v", name, err)
		}
	}
	for _, in := range []registrar.ShareInput{{WorkflowID: "w", UserID: "ada"}, {WorkflowID: "w", AllOwners: true}} {
		if _, err := r.ShareWorkflow(ci, in); err != nil {
			t.Fatal(err)
		}
	}
	if still, err := r.UnshareWorkflow(ci, registrar.ShareInput{WorkflowID: "w", UserID: "ada"}); err != nil || !still {
		t.Errorf("what is shared with all owners too: still shared %v, %v", still, err)
	}
	if still, err := r.UnshareWorkflow(ci, registrar.ShareInput{WorkflowID: "w", AllOwners: true}); err != nil || still {
		t.Errorf("the last share: still shared %v, %v", still, err)
	}
	if _, err := r.UnshareWorkflow(ci, registrar.ShareInput{WorkflowID: "w", UserID: "ada"}); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("a share that is gone: %v", err)
	}
}
