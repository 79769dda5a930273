package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// CreateGrant stores a grant; it writes nothing if the same grant is stored.
func (s *Store) CreateGrant(ctx context.Context, g *schedule.Grant) error {
	now := s.Now()
	err := s.write(ctx, func(ctx context.Context, t tx) error { return putGrant(ctx, t, g, now) })
	if err != nil {
		return fmt.Errorf("create grant: %w", err)
	}
	return nil
}

func putGrant(ctx context.Context, t tx, g *schedule.Grant, now time.Time) error {
	n, err := t.exec(ctx, sqlPutGrant, g.GrantID, g.UserID, g.BillingAccountID, list(g.Scopes), micros(g.ExpiresAt), word(g.CreatedBy),
		either(g.CreatedAt, now).UnixMicro())
	if err != nil {
		return fmt.Errorf("write grant %s: %w", g.GrantID, err)
	}
	if n == 1 {
		return nil
	}
	there, err := readGrants(ctx, t, []schedule.GrantRef{g.Ref()})
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
	found, err := readGrants(ctx, s.readers, []schedule.GrantRef{ref})
	if err == nil && found[ref] == nil {
		err = schedule.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("get grant %s: %w", schedule.Quote(ref.GrantID), err)
	}
	return found[ref], nil
}

// ListGrants returns grants in order of grant_id, then user_id.
func (s *Store) ListGrants(ctx context.Context, f schedule.GrantFilter) ([]schedule.Grant, error) {
	found, err := collectGrants(ctx, s.readers, sqlListGrants, f.After.GrantID, f.UserID, f.BillingAccountID, string(f.State),
		either(f.Now, s.Now()).UnixMicro(), limitOf(f.Limit), f.After.UserID, f.GrantID)
	if err != nil {
		return nil, fmt.Errorf("list grants: %w", err)
	}
	return found, nil
}

// RevokeGrant revokes a grant; a second call changes nothing.
func (s *Store) RevokeGrant(ctx context.Context, r schedule.GrantRevocation) (after *schedule.Grant, err error) {
	err = s.write(ctx, func(ctx context.Context, t tx) error {
		if _, err := t.exec(ctx, sqlRevokeGrant, r.At.UnixMicro(), word(r.By), word(r.Note), r.Grant.GrantID, r.Grant.UserID); err != nil {
			return err
		}
		found, err := readGrants(ctx, t, []schedule.GrantRef{r.Grant})
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
	var named [][2]string
	asked := make(map[schedule.GrantRef]bool)
	for _, ref := range refs {
		if ref.GrantID != "" && !asked[ref] {
			asked[ref] = true
			named = append(named, [2]string{ref.UserID, ref.GrantID})
		}
	}
	if len(named) == 0 {
		return nil, nil
	}
	found, err := collectGrants(ctx, q, sqlGrants, list(named))
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
	var id, user, account, scopes, revokedBy, note, creator text
	var expires, revoked, created instant
	var found []schedule.Grant
	err := q.query(ctx, statement, func(scan scan) error {
		if err := scan(&id, &user, &account, &scopes, &expires, &revoked, &revokedBy, &note, &creator, &created); err != nil {
			return err
		}
		g := schedule.Grant{
			GrantID: string(id), UserID: string(user), BillingAccountID: string(account),
			ExpiresAt: expires.Time, RevokedAt: revoked.Time, RevokedBy: string(revokedBy), RevokeNote: string(note),
			CreatedBy: string(creator), CreatedAt: created.Time,
		}
		if json.Unmarshal([]byte(scopes), &g.Scopes) == nil {
			found = append(found, g)
		}
		return nil
	}, args...)
	return found, err
}
