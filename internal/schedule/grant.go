package schedule

import (
	"slices"
	"time"
)

// GrantRef names a grant. Grant ids are unique per owner.
type GrantRef struct{ UserID, GrantID string }

// Grant is one row of execution_grants: a durable, scoped, revocable permission to run workflows
// at the cost of an account. It holds no credential. Only package grant interprets its scopes.
type Grant struct {
	GrantID          string
	UserID           string // owner of the schedules that may name it
	BillingAccountID string
	Scopes           []string  // sorted
	ExpiresAt        time.Time // it holds exactly while now < expires_at; zero = no end
	RevokedAt        time.Time // zero: not revoked; never changes once set
	RevokedBy        string
	RevokeNote       string
	CreatedBy        string
	CreatedAt        time.Time
}

// Ref is the grant's name.
func (g *Grant) Ref() GrantRef { return GrantRef{g.UserID, g.GrantID} }

// SameTerms reports whether two grants permit the same to the same owner.
func (g *Grant) SameTerms(o *Grant) bool {
	return g.UserID == o.UserID && g.BillingAccountID == o.BillingAccountID &&
		slices.Equal(g.Scopes, o.Scopes) && g.ExpiresAt.Equal(o.ExpiresAt)
}

// GrantState is a filter word for lists, and what answers show.
type GrantState string

// The states of a grant.
const (
	GrantActive  GrantState = "active"
	GrantExpired GrantState = "expired"
	GrantRevoked GrantState = "revoked" // whether expired or not
)

// State is the grant's state at now.
func (g *Grant) State(now time.Time) GrantState {
	switch {
	case !g.RevokedAt.IsZero():
		return GrantRevoked
	case !g.ExpiresAt.IsZero() && !now.Before(g.ExpiresAt):
		return GrantExpired
	}
	return GrantActive
}

// GrantFilter narrows a list of grants, which is ordered by grant_id, then
// user_id. Zero fields do not filter.
type GrantFilter struct {
	GrantID          string
	UserID           string
	BillingAccountID string
	State            GrantState
	Now              time.Time // that State is judged by
	After            GrantRef  // the last row of the page before
	Limit            int
}

// GrantUse is the permission that a run needs.
type GrantUse struct {
	GrantID    string // empty: the schedule names none
	UserID     string // the schedule's owner
	WorkflowID string
	Required   bool // REQUIRE_GRANT: runs need a grant
}

// Ref names the grant; its GrantID is empty if the schedule names none.
func (u GrantUse) Ref() GrantRef { return GrantRef{u.UserID, u.GrantID} }

// GrantRef names the grant of a definition; its GrantID is empty if there is none.
func (d *Definition) GrantRef() GrantRef { return GrantRef{d.UserID, d.ExecutionGrantID} }

// GrantUse is the permission that the runs of a definition need.
func (d *Definition) GrantUse(required bool) GrantUse {
	return GrantUse{GrantID: d.ExecutionGrantID, UserID: d.UserID, WorkflowID: d.WorkflowID, Required: required}
}

// GrantUse is the permission that the run of a start request needs.
func (r *StartRequest) GrantUse(required bool) GrantUse {
	return GrantUse{GrantID: r.ExecutionGrantID, UserID: r.UserID, WorkflowID: r.WorkflowID, Required: required}
}

// GrantCheckedAt is the instant at which the grant of a run must be valid. An armed run is called
// at fire_at, so its grant must be valid then.
func GrantCheckedAt(now, fireAt time.Time) time.Time {
	if fireAt.After(now) {
		return fireAt
	}
	return now
}

// GrantRevocation ends a grant permanently.
type GrantRevocation struct {
	Grant GrantRef
	At    time.Time
	By    string
	Note  string
}

// AttachGrants sets the grants of a change's inputs: those found, else those that the change
// brings.
func (req *ChangeRequest) AttachGrants(inputs []ChangeInput, found map[GrantRef]*Grant) {
	for i, ref := range req.GrantRefs {
		if inputs[i].Grant = found[ref]; inputs[i].Grant != nil || ref.GrantID == "" {
			continue
		}
		for j := range req.Grants {
			if req.Grants[j].Ref() == ref {
				inputs[i].Grant = &req.Grants[j]
			}
		}
	}
}
