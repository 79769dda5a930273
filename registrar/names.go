package registrar

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
)

// schedule_id is one namespace for all owners: it is the primary key, and keys of runs are hashes
// of it. So that no owner blocks a name for another, a schedule with an id that is taken is stored
// as PREFIX:ID, and its owner continues to use the short id. Callers without an owner use the
// stored ids only.

// prefix is the part before the colon in an owner's long names. It is unique, and none starts with
// another. An owner id that is valid in a schedule_id and has no colon is its own prefix. Others
// are escaped: a colon, then each byte other than A–Z a–z 0–9 . - as _ and two hex digits. If that
// is too long, it is two underscores and a hash.
func prefix(owner string) string {
	if schedule.ValidID(owner) && !strings.Contains(owner, ":") {
		return owner
	}
	const most = 64 // leaves as many characters for the id
	var b strings.Builder
	b.WriteByte(':')
	for i := range len(owner) {
		if c := owner[i]; c != '_' && c != ':' && schedule.ValidID(owner[i:i+1]) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	if b.Len() > most {
		sum := sha256.Sum256([]byte(owner))
		return ":__" + hex.EncodeToString(sum[:16])
	}
	return b.String()
}

// longName is the stored id if the owner cannot have the short one.
func longName(owner, id string) string { return prefix(owner) + ":" + id }

// namesOf are the possible stored ids of an owner's schedule id, in lookup order: the short name,
// the long one, and the long one that owners with a colon had in older versions. Invalid ids are
// left out.
func namesOf(owner, id string) []string {
	names := []string{id}
	if long := longName(owner, id); schedule.ValidID(long) {
		names = append(names, long)
	}
	if old := owner + ":" + id; strings.Contains(owner, ":") && schedule.ValidID(old) {
		names = append(names, old)
	}
	return names
}

// ownName is the stored id of the schedule that an owner means, or empty. rows
// are those of namesOf, nil for none. A living schedule goes before a deleted
// one, then an earlier name before a later one.
func ownName(owner string, rows []*schedule.Schedule) string {
	found := ""
	for _, s := range rows {
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

// newName is the id under which an owner's upsert of id is stored. A schedule keeps its name when
// the short one becomes free. An id with a colon may be another owner's long name, now or later,
// so only the owner's prefix is stored as it is.
func newName(owner, id string, rows []*schedule.Schedule) string {
	if known := ownName(owner, rows); known != "" {
		return known
	}
	foreignPrefix := strings.Contains(id, ":") && !strings.HasPrefix(id, longName(owner, ""))
	if rows[0] == nil && !foreignPrefix {
		return id
	}
	return longName(owner, id)
}

// ScheduleID is the stored id of the caller's schedule id. An unknown id is returned unchanged.
func (r *Registrar) ScheduleID(ctx context.Context, id string) (string, error) {
	return r.schedules.storedID(ctx, id)
}

func (s scopedSchedules) storedID(ctx context.Context, id string) (string, error) {
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

// newNames are the ids under which upserts of these ids are stored, in order. The transaction
// finds concurrent creations. at is the index of the id that a *schedule.InvalidError refuses.
func (r *Registrar) newNames(ctx context.Context, ids []string) (names []string, at int, err error) {
	owner := auth.FromContext(ctx).Owner
	if owner == "" || len(ids) == 0 {
		return ids, 0, nil
	}
	var req schedule.ChangeRequest
	for _, id := range ids {
		req.ScheduleIDs = append(req.ScheduleIDs, namesOf(owner, id)...)
	}
	found, err := r.unscoped.ReadSchedules(ctx, req)
	if err != nil {
		return nil, 0, err
	}
	names = make([]string, len(ids))
	first := make(map[string]int, len(ids))
	for i, id := range ids {
		candidates := len(namesOf(owner, id))
		rows := make([]*schedule.Schedule, candidates)
		for j := range rows {
			rows[j] = found[j].Schedule
		}
		found = found[candidates:]
		if names[i] = id; !schedule.ValidID(id) {
			continue // refused with the other fields
		}
		names[i] = newName(owner, id, rows)
		if !schedule.ValidID(names[i]) {
			return nil, i, schedule.Invalid("schedule_id", id, "is taken, or has another owner's prefix, and with the prefix "+
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
