package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// unreadLimit is how old the last look of a living leader at changes and due runs may be: it looks each
// second.
const unreadLimit = 10 * time.Second

// upkeep looks for open runs that nobody ended, or that should not be open, and for leaders that look at
// nothing.
func (d *doctor) upkeep(ctx context.Context, store Store) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	now := store.Now()
	u, err := store.Upkeep(ctx, now)
	var led []schedule.Leadership
	if err == nil {
		led, err = store.Leaders(ctx, now)
	}
	if err != nil {
		d.unread("upkeep", err)
		return
	}
	before := len(d.findings)
	if u.Unswept > 0 {
		d.fail("upkeep", fmt.Sprintf("runs in flight that passed their time limit over a minute ago: %d", u.Unswept), "check that a worker leads, and its log for failed sweeps")
	}
	if u.EndedOpen > 0 {
		d.fail("upkeep", fmt.Sprintf("runs that are in flight although history has their end: %d", u.EndedOpen), "somebody wrote to open_runs, or it is a defect: docs/runbooks.md, CarillonLedgerStrays")
	}
	for _, l := range led {
		if seen, ok := u.SeenUntil[l.Shard]; ok && !l.Expired && now.Sub(seen) > unreadLimit {
			d.warn("upkeep", fmt.Sprintf("the leader of shard %d last looked at changes and due runs %s ago", l.Shard, now.Sub(seen).Round(100*time.Millisecond)),
				"check its log for failed claims, and the load of the database; `carillon worker resign --shard N` hands over")
		}
	}
	if len(d.findings) == before {
		d.ok("upkeep", "nothing in flight is past its time limit, and leaders look at what is due")
	}
}

// presence looks for launchers without their presence lock. They begin no calls.
func (d *doctor) presence(ctx context.Context, store Store) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	seen, err := store.Instances(ctx, silentLeader)
	var ids, without []string
	for i := range seen {
		switch {
		case !seen[i].Has("launcher"):
		case seen[i].Generation == "":
			without = append(without, seen[i].Host)
		default:
			ids = append(ids, seen[i].ID)
		}
	}
	var gone []string
	if err == nil && len(ids) > 0 {
		gone, err = store.GoneInstances(ctx, ids)
	}
	if err != nil {
		d.unread("presence", err)
		return
	}
	for i := range seen {
		if slices.Contains(gone, seen[i].ID) {
			without = append(without, seen[i].Host)
		}
	}
	if len(without) > 0 {
		d.warn("presence", "launchers without a presence lock: "+strings.Join(without, ", "), "they begin no call, or have just ended; see their log for \"presence lock\"")
		return
	}
	if len(ids) > 0 {
		d.ok("presence", "launchers with a presence lock: %d", len(ids))
	}
}
