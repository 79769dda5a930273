package registrar_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// grant creates a grant of owner u for workflow w.
func (r *rig) grant(id string, more ...func(*registrar.GrantInput)) *schedule.Grant {
	r.Helper()
	g, err := r.CreateGrant(r.Context(), grantInput(id, more...))
	if err != nil {
		r.Fatal(err)
	}
	return g
}

func grantInput(id string, more ...func(*registrar.GrantInput)) registrar.GrantInput {
	in := registrar.GrantInput{
		GrantID: id, UserID: "u", BillingAccountID: "acme", Scopes: []string{"graph:execute:w"}, Actor: "ada",
	}
	for _, change := range more {
		change(&in)
	}
	return in
}

// fields are the fields that an error names.
func fields(t *testing.T, err error) string {
	t.Helper()
	var invalid *schedule.InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("got %v, want violations of fields", err)
	}
	var names []string
	for _, v := range invalid.Violations {
		names = append(names, v.Field)
	}
	return strings.Join(names, " ")
}

func TestAGrantIsRefusedFieldByField(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*registrar.GrantInput)
		field  string
	}{
		{"an id that is none", func(in *registrar.GrantInput) { in.GrantID = "a/b" }, "grant_id"},
		{"without an owner", func(in *registrar.GrantInput) { in.UserID = "" }, "user_id"},
		{"without an account", func(in *registrar.GrantInput) { in.BillingAccountID = "" }, "billing_account_id"},
		{"without scopes", func(in *registrar.GrantInput) { in.Scopes = nil }, "scopes"},
		{"a scope of another kind", func(in *registrar.GrantInput) { in.Scopes = []string{"graph:execute:a", "graph:read:b"} }, "scopes[1]"},
		{"every workflow without consent", func(in *registrar.GrantInput) { in.Scopes = []string{"graph:execute:*"} }, "scopes"},
		{"consent without the scope", func(in *registrar.GrantInput) { in.AllowAllWorkflows = true }, "allow_all_workflows"},
		{"an end that has come", func(in *registrar.GrantInput) { in.ExpiresAt = noon }, "expires_at"},
		{"an end that nobody lives to see", func(in *registrar.GrantInput) { in.ExpiresAt = schedule.MaxTime }, "expires_at"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, registrar.Config{})
			_, err := r.CreateGrant(r.Context(), grantInput("g", tc.change))
			if got := fields(t, err); got != tc.field {
				t.Errorf("the error names %q, want %q: %v", got, tc.field, err)
			}
			if len(r.page.grants) != 0 {
				t.Error("a grant that was refused is there")
			}
		})
	}
}

func TestTheSameGrantRequestFindsTheSameGrant(t *testing.T) {
	r := newRig(t, registrar.Config{})
	byRequest := func(in *registrar.GrantInput) { in.RequestID = "r1" }
	ending := func(in *registrar.GrantInput) { in.ExpiresAt = noon.Add(time.Hour) }
	first := r.grant("", byRequest, ending)
	r.after(2 * time.Hour) // the grant expires
	if again := r.grant("", byRequest, ending); again.GrantID != first.GrantID || !again.CreatedAt.Equal(first.CreatedAt) {
		t.Errorf("the same request made another grant: %+v, then %+v", first, again)
	}
	if other := r.grant("", func(in *registrar.GrantInput) { in.RequestID = "r2" }); other.GrantID == first.GrantID {
		t.Error("another request found the grant of the first")
	}
	_, err := r.CreateGrant(r.Context(), grantInput("", byRequest))
	if !errors.Is(err, schedule.ErrKeyConflict) {
		t.Errorf("other terms under the same request_id: got %v, want ErrKeyConflict", err)
	}
	r.grant("named")
	_, err = r.CreateGrant(r.Context(), grantInput("named", ending, func(in *registrar.GrantInput) { in.BillingAccountID = "other" }))
	if err == nil || errors.Is(err, schedule.ErrKeyConflict) {
		t.Errorf("other terms under the same id: got %v, want a refusal", err)
	}
}

func TestARevokedGrantStaysRevoked(t *testing.T) {
	r := newRig(t, registrar.Config{})
	r.grant("g")
	revoked, err := r.RevokeGrant(r.Context(), registrar.RevokeInput{Grant: schedule.GrantRef{GrantID: "g"}, Note: "she left", Actor: "bob"})
	if err != nil || !revoked.RevokedAt.Equal(noon) || revoked.RevokedBy != "bob" || revoked.RevokeNote != "she left" {
		t.Errorf("got %+v, %v", revoked, err)
	}
	r.after(time.Hour)
	again, err := r.RevokeGrant(r.Context(), registrar.RevokeInput{Grant: schedule.GrantRef{GrantID: "g"}, Actor: "eve"})
	if err != nil || !again.RevokedAt.Equal(noon) || again.RevokedBy != "bob" {
		t.Errorf("revoked again: got %+v, %v", again, err)
	}
	if there := r.grant("g"); there.RevokedAt.IsZero() {
		t.Error("creating it again brought it back")
	}
	if _, err := r.RevokeGrant(r.Context(), registrar.RevokeInput{Grant: schedule.GrantRef{GrantID: "nowhere"}}); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
}

func named(id string) func(*registrar.UpsertInput) {
	return func(in *registrar.UpsertInput) { in.Definition.ExecutionGrantID = id }
}

func TestAScheduleNamesOnlyAGrantThatLetsItRun(t *testing.T) {
	for _, tc := range []struct {
		name  string
		grant func(*registrar.GrantInput)
		after func(*rig)
		says  string // "" = it is taken
	}{
		{name: "the owner's, for its workflow"},
		{name: "for more than its workflow", grant: func(in *registrar.GrantInput) { in.Scopes, in.AllowAllWorkflows = []string{"graph:execute:*"}, true }},
		{name: "another owner's", grant: func(in *registrar.GrantInput) { in.UserID = "v" }, says: "grant_denied"},
		{name: "for another workflow", grant: func(in *registrar.GrantInput) { in.Scopes = []string{"graph:execute:x"} }, says: "does not allow workflow"},
		{name: "that was revoked", after: func(r *rig) {
			_, _ = r.RevokeGrant(r.Context(), registrar.RevokeInput{Grant: schedule.GrantRef{GrantID: "g"}})
		}, says: "grant_revoked"},
		{name: "that has expired", grant: func(in *registrar.GrantInput) { in.ExpiresAt = noon.Add(time.Second) }, after: func(r *rig) { r.after(time.Second) }, says: "grant_expired"},
		{name: "that does not exist", grant: func(in *registrar.GrantInput) { in.GrantID = "other" }, says: "grant_denied"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, registrar.Config{})
			if tc.grant == nil {
				tc.grant = func(*registrar.GrantInput) {}
			}
			r.grant("g", tc.grant)
			if tc.after != nil {
				tc.after(r)
			}
			_, err := r.Upsert(r.Context(), hourly(named("g")))
			if tc.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if got := fields(t, err); got != "execution_grant_id" || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want execution_grant_id and %q", err, tc.says)
			}
			if len(r.page.changes) != 0 || len(r.page.schedules) != 0 {
				t.Error("the schedule was written")
			}
		})
	}
}

func TestAScheduleWithAnEndedGrantIsKeptAndRefusesEdits(t *testing.T) {
	r := newRig(t, registrar.Config{})
	r.grant("g")
	r.grant("g2")
	r.upsert(hourly(named("g")))
	if _, err := r.RevokeGrant(r.Context(), registrar.RevokeInput{Grant: schedule.GrantRef{GrantID: "g"}}); err != nil {
		t.Fatal(err)
	}
	if result := r.upsert(hourly(named("g"))); result.Changed {
		t.Error("the same definition again made a change")
	}
	paused := true
	r.upsert(hourly(named("g"), func(in *registrar.UpsertInput) { in.Paused = &paused }))
	edited := hourly(named("g"), func(in *registrar.UpsertInput) { in.Definition.CronExpr = "30 * * * *" })
	if _, err := r.Upsert(r.Context(), edited); err == nil {
		t.Error("an edit was taken on a grant that was revoked")
	}
	edited.Definition.ExecutionGrantID = "g2"
	r.upsert(edited)
	edited.Definition.ExecutionGrantID = ""
	r.upsert(edited)
}

func bring(more ...func(*registrar.GrantInput)) func(*registrar.UpsertInput) {
	return func(in *registrar.UpsertInput) {
		g := grantInput("", more...)
		g.UserID, g.Actor = "", ""
		in.Grant = &g
	}
}

func TestAScheduleIsCreatedTogetherWithItsGrant(t *testing.T) {
	r := newRig(t, registrar.Config{RequireGrant: true})
	s := r.upsert(hourly(bring())).Schedule
	g := r.page.grants[s.GrantRef()]
	if g == nil || g.UserID != "u" || g.BillingAccountID != "acme" || g.CreatedBy != "me" || !g.CreatedAt.Equal(noon) {
		t.Fatalf("schedule %+v has grant %+v", s, g)
	}
	r.after(time.Hour)
	if again := r.upsert(hourly(bring())); again.Changed || len(r.page.grants) != 1 {
		t.Errorf("the same again changed something: %+v, %d grants", again, len(r.page.grants))
	}
	other := r.upsert(hourly(bring(func(in *registrar.GrantInput) { in.BillingAccountID = "other" })))
	if !other.Changed || other.Schedule.ExecutionGrantID == s.ExecutionGrantID {
		t.Errorf("other terms are another grant, got %+v", other.Schedule)
	}
	explicit := r.upsert(hourly(bring(func(in *registrar.GrantInput) { in.GrantID = "mine" }), named("mine")))
	if explicit.Schedule.ExecutionGrantID != "mine" {
		t.Errorf("it has grant %q, want the id that was given", explicit.Schedule.ExecutionGrantID)
	}
}

func TestAGrantThatComesWithItsScheduleIsRefusedWithIt(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change []func(*registrar.UpsertInput)
		fields string
	}{
		{"the grant is wrong", []func(*registrar.UpsertInput){bring(func(in *registrar.GrantInput) { in.Scopes = []string{"*"} })}, "grant.scopes[0]"},
		{"both are wrong", []func(*registrar.UpsertInput){
			bring(func(in *registrar.GrantInput) { in.BillingAccountID = "" }),
			func(in *registrar.UpsertInput) { in.Definition.CronExpr = "x" },
		}, "cron_expr grant.billing_account_id"},
		{"the grant is for another workflow", []func(*registrar.UpsertInput){bring(func(in *registrar.GrantInput) { in.Scopes = []string{"graph:execute:x"} })}, "grant"},
		{"the grant's end has come", []func(*registrar.UpsertInput){bring(func(in *registrar.GrantInput) { in.ExpiresAt = noon })}, "grant"},
		{"another grant is named too", []func(*registrar.UpsertInput){bring(), named("other")}, "execution_grant_id"},
		{"the schedule would never fire again", []func(*registrar.UpsertInput){bring(), func(in *registrar.UpsertInput) {
			in.Definition.CronExpr, in.Definition.OnceAt = "", noon.Add(-time.Hour)
		}}, "once_at"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, registrar.Config{})
			_, err := r.Upsert(r.Context(), hourly(tc.change...))
			if got := fields(t, err); got != tc.fields {
				t.Errorf("the error names %q, want %q: %v", got, tc.fields, err)
			}
			if len(r.page.grants) != 0 || len(r.page.schedules) != 0 {
				t.Error("one of the two was stored")
			}
		})
	}
}

func TestARevokedGrantIsNotBroughtAlongAgain(t *testing.T) {
	r := newRig(t, registrar.Config{})
	s := r.upsert(hourly(bring())).Schedule
	if _, err := r.RevokeGrant(r.Context(), registrar.RevokeInput{Grant: schedule.GrantRef{GrantID: s.ExecutionGrantID}}); err != nil {
		t.Fatal(err)
	}
	_, err := r.Upsert(r.Context(), hourly(bring()))
	if got := fields(t, err); got != "grant" || !strings.Contains(err.Error(), "use a new grant_id") {
		t.Errorf("got %v, want a refusal of grant that says what to do", err)
	}
	r.upsert(hourly(bring(func(in *registrar.GrantInput) { in.GrantID = "again" })))
}

func TestAGrantCanBeDemandedOfEverySchedule(t *testing.T) {
	r := newRig(t, registrar.Config{RequireGrant: true})
	_, err := r.Upsert(r.Context(), hourly())
	if got := fields(t, err); got != "execution_grant_id" || !strings.Contains(err.Error(), "REQUIRE_GRANT") {
		t.Errorf("got %v, want a refusal of execution_grant_id that names the setting", err)
	}
	if _, _, err := r.Preview(r.Context(), registrar.PreviewInput{Spec: &registrar.UpsertInput{Definition: schedule.Definition{CronExpr: "@daily"}}, Count: 1}); err != nil {
		t.Errorf("a preview of what is not saved needs no grant: %v", err)
	}
	_, err = r.DeployWorkflow(r.Context(), registrar.DeployInput{
		WorkflowID: "w", Version: 1, UserID: "u", DAG: []byte(`{}`), Triggers: []registrar.UpsertInput{hourly()}, Fields: []string{"dag.triggers[0]."},
	})
	if got := fields(t, err); got != "dag.triggers[0].execution_grant_id" {
		t.Errorf("a deployment: the error names %q: %v", got, err)
	}
	r.grant("g")
	r.upsert(hourly(named("g")))
}

func TestManyGrantsOfOneDeploymentAreItsSchedules(t *testing.T) {
	r := newRig(t, registrar.Config{RequireGrant: true})
	var triggers []registrar.UpsertInput
	for i := range 3 {
		triggers = append(triggers, hourly(bring(), func(in *registrar.UpsertInput) { in.Definition.ScheduleID = fmt.Sprint("w.", i) }))
	}
	_, err := r.DeployWorkflow(r.Context(), registrar.DeployInput{WorkflowID: "w", Version: 1, UserID: "u", DAG: []byte(`{}`), Triggers: triggers})
	if err != nil || len(r.page.grants) != 3 {
		t.Errorf("%d grants, %v; want one for each schedule", len(r.page.grants), err)
	}
}

func TestAGrantThatNamesNoOwnerIsTheCallers(t *testing.T) {
	s := inMemory()
	ctx := auth.NewContext(t.Context(), auth.Identity{Subject: "u", Owner: "u", Accounts: []string{"acme"}, Roles: []auth.Role{auth.User}})
	if _, err := s.PutWorkflow(ctx, registrar.WorkflowInput{WorkflowID: "w", Version: 1, DAG: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	g, err := s.CreateGrant(ctx, grantInput("", func(in *registrar.GrantInput) { in.UserID, in.RequestID = "", "r" }))
	if err != nil || g.UserID != "u" {
		t.Errorf("a grant without an owner is %+v, %v; want the caller's", g, err)
	}
}

func TestAnOwnerKnowsOnlyItsOwnGrants(t *testing.T) {
	r := newRig(t, registrar.Config{})
	r.grant("mine")
	r.grant("theirs", func(in *registrar.GrantInput) { in.UserID = "v" })
	ctx := auth.NewContext(t.Context(), auth.Identity{Subject: "u", Owner: "u", Roles: []auth.Role{auth.User}})

	if _, err := r.GetGrant(ctx, schedule.GrantRef{GrantID: "mine"}); err != nil {
		t.Errorf("its own: %v", err)
	}
	_, foreign := r.GetGrant(ctx, schedule.GrantRef{GrantID: "theirs"})
	_, missing := r.GetGrant(ctx, schedule.GrantRef{GrantID: "nowhere"})
	if !errors.Is(foreign, schedule.ErrNotFound) || strings.ReplaceAll(foreign.Error(), "theirs", "nowhere") != missing.Error() {
		t.Errorf("another's is answered %v, one that does not exist %v; want the same words", foreign, missing)
	}
	if _, err := r.RevokeGrant(ctx, registrar.RevokeInput{Grant: schedule.GrantRef{GrantID: "theirs"}}); !errors.Is(err, schedule.ErrNotFound) || !r.page.grants[schedule.GrantRef{UserID: "v", GrantID: "theirs"}].RevokedAt.IsZero() {
		t.Errorf("it revoked another's: %v", err)
	}
	_, err := r.CreateGrant(ctx, grantInput("g3", func(in *registrar.GrantInput) { in.UserID = "v" }))
	if got := fields(t, err); got != "user_id" {
		t.Errorf("a grant for another owner: the error names %q", got)
	}
	if _, err := r.ListGrants(ctx, schedule.GrantFilter{}); err != nil || r.page.listed.UserID != "u" {
		t.Errorf("it lists the grants of %q, %v; want its own only", r.page.listed.UserID, err)
	}
	r.page.listed = schedule.GrantFilter{}
	if found, err := r.ListGrants(ctx, schedule.GrantFilter{UserID: "v"}); len(found) != 0 || err != nil || !r.page.listed.Now.IsZero() {
		t.Errorf("asked for another's it found %v, %v", found, err)
	}
}
