package grant

import (
	"fmt"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Denial says why a run may not take place at an instant, as a reason and in
// words; "" = it may. g is the grant that use names, nil where there is none.
// The first of these that is so counts:
//
//   - no grant is named: grant_denied where one is required, else it may run;
//   - there is no such grant, or it is another owner's: grant_denied, in the same
//     words, which say nothing about what others have;
//   - it was revoked: grant_revoked;
//   - its end has come: grant_expired;
//   - no scope covers the workflow: grant_denied.
func Denial(g *schedule.Grant, use schedule.GrantUse, at time.Time) (reason schedule.Reason, why string) {
	switch {
	case use.GrantID == "" && !use.Required:
		return schedule.ReasonNone, ""
	case use.GrantID == "":
		return schedule.ReasonGrantDenied, "the schedule names no execution grant, and REQUIRE_GRANT is set"
	case g == nil || g.GrantID != use.GrantID || g.UserID != use.UserID:
		return schedule.ReasonGrantDenied, fmt.Sprintf("owner %s has no execution grant %s", schedule.Quote(use.UserID), schedule.Quote(use.GrantID))
	case !g.RevokedAt.IsZero():
		return schedule.ReasonGrantRevoked, fmt.Sprintf("execution grant %s was revoked at %s", schedule.Quote(g.GrantID), stamp(g.RevokedAt))
	case g.State(at) == schedule.GrantExpired:
		return schedule.ReasonGrantExpired, fmt.Sprintf("execution grant %s expired at %s", schedule.Quote(g.GrantID), stamp(g.ExpiresAt))
	case !allows(g.Scopes, use.WorkflowID):
		return schedule.ReasonGrantDenied, fmt.Sprintf("execution grant %s does not allow workflow %s; it allows %s",
			schedule.Quote(g.GrantID), schedule.Quote(use.WorkflowID), shown(g.Scopes))
	}
	return schedule.ReasonNone, ""
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// shown returns scopes for people, at most the first few.
func shown(scopes []string) string {
	const most = 3
	if len(scopes) <= most {
		return strings.Join(scopes, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(scopes[:most], ", "), len(scopes)-most)
}
