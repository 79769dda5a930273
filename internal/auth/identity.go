package auth

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Role is what a caller is, and so which calls it may make (rules.go).
type Role string

// The roles.
const (
	Compiler Role = "compiler" // registers schedules and workflows, for any owner
	User     Role = "user"     // an owner: its own schedules and runs, and no others
	Worker   Role = "worker"   // asks launchers to start runs
	Launcher Role = "launcher" // reports runs
	Executor Role = "executor" // reports runs
	Operator Role = "operator" // sees and changes everything
	Viewer   Role = "viewer"   // sees everything
)

// Roles is the closed set.
var Roles = []Role{Compiler, User, Worker, Launcher, Executor, Operator, Viewer}

// How a caller showed who it is.
const (
	ViaJWT    = "jwt"
	ViaMTLS   = "mtls"
	ViaToken  = "token"
	ViaReport = "report_token" // a run's own token: good for its reports only
	ViaOpen   = "none"         // authentication is off
)

// Identity is who makes a call. The zero Identity is this process itself, or
// anybody where authentication is off: it may everything.
type Identity struct {
	Subject string // the name that logs, events and the audit trail show
	Roles   []Role
	Owner   string // the user_id that it acts as; empty: every owner's
	// Accounts are the billing accounts that its credential lists. An owner may
	// create grants on them.
	Accounts []string
	Via      string    // how it showed who it is
	Expires  time.Time // when what it showed is good no longer; zero: that has no end
}

// Has reports whether the identity plays a role.
func (id Identity) Has(role Role) bool { return slices.Contains(id.Roles, role) }

// Sees reports whether rows of the owner userID exist for this identity.
// Somebody else's do not: the answer is the one for an id that never was.
func (id Identity) Sees(userID string) bool { return id.Owner == "" || id.Owner == userID }

type identityKey struct{}

// NewContext is ctx with the identity of the call that it belongs to.
func NewContext(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, id)
}

// FromContext is the identity that NewContext put there, else the zero one.
func FromContext(ctx context.Context) Identity {
	id, _ := ctx.Value(identityKey{}).(Identity)
	return id
}

// ClaimError says which claim of a token is wrong. It is for tokens that a
// trusted key has signed: the caller can read the token, and so may know.
type ClaimError struct {
	Claim   string
	Problem string // for the caller: contains nothing of the token
	Value   string // for the log: the claim, quoted and cut; empty if it is not needed
}

func (e *ClaimError) Error() string {
	return "claim " + strconv.Quote(e.Claim) + " of the token " + e.Problem
}

// MaxSubject bounds a subject, in characters.
const MaxSubject = 256

// ValidSubject reports whether s can name a caller in logs and rows: 1 to 256
// printable characters. It is wider than an owner id, so that a token's sub can
// be both.
func ValidSubject(s string) bool { return schedule.Printable(s, MaxSubject) }
