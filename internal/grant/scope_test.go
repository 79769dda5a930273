package grant_test

import (
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/grant"
	"github.com/carillon/carillon/internal/schedule"
)

func TestScopesAreCheckedOneByOne(t *testing.T) {
	long := strings.Repeat("x", schedule.MaxIDLength)
	for _, tc := range []struct {
		name     string
		scopes   []string
		allowAll bool
		field    string // of the first violation; "" = none
	}{
		{name: "one workflow", scopes: []string{"graph:execute:report"}},
		{name: "an id with every character", scopes: []string{"graph:execute:langgraph:poet-2.x_y"}},
		{name: "a prefix", scopes: []string{"graph:execute:langgraph:*"}},
		{name: "a prefix of two parts", scopes: []string{"graph:execute:a:b:*"}},
		{name: "all, with consent", scopes: []string{"graph:execute:*"}, allowAll: true},
		{name: "all and one more, with consent", scopes: []string{"graph:execute:*", "graph:execute:a"}, allowAll: true},
		{name: "the longest id", scopes: []string{"graph:execute:" + long}},
		{name: "none at all", field: "p.scopes"},
		{name: "all, without consent", scopes: []string{"graph:execute:*"}, field: "p.scopes"},
		{name: "consent without need", scopes: []string{"graph:execute:a"}, allowAll: true, field: "p.allow_all_workflows"},
		{name: "another action", scopes: []string{"graph:read:a"}, field: "p.scopes[0]"},
		{name: "another kind of thing", scopes: []string{"graph:execute:a", "tool:execute:a"}, field: "p.scopes[1]"},
		{name: "only a star", scopes: []string{"*"}, field: "p.scopes[0]"},
		{name: "nothing behind the action", scopes: []string{"graph:execute:"}, field: "p.scopes[0]"},
		{name: "an empty prefix", scopes: []string{"graph:execute::*"}, field: "p.scopes[0]"},
		{name: "a star without its colon", scopes: []string{"graph:execute:lang*"}, field: "p.scopes[0]"},
		{name: "a star in the middle", scopes: []string{"graph:execute:a:*:b"}, field: "p.scopes[0]"},
		{name: "two stars", scopes: []string{"graph:execute:a:*:*"}, field: "p.scopes[0]"},
		{name: "an id that is none", scopes: []string{"graph:execute:a b"}, field: "p.scopes[0]"},
		{name: "an id too long", scopes: []string{"graph:execute:" + long + "x"}, field: "p.scopes[0]"},
		{name: "capital letters", scopes: []string{"Graph:Execute:a"}, field: "p.scopes[0]"},
		{name: "a space before it", scopes: []string{" graph:execute:a"}, field: "p.scopes[0]"},
		{name: "as many as there may be", scopes: many(grant.MaxScopes)},
		{name: "one too many", scopes: many(grant.MaxScopes + 1), field: "p.scopes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c schedule.Collect
			grant.Check(&c, "p.", tc.scopes, tc.allowAll)
			err := c.Err()
			switch {
			case tc.field == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.field != "" && (err == nil || !strings.HasPrefix(err.Error(), "invalid: "+tc.field+": ")):
				t.Errorf("got %v, want a violation of %s", err, tc.field)
			}
		})
	}
}

func many(n int) []string {
	scopes := make([]string, n)
	for i := range scopes {
		scopes[i] = "graph:execute:many" + strings.Repeat("x", i)
	}
	return scopes
}
