package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/carillon/carillon/internal/schedule"
)

// limits names limits without room, and looks for uses that were left behind. Without limits it
// says nothing.
func (d *doctor) limits(ctx context.Context, store Store) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	limits, err := store.ListLimits(ctx, schedule.LimitFilter{Limit: schedule.MaxPageSize})
	if err != nil {
		d.unread("limits", err)
		return
	}
	orphans, err := store.OrphanUses(ctx)
	if err != nil {
		d.unread("limits", err)
		return
	}
	if orphans > 0 {
		says := fmt.Sprintf("%d uses of limits are of runs that are not in flight, or of reservations that have ended: their limits have less room than they allow", orphans)
		if orphans == 1 {
			says = "1 use of limits is of a run that is not in flight, or of a reservation that has ended: its limit has less room than it allows"
		}
		d.fail("limits", says, "report it as a defect, with the log of the launchers")
	}
	if len(limits) == 0 {
		return
	}
	var full []string
	for i := range limits {
		if l := &limits[i]; !l.Keyed && l.MaxInFlight > 0 && l.Used >= int(l.MaxInFlight) {
			full = append(full, fmt.Sprintf("%s (%d of %d)", l.LimitID, l.Used, l.MaxInFlight))
		}
	}
	count := fmt.Sprint(len(limits))
	if len(limits) == schedule.MaxPageSize {
		count += " or more"
	}
	if len(full) > 0 {
		const named = 10
		if len(full) > named {
			full = append(full[:named], fmt.Sprintf("%d more", len(full)-named))
		}
		d.ok("limits", "%s, full: %s", count, strings.Join(full, ", "))
		return
	}
	d.ok("limits", "%s, none is full", count)
}
