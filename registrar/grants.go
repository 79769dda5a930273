package registrar

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/grant"
	"github.com/carillon/carillon/internal/schedule"
)

// CreateGrant stores a grant. A repeat returns the stored grant; only a revocation changes a
// grant.
func (r *Registrar) CreateGrant(ctx context.Context, in GrantInput) (*schedule.Grant, error) {
	if err := ownUser(ctx, &in.UserID, "grant"); err != nil {
		return nil, err
	}
	derived := in.GrantID == ""
	if derived {
		in.RequestID = orDefault(in.RequestID, rand.Text())
		in.GrantID = deriveGrantID(in.UserID, "request", in.RequestID)
	}
	var c schedule.Collect
	checkOwner(&c, in.UserID)
	g := r.newGrant(&c, "", in)
	if err := c.Err(); err != nil {
		return nil, err
	}
	there, err := r.grants.GetGrant(ctx, g.Ref())
	switch {
	case errors.Is(err, schedule.ErrNotFound):
	case err != nil:
		return nil, err
	case there.SameTerms(g):
		return there, nil
	}
	if err == nil && derived {
		return nil, schedule.Explain(schedule.ErrKeyConflict, "request_id %q was used before for a grant with other terms; use a new one", in.RequestID)
	}
	if !g.ExpiresAt.IsZero() && !g.ExpiresAt.After(g.CreatedAt) {
		return nil, schedule.Invalid("expires_at", g.ExpiresAt.Format(time.RFC3339), "is not in the future",
			"it is "+g.CreatedAt.Format(time.RFC3339)+" now")
	}
	if err := r.grantChecker(ctx).check(ctx, g, ""); err != nil {
		return nil, err
	}
	if err := r.grants.CreateGrant(ctx, g); err != nil {
		return nil, err
	}
	r.log.InfoContext(ctx, "grant created", "grant_id", g.GrantID, "user_id", g.UserID,
		"billing_account_id", g.BillingAccountID, "scopes", g.Scopes, "expires_at", g.ExpiresAt)
	return r.grants.GetGrant(ctx, g.Ref())
}

// GetGrant returns one grant. A caller with an owner gets only that owner's; another caller may
// leave out the owner if the id is unique.
func (r *Registrar) GetGrant(ctx context.Context, ref schedule.GrantRef) (*schedule.Grant, error) {
	f := schedule.GrantFilter{GrantID: ref.GrantID, UserID: ref.UserID, Limit: 2}
	if !ownOnly(ctx, &f.UserID) {
		return grant.Only(nil, ref.GrantID, "user_id")
	}
	found, err := r.grants.ListGrants(ctx, f)
	if err != nil {
		return nil, err
	}
	return grant.Only(found, ref.GrantID, "user_id")
}

// ListGrants lists grants by grant_id, then user_id; an owner sees only that owner's.
func (r *Registrar) ListGrants(ctx context.Context, f schedule.GrantFilter) ([]schedule.Grant, error) {
	if !ownOnly(ctx, &f.UserID) {
		return nil, nil
	}
	f.Now = r.now()
	return r.grants.ListGrants(ctx, f)
}

// RevokeGrant ends a grant permanently: no run with it is sent later than a second after the
// answer. Schedules that name it remain, and their runs are skipped. A repeat keeps the first
// revocation.
func (r *Registrar) RevokeGrant(ctx context.Context, in RevokeInput) (*schedule.Grant, error) {
	if err := checkNote(in.Note); err != nil {
		return nil, err
	}
	g, err := r.GetGrant(ctx, in.Grant)
	if err != nil {
		return nil, err
	}
	now := r.now()
	g, err = r.grants.RevokeGrant(ctx, schedule.GrantRevocation{Grant: g.Ref(), At: now, By: in.Actor, Note: in.Note})
	if err != nil {
		return nil, err
	}
	if g.RevokedAt.Equal(now) {
		r.log.InfoContext(ctx, "grant revoked", "grant_id", g.GrantID, "user_id", g.UserID, "actor", in.Actor)
	}
	return g, nil
}

// newGrant makes the row of a new grant. prefix is put before the fields of its violations.
func (r *Registrar) newGrant(c *schedule.Collect, prefix string, in GrantInput) *schedule.Grant {
	checkID(c, prefix+"grant_id", in.GrantID)
	checkID(c, prefix+"billing_account_id", in.BillingAccountID)
	grant.Check(c, prefix, in.Scopes, in.AllowAllWorkflows)
	expires := utc(in.ExpiresAt).Truncate(time.Microsecond) // the precision of the stores
	if !expires.IsZero() && (expires.Before(schedule.MinTime) || !expires.Before(schedule.MaxTime)) {
		c.Add(prefix+"expires_at", expires.Format(time.RFC3339), "is outside 1970 to 2099", "leave it out for a grant without an end")
	}
	return &schedule.Grant{
		GrantID: in.GrantID, UserID: in.UserID, BillingAccountID: in.BillingAccountID, Scopes: grant.Sorted(in.Scopes),
		ExpiresAt: expires, CreatedBy: in.Actor, CreatedAt: r.now(),
	}
}

// deriveGrantID names a grant that came without a name: the same request again
// finds the same grant.
func deriveGrantID(userID string, of ...string) string {
	sum := sha256.Sum256([]byte("grant\n" + userID + "\n" + strings.Join(of, "\n")))
	return "g-" + hex.EncodeToString(sum[:12])
}

// nameGrant sets the grant of the i-th definition to the one in its input, and notes that grant.
func (r *Registrar) nameGrant(all *upserts, i int) error {
	in, d := &all.inputs[i], &all.definitions[i]
	var c schedule.Collect
	if in.Grant != nil {
		g := *in.Grant
		g.UserID, g.Actor = d.UserID, in.Actor
		if d.ExecutionGrantID != "" && d.ExecutionGrantID != g.GrantID {
			c.Add("execution_grant_id", d.ExecutionGrantID, "is not the grant being created", "leave it out; grant.grant_id names the new one")
		}
		if g.GrantID == "" {
			// Of its terms: the same file applied again names the same grant.
			g.GrantID = deriveGrantID(g.UserID, "schedule", d.ScheduleID, g.BillingAccountID,
				strings.Join(grant.Sorted(g.Scopes), " "), utc(g.ExpiresAt).Format(time.RFC3339Nano))
		}
		all.grants = append(all.grants, *r.newGrant(&c, "grant.", g))
		d.ExecutionGrantID = g.GrantID
	}
	if r.cfg.RequireGrant && d.ExecutionGrantID == "" {
		c.Note("execution_grant_id", "is required, because REQUIRE_GRANT is set", "name an execution grant, or send one as grant")
	}
	return c.Err()
}

// checkGrant refuses a definition with a grant that would skip all runs. An unchanged definition
// without a new grant passes: one expired grant must not fail a deploy of many schedules.
func (all *upserts) checkGrant(found schedule.ChangeInput, i int, d *schedule.Definition, now time.Time) error {
	s, brings := found.Schedule, all.inputs[i].Grant != nil
	if !brings && s != nil && s.Alive() && s.Equal(d) {
		return nil
	}
	reason, why := grant.Denial(found.Grant, d.GrantUse(all.requireGrant), now)
	if reason == schedule.ReasonNone {
		return nil
	}
	v := schedule.Violation{Field: "execution_grant_id", Problem: fmt.Sprintf("%s (%s)", why, reason), Hint: "create a grant and name it"}
	if brings {
		v.Field = "grant"
		if reason != schedule.ReasonGrantDenied {
			v.Hint = "a revoked grant cannot be restored: use a new grant_id"
		}
	}
	return &schedule.InvalidError{Violations: []schedule.Violation{v}}
}

// both are the violations of two checks of one input.
func both(a, b error) error {
	var first, second *schedule.InvalidError
	if errors.As(a, &first) && errors.As(b, &second) {
		return &schedule.InvalidError{Violations: append(first.Violations, second.Violations...)}
	}
	if a != nil {
		return a
	}
	return b
}
