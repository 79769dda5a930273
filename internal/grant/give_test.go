package grant_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/grant"
	"github.com/carillon/carillon/internal/schedule"
)

func TestARefusalOfManyScopesIsShort(t *testing.T) {
	g := &schedule.Grant{UserID: "ada", BillingAccountID: "ada"}
	for i := range grant.MaxScopes {
		g.Scopes = append(g.Scopes, fmt.Sprintf("graph:execute:%s%d", strings.Repeat("x", 100), i))
	}
	err := grant.MayGive(&grant.Giver{Owner: "ada"}, g, "")
	if err == nil || len(err.Error()) > 2000 || !strings.HasSuffix(err.Error(), "and 59 more") {
		t.Errorf("got %v", err)
	}
}

func TestWhoMayGiveAGrant(t *testing.T) {
	user := grant.Giver{Owner: "ada", Accounts: []string{"acme"}, Owns: map[string]bool{"mine": true, "lg:poet": true, "theirs": false}}
	vouched := user
	vouched.Vouched = true
	for _, tc := range []struct {
		name    string
		by      grant.Giver
		user    string
		account string
		scopes  string
		refuses string // fields; empty: it may
	}{
		{name: "a caller without an owner gives anything for anybody", user: "bob", account: "any", scopes: "*"},
		{name: "an owner gives on its own account", by: user, user: "ada", account: "ada", scopes: "mine"},
		{name: "an owner gives on an account that its credential lists", by: user, user: "ada", account: "acme", scopes: "mine lg:poet"},
		{name: "an owner gives on an account that the gate vouches for", by: vouched, user: "ada", account: "other", scopes: "mine"},
		{name: "another's account is refused", by: user, user: "ada", account: "other", scopes: "mine", refuses: "p.billing_account_id"},
		{name: "an account is compared whole", by: user, user: "ada", account: "acme2", scopes: "mine", refuses: "p.billing_account_id"},
		{name: "another's workflow is refused", by: vouched, user: "ada", account: "ada", scopes: "mine theirs", refuses: "p.scopes[1]"},
		{name: "a workflow that nobody has is refused", by: user, user: "ada", account: "ada", scopes: "nowhere", refuses: "p.scopes[0]"},
		{name: "a prefix is refused", by: user, user: "ada", account: "ada", scopes: "lg:*", refuses: "p.scopes[0]"},
		{name: "every workflow is refused", by: vouched, user: "ada", account: "ada", scopes: "*", refuses: "p.scopes[0]"},
		{name: "a grant for another owner is refused", by: vouched, user: "bob", account: "ada", scopes: "mine", refuses: "p.user_id"},
		{name: "all that is refused is named at once", by: user, user: "bob", account: "other", scopes: "* nowhere", refuses: "p.user_id p.scopes[0] p.scopes[1] p.billing_account_id"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := &schedule.Grant{UserID: tc.user, BillingAccountID: tc.account}
			for word := range strings.FieldsSeq(tc.scopes) {
				g.Scopes = append(g.Scopes, "graph:execute:"+word)
			}
			err := grant.MayGive(&tc.by, g, "p.")
			if tc.refuses == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, schedule.ErrForbidden) {
				t.Fatalf("got %v, want ErrForbidden", err)
			}
			var fields []string
			for part := range strings.SplitSeq(strings.TrimPrefix(err.Error(), schedule.ErrForbidden.Error()+": "), "; p.") {
				field, _, _ := strings.Cut(part, " ")
				fields = append(fields, "p."+strings.TrimPrefix(field, "p."))
			}
			if got := strings.Join(fields, " "); got != tc.refuses {
				t.Errorf("%v names %q, want %q", err, got, tc.refuses)
			}
		})
	}
}
