package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
)

// shareOut keeps the candidates to their owners' room. Where more is due than
// the limit lets through, the candidates may all be one owner's, and the others
// come after 10,000 of his: then it lets the owners take turns instead.
func (p *claimPass) shareOut(ctx context.Context) error {
	if len(p.candidates) <= p.req.Limit || p.req.Limit == 0 {
		p.candidates = p.withRoom(p.candidates)
		return nil
	}
	owners, err := p.owners(ctx)
	if err != nil {
		return err
	}
	if len(owners) < 2 { // their order is the usual one
		p.candidates = p.withRoom(p.candidates[:p.req.Limit])
		return nil
	}
	rooms := make(pgtype.FlatArray[int32], len(owners))
	for i, owner := range owners {
		rooms[i] = int32(min(max(p.req.Room(owner), 0), p.req.Limit))
	}
	p.candidates, err = p.find(ctx, sqlClaimTurns, p.req.Limit, owners, rooms)
	return err
}

// withRoom leaves out what exceeds its owner's room: it stays for later.
func (p *claimPass) withRoom(candidates []candidate) []candidate {
	room := make(map[string]int)
	kept := candidates[:0]
	for _, c := range candidates {
		owner := schedule.Owner(c.overlapKey)
		left, asked := room[owner]
		if !asked {
			left = p.req.Room(owner)
		}
		if c.halted != "" && !c.early { // ends, and is not launched
			kept = append(kept, c)
			continue
		}
		room[owner] = left - 1
		if left <= 0 {
			p.result.More = true
			continue
		}
		kept = append(kept, c)
	}
	return kept
}

// owners are the owners of all that is due, soon due, or waits for its turn.
func (p *claimPass) owners(ctx context.Context) (owners pgtype.FlatArray[string], err error) {
	var owner string
	err = each(ctx, p.tx, []any{&owner}, func() error {
		owners = append(owners, owner)
		return nil
	}, sqlClaimOwners, p.window(p.req.Limit)...)
	return owners, err
}
