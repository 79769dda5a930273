package grant_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/grant"
	"github.com/carillon/carillon/internal/schedule"
)

// grammar is what docs/grants.md says of a scope.
var grammar = regexp.MustCompile(`\Agraph:execute:(\*|[A-Za-z0-9._:-]{1,128}(:\*)?)\z`)

// FuzzScopes holds any text to the grammar, and any scope, accepted or not, to
// what it permits: what is no scope permits nothing, and only the star of its
// own permits all.
func FuzzScopes(f *testing.F) {
	for _, seed := range [][2]string{
		{"graph:execute:report", "report"},
		{"graph:execute:langgraph:*", "langgraph:poet"},
		{"graph:execute:langgraph:*", "langgraph"},
		{"graph:execute:langgraph:*", "langgraph:"},
		{"graph:execute:lang*", "langgraph"},
		{"graph:execute:*", "a"},
		{"graph:execute:**", "a"},
		{"graph:execute::*", ":a"},
		{"graph:execute:", ""},
		{"graph:execute:*:*", "*:a"},
		{"graph:execute:a\n", "a"},
		{"GRAPH:execute:a", "a"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, scope, workflow string) {
		everything := scope == "graph:execute:*"
		var c schedule.Collect
		grant.Check(&c, "", []string{scope}, everything)
		accepted := c.Err() == nil
		if want := grammar.MatchString(scope); accepted != want {
			t.Errorf("scope %q accepted: %t, want %t: %v", scope, accepted, want, c.Err())
		}
		what := strings.TrimPrefix(scope, "graph:execute:")
		prefix, starred := strings.CutSuffix(what, "*")
		covers := what == workflow || starred && strings.HasPrefix(workflow, prefix) && workflow != prefix
		want := schedule.ReasonNone
		if !accepted || !covers {
			want = schedule.ReasonGrantDenied
		}
		g := &schedule.Grant{GrantID: "g", UserID: "u", Scopes: []string{scope}}
		got, why := grant.Denial(g, schedule.GrantUse{GrantID: "g", UserID: "u", WorkflowID: workflow}, noon)
		if got != want || (got == "") != (why == "") {
			t.Errorf("scope %q for workflow %q: %q (%s), want %q", scope, workflow, got, why, want)
		}
		if got == "" && !everything && workflow != what && !strings.HasSuffix(prefix, ":") {
			t.Errorf("scope %q permits workflow %q", scope, workflow)
		}
	})
}
