package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/carillon/carillon/internal/schedule"
)

// turn is a row whose turn has come: it is due, or it waits longest for an
// overlap key that is free.
type turn struct {
	row           int64 // its rowid
	key           schedule.Key
	scheduleID    string
	overlapKey    string
	exclusive     bool
	afterOthers   bool // catch-up and backfill go after what is on time
	priority      int64
	fireAt, runAt int64
}

// turns are the first Limit rows in the order of claims, as far as their
// owners have room.
func (c *claiming) turns(ctx context.Context) ([]turn, error) {
	limit := max(c.req.Limit, 0)
	if len(c.req.Without) > 0 {
		c.out.More, c.cramped = true, true // more is due, and of whom it is known
		if limit == 0 {
			return nil, nil
		}
	}
	ready, err := c.readTurns(ctx, sqlClaimReady, c.window(limit+1)...)
	if err != nil {
		return nil, fmt.Errorf("read what waits: %w", err)
	}
	if c.out.More {
		return c.shareOut(ctx, ready, limit)
	}
	if turns, crowded, err := c.stillCrowded(ctx, ready, limit); crowded || err != nil {
		return turns, err
	}
	statement := sqlClaimFirst
	if c.req.Room == nil {
		statement = sqlClaimDue
	}
	turns, err := c.readTurns(ctx, statement, c.window(limit+1)...)
	if err != nil {
		return nil, fmt.Errorf("read what is due: %w", err)
	}
	turns = append(turns, ready...)
	c.out.More = len(turns) > limit
	switch {
	case c.out.More && limit > 0 && c.req.Room != nil && !c.plenty(turns):
		return c.shareOut(ctx, ready, limit)
	case c.req.Room != nil:
		slices.SortFunc(turns, c.inTurn)
		turns = c.withRoom(turns)
	default:
		slices.SortFunc(turns, c.inTurn)
	}
	return turns[:min(len(turns), limit)], nil
}

// stillCrowded shares out at once where the claim before has had to: in a backlog
// each would look first whether there is one, and throw away what it has found.
// Where the limit is not filled, the backlog is over, or its owners have no room.
func (c *claiming) stillCrowded(ctx context.Context, ready []turn, limit int) (turns []turn, crowded bool, err error) {
	if c.req.Room == nil || limit == 0 || !c.store.crowded.Is(c.req.Term) {
		return nil, false, nil
	}
	c.store.crowded.Note(c.req.Term, false)
	turns, err = c.shareOut(ctx, ready, limit)
	c.out.More = len(turns) == limit
	return turns, c.out.More, err
}

// plenty reports that nothing is due yet and every owner has room for all of his
// that was found, so that nobody need take turns: whoever comes first is armed
// first, and the others in the next passes.
func (c *claiming) plenty(turns []turn) bool {
	now, found := c.req.Now.UnixMicro(), make(map[string]int)
	for i := range turns {
		if turns[i].fireAt <= now {
			return false
		}
		found[schedule.Owner(turns[i].overlapKey)]++
	}
	for owner, n := range found {
		if n > c.req.Room(owner) {
			return false
		}
	}
	return true
}

// inTurn compares turns in the order of claims; of one instant who was put down
// first comes first, as they are read.
func (c *claiming) inTurn(a, b turn) int {
	now := c.req.Now.UnixMicro()
	return cmp.Or(schedule.Last(a.fireAt > now, b.fireAt > now), schedule.Last(a.afterOthers, b.afterOthers), cmp.Compare(b.priority, a.priority),
		cmp.Compare(a.fireAt, b.fireAt), cmp.Compare(a.runAt, b.runAt), cmp.Compare(a.row, b.row))
}

// window are the arguments that all readings of turns begin with.
func (c *claiming) window(limit int) []any {
	return []any{c.req.Now.UnixMicro(), c.late(), limit, c.soon(), c.first, c.last}
}

func (c *claiming) readTurns(ctx context.Context, statement string, args ...any) ([]turn, error) {
	var turns []turn
	err := c.t.query(ctx, statement, func(scan scan) error {
		var t turn
		err := scan(&t.row, (*key)(&t.key), &t.scheduleID, &t.overlapKey, &t.exclusive, &t.afterOthers, &t.priority, &t.fireAt, &t.runAt)
		turns = append(turns, t)
		return err
	}, args...)
	return turns, err
}

// maxRanks is up to how many ranks of owners a claim hops through one by one.
const maxRanks = 1000

// ranked is one rank of one owner, and the earliest fire_at of its rows.
type ranked struct {
	owner        string
	rank, fireAt int64
}

// shareOut is for more than the limit lets through: it may all be one owner's,
// and the others come after 10,000 of his. So the owners take turns, the first
// of each before the second of any.
func (c *claiming) shareOut(ctx context.Context, ready []turn, limit int) ([]turn, error) {
	turns, err := c.takeTurns(ctx, ready, limit)
	if err == nil && limit > 0 && len(turns) == limit {
		c.store.crowded.Note(c.req.Term, true)
	}
	return turns, err
}

func (c *claiming) takeTurns(ctx context.Context, ready []turn, limit int) ([]turn, error) {
	ranks, err := c.ranks(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the owners of what is due: %w", err)
	}
	if len(ranks) > maxRanks {
		return c.shareOutAll(ctx, limit)
	}
	room := make(map[string]int)
	roomOf := func(owner string) int {
		if _, asked := room[owner]; !asked {
			room[owner] = c.roomOf(owner, limit)
		}
		return room[owner]
	}
	shares := make([]share, 0, len(ranks))
	for _, k := range ranks {
		if k.fireAt <= c.soon() && roomOf(k.owner) > 0 {
			shares = append(shares, share{ranked: k})
		}
	}
	for i := range shares {
		shares[i].limit = limit/len(shares) + 1
	}
	for {
		turns := slices.Clone(ready)
		for i := range shares {
			if err := c.readShare(ctx, &shares[i], roomOf(shares[i].owner)); err != nil {
				return nil, fmt.Errorf("read what is due of one owner: %w", err)
			}
			turns = append(turns, shares[i].turns...)
		}
		turns = c.inTurns(turns, roomOf, limit)
		if !widen(shares, turns) {
			return turns, nil
		}
	}
}

// roomOf is how many runs of an owner this claim may launch.
func (c *claiming) roomOf(owner string, limit int) int {
	room := min(max(c.req.Room(owner), 0), limit)
	c.cramped = c.cramped || room < limit
	return room
}

// share is what was read of one rank, an even part first: of 10,000 that are due
// of each of ten owners a claim takes 100.
type share struct {
	ranked
	limit int
	turns []turn
	read  bool // as far as limit
	cut   bool // there may be more than limit
}

func (c *claiming) readShare(ctx context.Context, s *share, room int) (err error) {
	if s.read {
		return nil
	}
	n := min(s.limit, room)
	s.turns, err = c.readTurns(ctx, sqlClaimOfRank, append(c.window(n), s.owner, s.rank)...)
	s.read, s.cut = true, n < room && len(s.turns) == n
	return err
}

// widen reports whether a share was taken whole that may have more, and has four
// times as much of it read. What comes after a row that was not taken is not
// taken either.
func widen(shares []share, taken []turn) (again bool) {
	of := make(map[schedule.Key]bool, len(taken))
	for i := range taken {
		of[taken[i].key] = true
	}
	for i := range shares {
		if s := &shares[i]; s.cut && of[s.turns[len(s.turns)-1].key] {
			s.limit, s.read, again = 4*s.limit, false, true
		}
	}
	return again
}

// inTurns lets owners take turns, each as far as he has room.
func (c *claiming) inTurns(turns []turn, roomOf func(owner string) int, limit int) []turn {
	slices.SortFunc(turns, c.inTurn)
	places, place := make(map[string]int), make(map[schedule.Key]int, len(turns))
	turns = slices.DeleteFunc(turns, func(t turn) bool {
		owner := schedule.Owner(t.overlapKey)
		places[owner]++
		place[t.key] = places[owner]
		return places[owner] > roomOf(owner)
	})
	now := c.req.Now.UnixMicro()
	slices.SortFunc(turns, func(a, b turn) int {
		return cmp.Or(schedule.Last(a.fireAt > now, b.fireAt > now), schedule.Last(a.afterOthers, b.afterOthers),
			cmp.Compare(place[a.key], place[b.key]), c.inTurn(a, b))
	})
	return turns[:min(len(turns), limit)]
}

// ranks hops through schedule_runs_turns from one rank of an owner to the next,
// whether anything of it is due or not, and gives up beyond maxRanks.
func (c *claiming) ranks(ctx context.Context) (found []ranked, err error) {
	var k ranked
	hop := func(statement string, args ...any) (hopped bool, err error) {
		err = c.t.query(ctx, statement, func(scan scan) error {
			hopped = true
			return scan(&k.owner, &k.rank, &k.fireAt)
		}, args...)
		return hopped, err
	}
	more, err := hop(sqlClaimRank)
	for more && err == nil && len(found) <= maxRanks {
		found = append(found, k)
		if more, err = hop(sqlClaimNextRank, k.owner, k.rank); err == nil && !more {
			more, err = hop(sqlClaimNextOwner, k.owner)
		}
	}
	return found, err
}

// shareOutAll is shareOut for many owners.
func (c *claiming) shareOutAll(ctx context.Context, limit int) ([]turn, error) {
	var rooms [][2]any
	err := c.t.query(ctx, sqlClaimOwners, func(scan scan) error {
		var owner string
		err := scan(&owner)
		rooms = append(rooms, [2]any{owner, c.roomOf(owner, limit)})
		return err
	}, c.window(limit)...)
	if err != nil {
		return nil, fmt.Errorf("read the owners of what is due: %w", err)
	}
	arg, err := json.Marshal(rooms)
	if err != nil {
		return nil, fmt.Errorf("write the rooms of owners: %w", err)
	}
	turns, err := c.readTurns(ctx, sqlClaimTurns, append(c.window(limit), string(arg))...)
	if err != nil {
		return nil, fmt.Errorf("read what is due in turns: %w", err)
	}
	return turns, nil
}

// withRoom leaves out what exceeds its owner's room: it stays for later.
func (c *claiming) withRoom(turns []turn) []turn {
	room := make(map[string]int)
	kept := turns[:0]
	for _, t := range turns {
		owner := schedule.Owner(t.overlapKey)
		left, asked := room[owner]
		if !asked {
			left = c.req.Room(owner)
		}
		room[owner] = left - 1
		if left <= 0 {
			c.out.More, c.cramped = true, true
			continue
		}
		kept = append(kept, t)
	}
	return kept
}
