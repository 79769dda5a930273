package tables

import (
	"context"
	"fmt"

	"github.com/carillon/carillon/internal/schedule"
)

// CreateGrant stores a grant; it writes nothing if the same grant is stored.
func (t *Tables) CreateGrant(ctx context.Context, g *schedule.Grant) error {
	err := t.write(ctx, func(ctx context.Context, q Queries) error { return t.dialect.putGrant(ctx, q, g) })
	if err != nil {
		return fmt.Errorf("create grant: %w", err)
	}
	return nil
}

func (d *Dialect) putGrant(ctx context.Context, q Queries, g *schedule.Grant) error {
	inserted, err := q.Exec(ctx, sqlPutGrant, g.GrantID, g.UserID, g.BillingAccountID, append([]string{}, g.Scopes...), g.ExpiresAt, orNull(g.CreatedBy), g.CreatedAt)
	if err != nil {
		return fmt.Errorf("insert grant: %w", err)
	}
	if inserted > 0 {
		return nil
	}
	there, err := d.ReadGrants(ctx, q, []schedule.GrantRef{g.Ref()})
	if err != nil {
		return err
	}
	if known := there[g.Ref()]; known == nil || !known.SameTerms(g) {
		return schedule.Explain(schedule.ErrExists, "grant_id %s is taken, and grants never change: choose another id", schedule.Quote(g.GrantID))
	}
	return nil
}

// GetGrant returns one grant, or schedule.ErrNotFound.
func (t *Tables) GetGrant(ctx context.Context, ref schedule.GrantRef) (*schedule.Grant, error) {
	found, err := t.dialect.ReadGrants(ctx, t.read, []schedule.GrantRef{ref})
	if err == nil && found[ref] == nil {
		err = schedule.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("grant %s: %w", schedule.Quote(ref.GrantID), err)
	}
	return found[ref], nil
}

// ListGrants returns grants in order of grant_id, then user_id.
func (t *Tables) ListGrants(ctx context.Context, f schedule.GrantFilter) ([]schedule.Grant, error) {
	found, err := readableGrants(ctx, t.read, t.dialect.ListGrants, f.After.GrantID, f.UserID, f.BillingAccountID, f.State, f.Now, schedule.PageSize(f.Limit),
		f.After.UserID, f.GrantID)
	if err != nil {
		return nil, fmt.Errorf("list grants: %w", err)
	}
	return found, nil
}

// RevokeGrant revokes a grant; a second call changes nothing.
func (t *Tables) RevokeGrant(ctx context.Context, r schedule.GrantRevocation) (after *schedule.Grant, err error) {
	err = t.write(ctx, func(ctx context.Context, q Queries) error {
		if _, err := q.Exec(ctx, sqlRevokeGrant, r.Grant.GrantID, r.At, orNull(r.By), orNull(r.Note), r.Grant.UserID); err != nil {
			return err
		}
		found, err := t.dialect.ReadGrants(ctx, q, []schedule.GrantRef{r.Grant})
		after = found[r.Grant]
		return err
	})
	if err == nil && after == nil {
		err = schedule.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("revoke grant %s: %w", schedule.Quote(r.Grant.GrantID), err)
	}
	return after, nil
}

// ReadGrants reads grants. It leaves out references without a GrantID and missing grants.
func (d *Dialect) ReadGrants(ctx context.Context, q Queries, refs []schedule.GrantRef) (map[schedule.GrantRef]*schedule.Grant, error) {
	var users, ids []string
	asked := make(map[schedule.GrantRef]bool)
	for _, ref := range refs {
		if ref.GrantID != "" && !asked[ref] {
			asked[ref] = true
			users, ids = append(users, ref.UserID), append(ids, ref.GrantID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := readableGrants(ctx, q, d.Grants, Rows{users, ids})
	if err != nil {
		return nil, fmt.Errorf("read grants: %w", err)
	}
	byRef := make(map[schedule.GrantRef]*schedule.Grant, len(found))
	for i := range found {
		byRef[found[i].Ref()] = &found[i]
	}
	return byRef, nil
}

// readableGrants leaves out unreadable grants: they permit nothing, and must not stop
// other claims.
func readableGrants(ctx context.Context, q Queries, statement string, args ...any) (found []schedule.Grant, err error) {
	var g schedule.Grant
	err = q.Each(ctx, statement, []any{
		&g.GrantID, &g.UserID, &g.BillingAccountID, &g.Scopes, &g.ExpiresAt, &g.RevokedAt, &g.RevokedBy, &g.RevokeNote, &g.CreatedBy, &g.CreatedAt,
	}, func(bad error) error {
		if bad == nil {
			found = append(found, g)
		}
		return nil
	}, args...)
	return found, err
}

// AttachFacts adds to the inputs of a change what it asks for: grants, and open runs of its overlap key.
func (d *Dialect) AttachFacts(ctx context.Context, q Queries, req *schedule.ChangeRequest, inputs []schedule.ChangeInput) error {
	grants, err := d.ReadGrants(ctx, q, req.GrantRefs)
	req.AttachGrants(inputs, grants)
	if err != nil || req.Open.OverlapKey == "" {
		return err
	}
	open, err := openOfOverlap(ctx, q, &req.Open)
	for i := range inputs {
		inputs[i].Open = open
	}
	return err
}
