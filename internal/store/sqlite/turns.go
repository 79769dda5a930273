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
	key           schedule.Key
	overlapKey    string
	exclusive     bool
	afterOthers   bool // catch-up and backfill go after what is on time
	priority      int64
	fireAt, runAt int64
}

// turns are the first Limit rows in the order of claims, as far as their
// owners have room.
func (c *claiming) turns(ctx context.Context) ([]turn, error) {
	now, limit := c.req.Now.UnixMicro(), max(c.req.Limit, 0)
	turns, err := c.readTurns(ctx, sqlClaimDue, c.window(limit+1)...)
	if err != nil {
		return nil, fmt.Errorf("read what is due: %w", err)
	}
	ready, err := c.readTurns(ctx, sqlClaimReady, c.window(limit+1)...)
	if err != nil {
		return nil, fmt.Errorf("read what waits: %w", err)
	}
	turns = append(turns, ready...)
	slices.SortFunc(turns, func(a, b turn) int {
		return cmp.Or(compareBool(a.fireAt > now, b.fireAt > now), compareBool(a.afterOthers, b.afterOthers), cmp.Compare(b.priority, a.priority),
			cmp.Compare(a.fireAt, b.fireAt), cmp.Compare(a.runAt, b.runAt), slices.Compare(a.key[:], b.key[:]))
	})
	more := len(turns) > limit
	c.out.More = more
	switch {
	case more && limit > 0 && c.req.Room != nil:
		return c.shareOut(ctx, turns[:limit])
	case c.req.Room != nil:
		turns = c.withRoom(turns)
	}
	return turns[:min(len(turns), limit)], nil
}

// window are the arguments that all readings of turns begin with.
func (c *claiming) window(limit int) []any {
	return []any{c.req.Now.UnixMicro(), c.late(), limit, c.soon(), c.first, c.last}
}

func (c *claiming) readTurns(ctx context.Context, statement string, args ...any) ([]turn, error) {
	var turns []turn
	err := c.t.query(ctx, statement, func(scan scan) error {
		var t turn
		err := scan((*key)(&t.key), &t.overlapKey, &t.exclusive, &t.afterOthers, &t.priority, &t.fireAt, &t.runAt)
		turns = append(turns, t)
		return err
	}, args...)
	return turns, err
}

// shareOut is what to do where more is due than the limit lets through: its
// first turns may all be one owner's, and the others come after 10,000 of his.
// Then the owners take turns instead.
func (c *claiming) shareOut(ctx context.Context, turns []turn) ([]turn, error) {
	var owners []string
	err := c.t.query(ctx, sqlClaimOwners, func(scan scan) error {
		var owner string
		err := scan(&owner)
		owners = append(owners, owner)
		return err
	}, c.window(len(turns))...)
	if err != nil {
		return nil, fmt.Errorf("read the owners of what is due: %w", err)
	}
	if len(owners) < 2 { // their order is the usual one
		return c.withRoom(turns), nil
	}
	rooms := make([][2]any, len(owners))
	for i, owner := range owners {
		rooms[i] = [2]any{owner, min(max(c.req.Room(owner), 0), len(turns))}
	}
	arg, err := json.Marshal(rooms)
	if err != nil {
		return nil, fmt.Errorf("write the rooms of owners: %w", err)
	}
	turns, err = c.readTurns(ctx, sqlClaimTurns, append(c.window(len(turns)), string(arg))...)
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
			c.out.More = true
			continue
		}
		kept = append(kept, t)
	}
	return kept
}
