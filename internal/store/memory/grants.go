package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// CreateGrant stores a grant; it writes nothing if the same grant is stored.
func (s *Store) CreateGrant(ctx context.Context, g *schedule.Grant) error {
	return s.write(ctx, func(t *tx) error { return t.putGrant(g, s.Now()) })
}

func (t *tx) putGrant(g *schedule.Grant, now time.Time) error {
	row := *g
	row.Scopes = slices.Clone(g.Scopes)
	row.ExpiresAt, row.CreatedAt = at(g.ExpiresAt), either(g.CreatedAt, now)
	if there := t.grants[g.Ref()]; there != nil {
		if there.SameTerms(&row) {
			return nil
		}
		return schedule.Explain(schedule.ErrExists, "grant_id %s is taken, and grants never change: choose another id", schedule.Quote(g.GrantID))
	}
	t.setGrant(&row)
	return nil
}

func (t *tx) setGrant(row *schedule.Grant) {
	before := t.grants[row.Ref()]
	t.grants[row.Ref()] = row
	t.undo = append(t.undo, func() {
		if t.grants[row.Ref()] = before; before == nil {
			delete(t.grants, row.Ref())
		}
	})
	if t.opts.Watch.Grant != nil {
		t.told = append(t.told, func() { t.opts.Watch.Grant(before, row) })
	}
}

// GetGrant returns one grant, or schedule.ErrNotFound.
func (s *Store) GetGrant(ctx context.Context, ref schedule.GrantRef) (g *schedule.Grant, err error) {
	err = s.read(ctx, func() error {
		if g = s.grants[ref]; g == nil {
			return schedule.ErrNotFound
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("get grant %s: %w", schedule.Quote(ref.GrantID), err)
	}
	return g, nil
}

// ListGrants returns grants in order of grant_id, then user_id.
func (s *Store) ListGrants(ctx context.Context, f schedule.GrantFilter) (list []schedule.Grant, err error) {
	err = s.read(ctx, func() error {
		now := either(f.Now, s.Now())
		for _, g := range s.grants {
			if compareGrants(g.Ref(), f.After) > 0 && (f.GrantID == "" || g.GrantID == f.GrantID) && (f.UserID == "" || g.UserID == f.UserID) &&
				(f.BillingAccountID == "" || g.BillingAccountID == f.BillingAccountID) && (f.State == "" || g.State(now) == f.State) {
				list = append(list, *g)
			}
		}
		return nil
	})
	slices.SortFunc(list, func(a, b schedule.Grant) int { return compareGrants(a.Ref(), b.Ref()) })
	return list[:min(len(list), schedule.PageSize(f.Limit))], err
}

func compareGrants(a, b schedule.GrantRef) int {
	return cmp.Or(cmp.Compare(a.GrantID, b.GrantID), cmp.Compare(a.UserID, b.UserID))
}

// RevokeGrant revokes a grant; a second call changes nothing.
func (s *Store) RevokeGrant(ctx context.Context, r schedule.GrantRevocation) (after *schedule.Grant, err error) {
	err = s.write(ctx, func(t *tx) error {
		if after = t.grants[r.Grant]; after == nil {
			return schedule.ErrNotFound
		}
		if after.RevokedAt.IsZero() {
			row := *after
			row.RevokedAt, row.RevokedBy, row.RevokeNote = at(r.At), r.By, r.Note
			after = &row
			t.setGrant(after)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("revoke grant %s: %w", schedule.Quote(r.Grant.GrantID), err)
	}
	return after, nil
}
