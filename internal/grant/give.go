package grant

import (
	"fmt"
	"slices"
	"strings"

	"github.com/carillon/carillon/internal/schedule"
)

// maxProblems bounds how many refused fields an error names.
const maxProblems = 5

// Giver is the caller who creates a grant.
type Giver struct {
	Owner    string          // user_id of a caller of role user; empty: an operator, a compiler, or authentication is off
	Accounts []string        // billing accounts that its credential lists
	Owns     map[string]bool // workflows that Owner has stored a version of, or was given
	Vouched  bool            // the credit gate says that Owner may use the account
}

// HasAccount reports whether the caller's credential lists an account.
func (by *Giver) HasAccount(billingAccountID string) bool {
	return by.Owner == "" || by.Owner == billingAccountID || slices.Contains(by.Accounts, billingAccountID)
}

// Named returns the workflows that scopes name one by one, each once.
func Named(scopes []string) (workflowIDs []string) {
	for _, scope := range scopes {
		if what, ok := strings.CutPrefix(scope, execute); ok && !strings.HasSuffix(what, all) && !slices.Contains(workflowIDs, what) {
			workflowIDs = append(workflowIDs, what)
		}
	}
	return workflowIDs
}

// MayGive is nil if the caller may create the grant, else schedule.ErrForbidden
// with the first refused fields, each behind prefix, and what to do.
//
//   - A caller without an owner grants anything on behalf of any owner.
//   - An owner grants for itself only, only workflows of its own that the scopes
//     name one by one, and only on an account that is its own.
func MayGive(by *Giver, g *schedule.Grant, prefix string) error {
	if by.Owner == "" {
		return nil
	}
	var problems []string
	refuse := func(field, value, problem string) {
		problems = append(problems, fmt.Sprintf("%s%s %s %s", prefix, field, schedule.Quote(value), problem))
	}
	if g.UserID != by.Owner {
		refuse("user_id", g.UserID, "is another user; leave it out for your own grant")
	}
	for i, scope := range g.Scopes {
		field := fmt.Sprintf("scopes[%d]", i)
		named := Named([]string{scope})
		switch {
		case len(named) == 0:
			refuse(field, scope, "covers other owners' workflows; name your workflows one by one, or ask an operator or a compiler for the grant")
		case !by.Owns[named[0]]:
			refuse(field, scope, "names a workflow that is not yours; store a version of it, or ask an operator or a compiler to share it with you")
		}
	}
	if !by.HasAccount(g.BillingAccountID) && !by.Vouched {
		refuse("billing_account_id", g.BillingAccountID, "is not yours: it is not your user_id, your token does not list it, "+
			"and no billing service confirms it; use your own account, or ask an operator or a compiler for the grant")
	}
	if len(problems) == 0 {
		return nil
	}
	if more := len(problems) - maxProblems; more > 0 { // a gRPC status travels in a header
		problems = append(problems[:maxProblems], fmt.Sprintf("and %d more", more))
	}
	return schedule.Explain(schedule.ErrForbidden, "%s", strings.Join(problems, "; "))
}
