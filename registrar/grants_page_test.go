package registrar_test

import (
	"context"

	"github.com/carillon/carillon/internal/schedule"
)

// The page's grants.

// withNew is a grant that is there, else one of those that come along.
func (p *page) withNew(fresh []schedule.Grant, id string) *schedule.Grant {
	if g := p.grants[id]; g != nil {
		return g
	}
	for i := range fresh {
		if fresh[i].GrantID == id {
			return &fresh[i]
		}
	}
	return nil
}

func (p *page) CreateGrant(_ context.Context, g *schedule.Grant) error {
	if there := p.grants[g.GrantID]; there != nil && !there.SameTerms(g) {
		return schedule.ErrExists
	}
	row := *g
	p.grants[g.GrantID] = &row
	return nil
}

func (p *page) GetGrant(_ context.Context, id string) (*schedule.Grant, error) {
	if g := p.grants[id]; g != nil {
		return g, nil
	}
	return nil, schedule.ErrNotFound
}

func (p *page) ListGrants(_ context.Context, f schedule.GrantFilter) ([]schedule.Grant, error) {
	p.listed = f
	return nil, nil
}

func (p *page) RevokeGrant(_ context.Context, r schedule.GrantRevocation) (*schedule.Grant, error) {
	g := p.grants[r.GrantID]
	if g.RevokedAt.IsZero() {
		row := *g
		row.RevokedAt, row.RevokedBy, row.RevokeNote = r.At, r.By, r.Note
		p.grants[r.GrantID] = &row
	}
	return p.grants[r.GrantID], nil
}
