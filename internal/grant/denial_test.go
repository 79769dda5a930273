package grant_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/grant"
	"github.com/carillon/carillon/internal/schedule"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// reference says in other words what Denial must say.
func reference(g *schedule.Grant, use schedule.GrantUse, now time.Time) schedule.Reason {
	if use.GrantID == "" {
		if use.Required {
			return "grant_denied"
		}
		return ""
	}
	if g == nil {
		return "grant_denied"
	}
	if g.UserID != use.UserID {
		return "grant_denied"
	}
	if g.RevokedAt != (time.Time{}) {
		return "grant_revoked"
	}
	if g.ExpiresAt != (time.Time{}) && now.UnixNano() >= g.ExpiresAt.UnixNano() {
		return "grant_expired"
	}
	for _, scope := range g.Scopes {
		parts := strings.SplitN(scope, ":", 3)
		if len(parts) < 3 || parts[0] != "graph" || parts[1] != "execute" {
			continue
		}
		head, starred := strings.CutSuffix(parts[2], "*")
		if !starred && parts[2] == use.WorkflowID || starred && len(use.WorkflowID) > len(head) && use.WorkflowID[:len(head)] == head {
			return ""
		}
	}
	return "grant_denied"
}

func TestEveryVerdictIsTheReferences(t *testing.T) {
	const pairs = 10_000
	ids := rapid.SampledFrom([]string{"a", "b", "a:b", "a:b:c", "a.b", "langgraph", "langgraph:poet", "langgraph:poets", "lang"})
	scopes := rapid.SliceOfN(rapid.OneOf(
		rapid.Just("graph:execute:*"),
		rapid.Map(ids, func(id string) string { return "graph:execute:" + id }),
		rapid.Map(ids, func(id string) string { return "graph:execute:" + id + ":*" }),
		rapid.Map(ids, func(id string) string { return "graph:read:" + id }),
	), 0, 4)
	users := rapid.SampledFrom([]string{"u", "v"})
	instants := rapid.SampledFrom([]time.Time{{}, {}, noon.Add(-time.Hour), noon.Add(-time.Microsecond), noon, noon.Add(time.Microsecond), noon.Add(time.Hour)})
	seen := make(map[schedule.Reason]int)
	rapid.Check(t, func(t *rapid.T) {
		for range pairs / 100 { // rapid checks a hundred times
			use := schedule.GrantUse{GrantID: "g", UserID: users.Draw(t, "user"), WorkflowID: ids.Draw(t, "workflow"), Required: rapid.Bool().Draw(t, "required")}
			g := &schedule.Grant{GrantID: "g", UserID: users.Draw(t, "owner"), Scopes: scopes.Draw(t, "scopes"), ExpiresAt: instants.Draw(t, "expires")}
			switch rapid.IntRange(0, 9).Draw(t, "case") {
			case 0:
				g = nil
			case 1:
				use.GrantID, g = "", nil
			case 2:
				g.RevokedAt = noon.Add(-time.Minute)
			}
			want := reference(g, use, noon)
			got, why := grant.Denial(g, use, noon)
			if got != want {
				t.Fatalf("%+v for %+v: %q, want %q", g, use, got, want)
			}
			if (why == "") != (got == "") {
				t.Fatalf("%q is explained by %q", got, why)
			}
			seen[got]++
		}
	})
	for _, reason := range []schedule.Reason{"", schedule.ReasonGrantDenied, schedule.ReasonGrantExpired, schedule.ReasonGrantRevoked} {
		if seen[reason] < 100 {
			t.Errorf("%q came out %d times: the pairs do not show it", reason, seen[reason])
		}
	}
}

func TestARefusalSaysWhyAndNothingOfOthers(t *testing.T) {
	use := schedule.GrantUse{GrantID: "g", UserID: "u", WorkflowID: "w"}
	mine := schedule.Grant{GrantID: "g", UserID: "u", Scopes: []string{"graph:execute:x"}, BillingAccountID: "acme"}
	with := func(edit func(*schedule.Grant)) *schedule.Grant {
		g := mine
		edit(&g)
		return &g
	}
	_, missing := grant.Denial(nil, use, noon)
	_, foreign := grant.Denial(with(func(g *schedule.Grant) { g.UserID = "v" }), use, noon)
	if missing != foreign || strings.Contains(foreign, "v") || strings.Contains(foreign, "acme") {
		t.Errorf("a grant of others is told from one that does not exist: %q, %q", foreign, missing)
	}
	for _, tc := range []struct {
		name  string
		grant *schedule.Grant
		says  string
	}{
		{"revoked", with(func(g *schedule.Grant) { g.RevokedAt = noon }), `"g" was revoked at 2026-03-02T12:00:00Z`},
		{"expired", with(func(g *schedule.Grant) { g.ExpiresAt = noon }), `"g" expired at 2026-03-02T12:00:00Z`},
		{"of another workflow", &mine, `"g" does not allow workflow "w"; it allows graph:execute:x`},
		{"of many others", with(func(g *schedule.Grant) { g.Scopes = many(grant.MaxScopes) }), "and 61 more"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, why := grant.Denial(tc.grant, use, noon); !strings.Contains(why, tc.says) {
				t.Errorf("got %q, want %q", why, tc.says)
			}
		})
	}
}

func TestScopesAreKeptInOrderAndOnce(t *testing.T) {
	in := []string{"graph:execute:b", "graph:execute:a", "graph:execute:b"}
	if got := grant.Sorted(in); !slices.Equal(got, []string{"graph:execute:a", "graph:execute:b"}) || in[0] != "graph:execute:b" {
		t.Error(fmt.Sprint("got ", got, " of ", in))
	}
}
