package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
)

// CreateGrant stores a grant; it writes nothing if the same grant is stored.
func (s *Store) CreateGrant(ctx context.Context, g *schedule.Grant) error {
	err := s.transact(ctx, func(tx pgx.Tx) error { return putGrant(ctx, tx, g) })
	if err != nil {
		return fmt.Errorf("create grant: %w", err)
	}
	return nil
}

func putGrant(ctx context.Context, tx pgx.Tx, g *schedule.Grant) error {
	inserted, err := affect(ctx, tx, sqlPutGrant, g.GrantID, g.UserID, g.BillingAccountID, g.Scopes,
		noneOrTime(g.ExpiresAt), noneOrText(g.CreatedBy), g.CreatedAt)
	if err != nil {
		return fmt.Errorf("insert grant: %w", err)
	}
	if inserted > 0 {
		return nil
	}
	there, err := readGrants(ctx, tx, []schedule.GrantRef{g.Ref()})
	if err != nil {
		return err
	}
	if known := there[g.Ref()]; known == nil || !known.SameTerms(g) {
		return schedule.Explain(schedule.ErrExists, "grant_id %s is taken, and grants never change: choose another id", schedule.Quote(g.GrantID))
	}
	return nil
}

// GetGrant returns one grant, or schedule.ErrNotFound.
func (s *Store) GetGrant(ctx context.Context, ref schedule.GrantRef) (*schedule.Grant, error) {
	found, err := readGrants(ctx, s.pool, []schedule.GrantRef{ref})
	if err != nil {
		return nil, fmt.Errorf("get grant: %w", err)
	}
	if found[ref] == nil {
		return nil, fmt.Errorf("grant %s: %w", schedule.Quote(ref.GrantID), schedule.ErrNotFound)
	}
	return found[ref], nil
}

// ListGrants returns grants in order of grant_id, then user_id.
func (s *Store) ListGrants(ctx context.Context, f schedule.GrantFilter) ([]schedule.Grant, error) {
	found, err := collectGrants(ctx, s.pool, sqlListGrants, f.After.GrantID, f.UserID, f.BillingAccountID, string(f.State), f.Now, f.Limit,
		f.After.UserID, f.GrantID)
	if err != nil {
		return nil, fmt.Errorf("list grants: %w", err)
	}
	return found, nil
}

// RevokeGrant revokes a grant; a second call changes nothing.
func (s *Store) RevokeGrant(ctx context.Context, r schedule.GrantRevocation) (*schedule.Grant, error) {
	var after *schedule.Grant
	err := s.transact(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlRevokeGrant, r.Grant.GrantID, r.At, noneOrText(r.By), noneOrText(r.Note), r.Grant.UserID); err != nil {
			return err
		}
		found, err := readGrants(ctx, tx, []schedule.GrantRef{r.Grant})
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

// readGrants reads grants. It leaves out references without a GrantID and missing grants.
func readGrants(ctx context.Context, q querier, refs []schedule.GrantRef) (map[schedule.GrantRef]*schedule.Grant, error) {
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
	found, err := collectGrants(ctx, q, sqlGrants, users, ids)
	if err != nil {
		return nil, fmt.Errorf("read grants: %w", err)
	}
	byRef := make(map[schedule.GrantRef]*schedule.Grant, len(found))
	for i := range found {
		byRef[found[i].Ref()] = &found[i]
	}
	return byRef, nil
}

// collectGrants leaves out unreadable grants: they permit nothing, and must not stop
// other claims.
func collectGrants(ctx context.Context, q querier, statement string, args ...any) ([]schedule.Grant, error) {
	var (
		g                              schedule.Grant
		revokedBy, revokeNote, creator pgtype.Text
		expires, revoked, created      pgtype.Timestamptz
		found                          []schedule.Grant
	)
	err := each(ctx, q, []any{
		&g.GrantID, &g.UserID, &g.BillingAccountID, &g.Scopes, &expires, &revoked, &revokedBy, &revokeNote, &creator, &created,
	}, func() error {
		var d decoding
		g.ExpiresAt, g.RevokedAt, g.CreatedAt = d.time("expires_at", expires), d.time("revoked_at", revoked), d.time("created_at", created)
		g.RevokedBy, g.RevokeNote, g.CreatedBy = revokedBy.String, revokeNote.String, creator.String
		if d.err == nil {
			found = append(found, g)
		}
		g.Scopes = nil // the next row has its own
		return nil
	}, statement, args...)
	return found, err
}

// attachGrants adds grants to the inputs of a change.
func attachGrants(ctx context.Context, q querier, req *schedule.ChangeRequest, inputs []schedule.ChangeInput) error {
	grants, err := readGrants(ctx, q, req.GrantRefs)
	req.AttachGrants(inputs, grants)
	return err
}
