package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
)

// maxRanks is up to how many ranks of owners a claim hops through one by one.
const maxRanks = 1000

// ranks are owners of what is due, and the ranks of their rows.
type ranks struct {
	owners pgtype.FlatArray[string] // each once
	of     pgtype.FlatArray[string] // the owner of each rank
	ranks  pgtype.FlatArray[int32]
}

// shareOut is for more than the limit lets through: it may all be one owner's,
// and the others come after 10,000 of his. So the owners take turns.
func (p *claimPass) shareOut(ctx context.Context) error {
	due, few, err := p.ranks(ctx)
	if err == nil && !few {
		due.owners, err = p.owners(ctx)
	}
	if err != nil {
		return fmt.Errorf("find the owners of due runs: %w", err)
	}
	rooms := make(pgtype.FlatArray[int32], len(due.owners))
	for i, owner := range due.owners {
		rooms[i] = int32(min(max(p.req.Room(owner), 0), p.req.Limit))
		p.cramped = p.cramped || int(rooms[i]) < p.req.Limit
	}
	if few {
		err = p.takeTurns(ctx, &due, rooms)
	} else {
		p.candidates, err = p.find(ctx, sqlClaimTurnsOfAll, append(p.window(p.req.Limit), due.owners, rooms)...)
	}
	if err != nil {
		return fmt.Errorf("find due runs of every owner: %w", err)
	}
	if len(p.candidates) == p.req.Limit {
		p.store.crowded.Note(p.req.Term, true)
	}
	return nil
}

// stillCrowded shares out at once where the claim before has had to: in a backlog
// each would look first whether there is one, and throw away what it has found.
// Where the limit is not filled, the backlog is over, or its owners have no room.
func (p *claimPass) stillCrowded(ctx context.Context) (bool, error) {
	if p.req.Room == nil || p.req.Limit == 0 || !p.store.crowded.Is(p.req.Term) {
		return false, nil
	}
	p.store.crowded.Note(p.req.Term, false)
	if err := p.shareOut(ctx); err != nil {
		return false, err
	}
	p.result.More = len(p.candidates) == p.req.Limit
	return p.result.More, nil
}

// takeTurns reads of each owner a little more than is his if all take as many,
// and where one of them takes all of that, whatever he has room for.
func (p *claimPass) takeTurns(ctx context.Context, due *ranks, rooms pgtype.FlatArray[int32]) error {
	room := make(map[string]int, len(rooms))
	for i, owner := range due.owners {
		room[owner] = int(rooms[i])
	}
	roomOf := make(pgtype.FlatArray[int32], len(due.of)) // of each rank
	for i, owner := range due.of {
		roomOf[i] = int32(room[owner])
	}
	for _, share := range []int{9*p.req.Limit/(8*max(1, len(due.owners))) + 1, p.req.Limit} {
		found, err := p.find(ctx, sqlClaimTurns, append(p.window(share), due.of, due.ranks, roomOf)...)
		if err != nil {
			return err
		}
		p.candidates = inTurns(found, room, p.req.Limit, p.req.Now)
		if !cutOff(found, p.candidates, room, share) {
			break
		}
	}
	return nil
}

// cutOff reports that of a rank as much was found as was read, and that the last
// of it was chosen: what follows it might have been, too.
func cutOff(found, chosen []candidate, room map[string]int, share int) bool {
	type line struct {
		owner    string
		behind   bool
		priority int32
	}
	isChosen := make(map[schedule.Key]bool, len(chosen))
	for i := range chosen {
		isChosen[chosen[i].key] = true
	}
	read := make(map[line]int)
	for i := range found { // of one rank in the order in which they were read
		c := &found[i]
		if c.stranded || c.waits {
			continue
		}
		l := line{schedule.Owner(c.overlapKey), c.behind, c.priority}
		if read[l]++; read[l] == share && share < room[l.owner] && isChosen[c.key] {
			return true
		}
	}
	return false
}

// ranks finds what is due by its owners and ranks, unless those are too many.
func (p *claimPass) ranks(ctx context.Context) (found ranks, few bool, err error) {
	var (
		owner string
		rank  *int32
		due   bool
		hops  int
	)
	known := make(map[string]bool)
	err = each(ctx, p.tx, []any{&owner, &rank, &due}, func() error {
		if rank != nil {
			hops++
		}
		if !due {
			return nil
		}
		if !known[owner] {
			known[owner] = true
			found.owners = append(found.owners, owner)
		}
		if rank != nil {
			found.of, found.ranks = append(found.of, owner), append(found.ranks, *rank)
		}
		return nil
	}, sqlClaimRanks, p.window(maxRanks+1)...)
	return found, hops <= maxRanks, err
}

// plenty reports that nothing is due yet and every owner has room for all of his
// that was found, so that nobody need take turns: whoever comes first is armed
// first, and the others in the next passes.
func (p *claimPass) plenty() bool {
	if !p.candidates[0].fireAt.After(p.req.Now) {
		return false
	}
	found := make(map[string]int)
	for i := range p.candidates {
		found[schedule.Owner(p.candidates[i].overlapKey)]++
	}
	for owner, n := range found {
		if n > p.req.Room(owner) {
			return false
		}
	}
	return true
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
		if c.halted != "" && !c.fireAt.After(p.req.Now) { // ends, and is not launched
			kept = append(kept, c)
			continue
		}
		room[owner] = left - 1
		if left <= 0 {
			p.result.More, p.cramped = true, true
			continue
		}
		kept = append(kept, c)
	}
	return kept
}

// owners are the owners of all that is due, soon due, or waits for its turn,
// however many.
func (p *claimPass) owners(ctx context.Context) (owners pgtype.FlatArray[string], err error) {
	var owner string
	err = each(ctx, p.tx, []any{&owner}, func() error {
		owners = append(owners, owner)
		return nil
	}, sqlClaimOwners, p.window(p.req.Limit)...)
	return owners, err
}
