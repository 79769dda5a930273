package registrar

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// LimitKeyInput is a request to give one key of a limit its own numbers. Without any it takes
// them away.
type LimitKeyInput struct {
	LimitID string
	schedule.LimitKey
}

// ChangedLimitKey is a key of a limit after a change.
type ChangedLimitKey struct {
	schedule.LimitKey
	Used    int    // runs in flight that use it
	Warning string // they are more than are allowed; "": they are not
}

// SetLimitKey gives one key of a keyed limit its own numbers. The same again writes nothing.
func (r *Registrar) SetLimitKey(ctx context.Context, in LimitKeyInput) (out ChangedLimitKey, err error) {
	in.Rate, in.Until = in.Rate.Resolved(), utc(in.Until).Truncate(time.Microsecond)
	if err := in.check(); err != nil {
		return out, err
	}
	l, err := r.getLimit(ctx, in.LimitID)
	if err != nil {
		return out, err
	}
	// Read before the lock: had it changed meanwhile, this request would have come before.
	before, err := r.limits.GetLimitKey(ctx, l.No, in.Key)
	if err != nil {
		return out, err
	}
	l, err = r.changeLimit(ctx, in.LimitID, func(f *schedule.LimitFacts, now time.Time) (schedule.LimitChange, error) {
		if f.Limit.No != l.No {
			before = nil // it was deleted and registered again
		}
		return in.change(f.Limit, before, now)
	})
	if err != nil {
		return out, err
	}
	out.LimitKey = in.LimitKey
	counts, err := r.limits.CountLimitUses(ctx, l.No, countedKeys)
	if err != nil {
		return out, err
	}
	out.Used = usesByKey(counts)[in.Key]
	out.Warning = overuse(l, &out.LimitKey, schedule.LimitCount{Key: in.Key, Used: out.Used}, r.now())
	return out, nil
}

// takes reports whether the request takes numbers away.
func (in *LimitKeyInput) takes() bool { return in.MaxInFlight == nil && !in.Rate.Set() }

func (in *LimitKeyInput) check() error {
	var c schedule.Collect
	checkID(&c, "limit_id", in.LimitID)
	if !schedule.ValidLimitKey(in.Key) {
		c.Add("key", in.Key, "is not a valid key", schedule.LimitKeyHint)
	}
	if n := in.MaxInFlight; n != nil && *n > schedule.MaxInFlightLimit {
		c.Add("max_in_flight", *n, fmt.Sprintf("is not within 0 to %d", schedule.MaxInFlightLimit), "leave it out for that of the limit")
	}
	in.Rate.Check(&c, "rate")
	addPrefixed(&c, "", checkNote(in.Note))
	const needed = "set max_in_flight or rate; without both the key has the numbers of the limit"
	if in.takes() && in.Note != "" {
		c.Add("note", in.Note, "is set without numbers", needed)
	}
	switch at := in.Until; {
	case at.IsZero():
	case in.takes():
		c.Add("until", at.Format(time.RFC3339), "is set without numbers", needed)
	case at.Before(schedule.MinTime) || !at.Before(schedule.MaxTime):
		c.Add("until", at.Format(time.RFC3339), "is outside 1970 to 2099", "")
	}
	return c.Err()
}

// change is what the request makes of a limit. before has the numbers of the key; nil: none.
func (in *LimitKeyInput) change(l *schedule.Limit, before *schedule.LimitKey, now time.Time) (schedule.LimitChange, error) {
	if !before.Holds(now) {
		before = nil
	}
	switch {
	case !l.Keyed:
		return schedule.LimitChange{}, schedule.Invalid("key", in.Key, "is a key of a limit without keys", "change max_in_flight and rate of the limit itself")
	case l.Ordered && in.MaxInFlight != nil && *in.MaxInFlight > 1:
		return schedule.LimitChange{}, schedule.Invalid("max_in_flight", *in.MaxInFlight, "is not 0 or 1, and the limit is ordered", "the runs of a key go one after the other; 0 stops the key")
	case !in.Until.IsZero() && !in.Until.After(now):
		return schedule.LimitChange{}, schedule.Invalid("until", in.Until.Format(time.RFC3339), "is not in the future", "it is "+now.Format(time.RFC3339)+" now")
	case in.takes() && before == nil, before != nil && before.Same(&in.LimitKey):
		return schedule.LimitChange{}, nil
	case in.takes():
		return schedule.LimitChange{DropKey: in.Key, Now: now}, nil
	}
	key := in.LimitKey
	return schedule.LimitChange{Key: &key, Now: now}, nil
}

const (
	// countedKeys bounds the keys that are counted for one answer.
	countedKeys = 100_000
	// countsShown are the keys that an answer names with their counts.
	countsShown = 20
	// usersShown are the runs that an answer names; usersRead are looked at for them.
	usersShown, usersRead = 20, 200
)

// LimitUser is a run that uses a limit: it is in flight, or keeps the limit until it is tried again.
type LimitUser struct {
	Key  string // of the limit
	Run  *schedule.Run
	Kept bool // it has the limit from the attempt before it
}

// LimitDetail is a limit with what uses it.
type LimitDetail struct {
	*schedule.Limit
	Keys   []schedule.LimitKey   // with their own numbers in force, a page of them
	UsedOf map[string]int        // runs in flight by key
	Counts []schedule.LimitCount // the most used keys
	Users  []LimitUser           // that the caller may read
	After  string                // the key that the next page begins after; "": this is the last one
}

// GetLimit returns a limit that the caller may see, with the keys after one.
func (r *Registrar) GetLimit(ctx context.Context, limitID, after string, keys int) (d LimitDetail, err error) {
	if d.Limit, err = r.getLimit(ctx, limitID); err != nil {
		return d, err
	}
	if d.Keys, err = r.limits.ListLimitKeys(ctx, d.No, after, keys+1); err != nil {
		return d, err
	}
	if len(d.Keys) > keys {
		d.Keys = d.Keys[:keys]
		d.After = d.Keys[keys-1].Key
	}
	inForce, now := d.Keys[:0], r.now()
	for i := range d.Keys {
		if d.Keys[i].Holds(now) {
			inForce = append(inForce, d.Keys[i])
		}
	}
	d.Keys = inForce
	if d.Used == 0 {
		return d, nil
	}
	if d.Counts, err = r.limits.CountLimitUses(ctx, d.No, countedKeys); err != nil {
		return d, err
	}
	d.UsedOf = usesByKey(d.Counts)
	d.Counts = d.Counts[:min(len(d.Counts), countsShown)]
	d.Users, err = r.limitUsers(ctx, d.Limit, usersShown)
	return d, err
}

func usesByKey(counts []schedule.LimitCount) map[string]int {
	used := make(map[string]int, len(counts))
	for _, c := range counts {
		used[c.Key] = c.Used
	}
	return used
}

// limitUsers are up to n runs in flight that use a limit and that the caller may read.
func (r *Registrar) limitUsers(ctx context.Context, l *schedule.Limit, n int) (users []LimitUser, err error) {
	uses, err := r.limits.ListLimitUses(ctx, l.No, usersRead)
	if err != nil {
		return nil, err
	}
	for _, u := range uses {
		if len(users) == n {
			break
		}
		run, err := r.runs.GetRun(ctx, u.UsedBy)
		if errors.Is(err, schedule.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		users = append(users, LimitUser{Key: u.Key, Run: run, Kept: run.Queue.Kept.Has(schedule.LimitRef{ID: l.LimitID, Key: u.Key})})
	}
	return users, nil
}

// overused says that more runs use a limit than it allows; "": they do not.
func (r *Registrar) overused(ctx context.Context, l *schedule.Limit) (string, error) {
	if l.Used == 0 {
		return "", nil
	}
	counts, err := r.limits.CountLimitUses(ctx, l.No, countsShown)
	if err != nil {
		return "", err
	}
	for _, c := range counts {
		own, err := r.limits.GetLimitKey(ctx, l.No, c.Key)
		if err != nil {
			return "", err
		}
		if text := overuse(l, own, c, r.now()); text != "" {
			return text, nil
		}
	}
	return "", nil
}

func overuse(l *schedule.Limit, own *schedule.LimitKey, c schedule.LimitCount, now time.Time) string {
	most, limited, _ := l.NumbersOf(own, now)
	if !limited || c.Used <= most {
		return ""
	}
	wait := "no other run of it starts"
	if most > 0 {
		wait += fmt.Sprintf(" until fewer than %d use it", most)
	}
	return fmt.Sprintf("%s is in use by %s and allows %d now: what is in flight goes on, and %s", schedule.LimitRef{ID: l.LimitID, Key: c.Key}, usersOf(c.Used), most, wait)
}
