package registrar

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
)

// schedule_id is one namespace for all owners: it is the primary key, and the
// keys of runs are hashes of it. So that no owner blocks a name for another, a
// schedule whose id its owner cannot have is stored as OWNER:ID, and that owner
// goes on using the short id. Callers without an owner use the stored ids only.

// longName is what is stored where an owner cannot have id itself.
func longName(owner, id string) string { return owner + ":" + id }

// ownName is the stored id of the schedule that an owner means by id, or empty.
// short and long are the rows of id and of its long name, nil for none. A living
// schedule goes before a deleted one, then the short name before the long one.
func ownName(owner, id string, short, long *schedule.Schedule) string {
	found := ""
	for _, s := range []*schedule.Schedule{short, long} {
		switch {
		case s == nil || s.UserID != owner:
		case s.Alive():
			return s.ScheduleID
		case found == "":
			found = s.ScheduleID
		}
	}
	return found
}

// newName is the id under which an owner's upsert of id is stored. A schedule
// keeps the name it has, so that it does not move when the short one becomes
// free. An id with a colon may be the long name of another owner's schedule, now
// or later: only an owner's own prefix is stored as it is.
func newName(owner, id string, short, long *schedule.Schedule) string {
	if known := ownName(owner, id, short, long); known != "" {
		return known
	}
	foreignPrefix := strings.Contains(id, ":") && !strings.HasPrefix(id, longName(owner, ""))
	if short == nil && !foreignPrefix {
		return id
	}
	return longName(owner, id)
}

// ScheduleID is the stored id of the schedule that the caller means by id. An id
// that the caller has no schedule of comes back as it is.
func (r *Registrar) ScheduleID(ctx context.Context, id string) (string, error) {
	return r.schedules.storedID(ctx, id)
}

func (s ownSchedules) storedID(ctx context.Context, id string) (string, error) {
	if auth.FromContext(ctx).Owner == "" {
		return id, nil
	}
	found, err := s.GetSchedule(ctx, id)
	switch {
	case errors.Is(err, schedule.ErrNotFound):
		return id, nil
	case err != nil:
		return "", err
	}
	return found.ScheduleID, nil
}

// newNames are the ids under which upserts of these ids are stored, in order.
// What others create meanwhile is found by the transaction. at is the index of
// the id that a *schedule.InvalidError refuses.
func (r *Registrar) newNames(ctx context.Context, ids []string) (names []string, at int, err error) {
	owner := auth.FromContext(ctx).Owner
	if owner == "" || len(ids) == 0 {
		return ids, 0, nil
	}
	var req schedule.ChangeRequest
	for _, id := range ids {
		req.ScheduleIDs = append(req.ScheduleIDs, id, longName(owner, id))
	}
	found, err := r.all.schedules.ReadSchedules(ctx, req)
	if err != nil {
		return nil, 0, err
	}
	names = make([]string, len(ids))
	first := make(map[string]int, len(ids))
	for i, id := range ids {
		if names[i] = id; !schedule.ValidID(id) {
			continue // refused with the other fields
		}
		names[i] = newName(owner, id, found[2*i].Schedule, found[2*i+1].Schedule)
		if !schedule.ValidID(names[i]) {
			return nil, i, schedule.Invalid("schedule_id", id, "is taken, or has a prefix that is not yours, and with the prefix "+
				schedule.Quote(longName(owner, ""))+" it has more than "+strconv.Itoa(schedule.MaxIDLength)+" characters", "choose a shorter id")
		}
		if j, twice := first[names[i]]; twice {
			return nil, i, schedule.Invalid("schedule_id", id, "is stored as "+schedule.Quote(names[i])+", as is "+schedule.Quote(ids[j]), "ids must differ")
		}
		first[names[i]] = i
	}
	return names, 0, nil
}

// nameTries bounds how often an upsert is named again because another owner took
// a name after it was looked up.
const nameTries = 3

// renamed prepares an owner's upserts again and reports whether one of them got
// another name.
func (r *Registrar) renamed(ctx context.Context, all *upserts) bool {
	if auth.FromContext(ctx).Owner == "" {
		return false
	}
	before := all.names
	return r.prepare(ctx, all) == nil && !slices.Equal(before, all.names)
}
