package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

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
		l := &limits[i]
		if l.Keyed {
			keys, err := fullKeys(ctx, store, l, store.Now())
			if err != nil {
				d.unread("limits", err)
				return
			}
			full = append(full, keys...)
		} else if l.MaxInFlight > 0 && l.Used >= int(l.MaxInFlight) {
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

// keysLooked bounds the keys of a limit that the doctor looks at: the most used ones, and those with
// numbers of their own.
const keysLooked = 100

// fullKeys are the keys of a limit without room: by its number for all keys, or by their own, which
// is 0 of a key that is stopped.
func fullKeys(ctx context.Context, store Store, l *schedule.Limit, now time.Time) (full []string, err error) {
	used, err := store.CountLimitUses(ctx, l.No, keysLooked)
	if err != nil {
		return nil, err
	}
	own, err := store.ListLimitKeys(ctx, l.No, "", keysLooked)
	if err != nil {
		return nil, err
	}
	for i := range used {
		key, err := store.GetLimitKey(ctx, l.No, used[i].Key)
		if err != nil {
			return nil, err
		}
		if most, limited, _ := l.NumbersOf(key, now); limited && used[i].Used >= most {
			full = append(full, fmt.Sprintf("%s=%s (%d of %d)", l.LimitID, used[i].Key, used[i].Used, most))
		}
	}
	for i := range own {
		k := &own[i]
		counted := slices.ContainsFunc(used, func(c schedule.LimitCount) bool { return c.Key == k.Key })
		if most, limited, _ := l.NumbersOf(k, now); limited && most == 0 && !counted {
			full = append(full, fmt.Sprintf("%s=%s (0 of 0)", l.LimitID, k.Key))
		}
	}
	return full, nil
}
