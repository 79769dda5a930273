package auth

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Role decides which calls a caller may make (rules.go).
type Role string

// The roles.
const (
	Compiler  Role = "compiler"  // registers schedules and workflows, for any owner
	User      Role = "user"      // an owner: its own schedules and runs, and no others
	Publisher Role = "publisher" // publishes events of one owner, and sees nothing
	Worker    Role = "worker"    // asks launchers to start runs
	Launcher  Role = "launcher"  // reports runs
	Executor  Role = "executor"  // reports runs
	Operator  Role = "operator"  // sees and changes everything
	Viewer    Role = "viewer"    // sees everything
)

// Roles is the closed set.
var Roles = []Role{Compiler, User, Publisher, Worker, Launcher, Executor, Operator, Viewer}

// OfOwner reports whether a caller with only this role acts for one owner.
func (r Role) OfOwner() bool { return r == User || r == Publisher }

// The methods of authentication.
const (
	ViaJWT    = "jwt"
	ViaMTLS   = "mtls"
	ViaToken  = "token"
	ViaReport = "report_token" // a run's token, which allows only its reports
	ViaOpen   = "none"         // authentication is off
)

// Identity is the caller of a call. The zero Identity is this process itself, or any caller if
// authentication is off: it may do everything.
type Identity struct {
	Subject string // the name that logs, events and the audit trail show
	Roles   []Role
	Owner   string // the user_id that it acts as; empty: all owners
	// Accounts are the billing accounts in its credentials. An owner may create grants on them.
	Accounts []string
	Via      string    // the method of authentication
	Expires  time.Time // of the credentials; zero: never
}

// Has reports whether the identity plays a role.
func (id Identity) Has(role Role) bool { return slices.Contains(id.Roles, role) }

// NeedsOwner reports whether its credentials must name an owner.
func (id Identity) NeedsOwner() bool { return slices.ContainsFunc(id.Roles, Role.OfOwner) }

// Sees reports whether the identity may see the rows of owner userID. Other rows are reported as not
// found, so that ids cannot be probed.
func (id Identity) Sees(userID string) bool { return id.Owner == "" || id.Owner == userID }

type identityKey struct{}

// NewContext returns ctx with the caller's identity.
func NewContext(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, id)
}

// FromContext returns the identity of NewContext, or the zero one.
func FromContext(ctx context.Context) Identity {
	id, _ := ctx.Value(identityKey{}).(Identity)
	return id
}

// ClaimError names the invalid claim of a token. Only for tokens with a valid signature: their holder
// can read the claims anyway.
type ClaimError struct {
	Claim   string
	Problem string // for the caller: contains no part of the token
	Value   string // for the log: the claim, quoted and truncated; may be empty
}

func (e *ClaimError) Error() string {
	return "claim " + strconv.Quote(e.Claim) + " of the token " + e.Problem
}

// MaxSubject bounds a subject, in characters.
const MaxSubject = 256

// ValidSubject reports whether s can name a caller in logs and rows: 1 to 256 printable characters.
// Every valid owner id is a valid subject, so that a token's sub can be both.
func ValidSubject(s string) bool { return schedule.Printable(s, MaxSubject) }
