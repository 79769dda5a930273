package registrar_test

import (
	"context"

	"github.com/carillon/carillon/internal/schedule"
)

// The page's grants.

// withNew is an existing grant, else one that the change creates.
func (p *page) withNew(fresh []schedule.Grant, ref schedule.GrantRef) *schedule.Grant {
	if g := p.grants[ref]; g != nil {
		return g
	}
	for i := range fresh {
		if fresh[i].Ref() == ref {
			return &fresh[i]
		}
	}
	return nil
}

func (p *page) CreateGrant(_ context.Context, g *schedule.Grant) error {
	if there := p.grants[g.Ref()]; there != nil && !there.SameTerms(g) {
		return schedule.ErrExists
	}
	row := *g
	p.grants[g.Ref()] = &row
	return nil
}

func (p *page) GetGrant(_ context.Context, ref schedule.GrantRef) (*schedule.Grant, error) {
	if g := p.grants[ref]; g != nil {
		return g, nil
	}
	return nil, schedule.ErrNotFound
}

func (p *page) ListGrants(_ context.Context, f schedule.GrantFilter) (found []schedule.Grant, err error) {
	p.listed = f
	for _, g := range p.grants {
		if (f.GrantID == "" || g.GrantID == f.GrantID) && (f.UserID == "" || g.UserID == f.UserID) {
			found = append(found, *g)
		}
	}
	return found, nil
}

func (p *page) RevokeGrant(_ context.Context, r schedule.GrantRevocation) (*schedule.Grant, error) {
	g := p.grants[r.Grant]
	if g.RevokedAt.IsZero() {
		row := *g
		row.RevokedAt, row.RevokedBy, row.RevokeNote = r.At, r.By, r.Note
		p.grants[r.Grant] = &row
	}
	return p.grants[r.Grant], nil
}
