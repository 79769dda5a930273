package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// limitTables are limits with what is in flight of them.
type limitTables struct {
	lastLimitNo int32
	limits      map[string]*schedule.Limit // never changed, only replaced
	limitKeys   map[limitKey]schedule.LimitKey
	uses        map[schedule.Key][]ledger.LimitUse // by run or reservation
	starts      map[limitKey]time.Time             // when the next one may start
	queueStarts map[int32]time.Time                // the same of queues

	reservations map[schedule.Key]schedule.Reservation
}

type limitKey struct {
	no  int32
	key string
}

func newLimitTables() limitTables {
	return limitTables{
		limits: make(map[string]*schedule.Limit), limitKeys: make(map[limitKey]schedule.LimitKey), uses: make(map[schedule.Key][]ledger.LimitUse),
		starts: make(map[limitKey]time.Time), queueStarts: make(map[int32]time.Time),
		reservations: make(map[schedule.Key]schedule.Reservation),
	}
}

// putUndone sets an entry of a map; present = false deletes it.
func putUndone[K comparable, V any](t *tx, entries map[K]V, key K, value V, present bool) {
	before, was := entries[key]
	put := func(v V, present bool) {
		if entries[key] = v; !present {
			delete(entries, key)
		}
	}
	put(value, present)
	t.undo = append(t.undo, func() { put(before, was) })
}

// ChangeLimit lets decide change a limit, in one transaction. It returns the limit after the
// change; nil: there is none.
func (s *Store) ChangeLimit(ctx context.Context, limitID string, decide func(schedule.LimitFacts) (schedule.LimitChange, error)) (after *schedule.Limit, err error) {
	err = s.write(ctx, func(t *tx) error {
		var facts schedule.LimitFacts
		if now := t.limits[limitID]; now != nil {
			facts = t.limitFacts(now)
		}
		change, err := decide(facts)
		if err != nil {
			return err
		}
		if after = facts.Limit; change.Empty() {
			return nil
		}
		if facts.Limit != nil {
			t.dropEndedKeys(facts.Limit.No, change.Now)
		}
		switch {
		case change.Delete:
			no := facts.Limit.No
			putUndone(t, t.limits, limitID, nil, false)
			for k := range maps.Clone(t.limitKeys) {
				if k.no == no {
					putUndone(t, t.limitKeys, k, schedule.LimitKey{}, false)
				}
			}
			for k := range maps.Clone(t.starts) {
				if k.no == no {
					putUndone(t, t.starts, k, time.Time{}, false)
				}
			}
		case change.After != nil:
			row := *change.After
			if facts.Limit == nil {
				t.lastLimitNo++
				row.No = t.lastLimitNo
			}
			row.Used, row.CreatedAt, row.UpdatedAt = 0, at(row.CreatedAt), at(row.UpdatedAt)
			putUndone(t, t.limits, limitID, &row, true)
			if t.opts.Watch.Limit != nil {
				told := row
				t.told = append(t.told, func() { t.opts.Watch.Limit(&told) })
			}
		case change.Key != nil:
			key := copyKey(*change.Key)
			key.Until = at(key.Until)
			putUndone(t, t.limitKeys, limitKey{facts.Limit.No, key.Key}, key, true)
		case change.DropKey != "":
			putUndone(t, t.limitKeys, limitKey{facts.Limit.No, change.DropKey}, schedule.LimitKey{}, false)
		}
		after = t.limit(t.limits[limitID])
		t.queued = true
		t.audit(change.Audit, s.Now())
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("change limit %s: %w", schedule.Quote(limitID), err)
	}
	return after, nil
}

// limit is a copy of a limit with the number of its uses; nil of nil.
func (s *Store) limit(l *schedule.Limit) *schedule.Limit {
	if l == nil {
		return nil
	}
	copied := *l
	copied.Used = len(s.usesOf(l.No))
	return &copied
}

// limitFacts is what a change of a limit is decided by.
func (s *Store) limitFacts(l *schedule.Limit) schedule.LimitFacts {
	facts := schedule.LimitFacts{Limit: s.limit(l)}
	note := func(f *schedule.LimitKeyFacts, until time.Time) {
		if f.Count++; until.IsZero() || f.Count > 1 && f.End.IsZero() {
			f.End = time.Time{}
		} else if until.After(f.End) {
			f.End = until
		}
	}
	for at, k := range s.limitKeys {
		if at.no != l.No {
			continue
		}
		note(&facts.Keys, k.Until)
		if k.MaxInFlight != nil && *k.MaxInFlight > 1 {
			note(&facts.Over, k.Until)
		}
	}
	used := make(map[string]int)
	for _, u := range s.usesOf(l.No) {
		used[u.Key]++
		facts.MostUsed = max(facts.MostUsed, used[u.Key])
	}
	return facts
}

// dropEndedKeys deletes the numbers of keys that end by an instant.
func (t *tx) dropEndedKeys(no int32, by time.Time) {
	for k, row := range maps.Clone(t.limitKeys) {
		if k.no == no && !row.Until.IsZero() && !row.Until.After(by) {
			putUndone(t, t.limitKeys, k, schedule.LimitKey{}, false)
		}
	}
}

func copyKey(k schedule.LimitKey) schedule.LimitKey {
	if k.MaxInFlight != nil {
		most := *k.MaxInFlight
		k.MaxInFlight = &most
	}
	return k
}

// usesOf are the uses of a limit, by key and run.
func (s *Store) usesOf(no int32) (uses []schedule.LimitUse) {
	for _, of := range s.uses {
		for _, u := range of {
			if u.LimitNo == no {
				uses = append(uses, schedule.LimitUse{Key: u.Key, UsedBy: u.UsedBy})
			}
		}
	}
	slices.SortFunc(uses, func(a, b schedule.LimitUse) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), slices.Compare(a.UsedBy[:], b.UsedBy[:]))
	})
	return uses
}

// GetLimit returns a limit, or schedule.ErrNotFound.
func (s *Store) GetLimit(ctx context.Context, limitID string) (l *schedule.Limit, err error) {
	err = s.read(ctx, func() error {
		found := s.limits[limitID]
		if found == nil {
			return fmt.Errorf("limit %s: %w", schedule.Quote(limitID), schedule.ErrNotFound)
		}
		l = s.limit(found)
		return nil
	})
	return l, err
}

// ListLimits returns limits in order of limit_id.
func (s *Store) ListLimits(ctx context.Context, f schedule.LimitFilter) (limits []schedule.Limit, err error) {
	err = s.read(ctx, func() error {
		for id, l := range s.limits {
			if id > f.After && (f.UserID == "" || l.UserID == f.UserID || l.Shared) {
				limits = append(limits, *s.limit(l))
			}
		}
		return nil
	})
	slices.SortFunc(limits, func(a, b schedule.Limit) int { return cmp.Compare(a.LimitID, b.LimitID) })
	return limits[:min(len(limits), schedule.PageSize(f.Limit))], err
}

// ListLimitKeys returns the keys of a limit that have their own numbers, in order.
func (s *Store) ListLimitKeys(ctx context.Context, limitNo int32, after string, limit int) (keys []schedule.LimitKey, err error) {
	err = s.read(ctx, func() error {
		for at, k := range s.limitKeys {
			if at.no == limitNo && k.Key > after {
				keys = append(keys, copyKey(k))
			}
		}
		return nil
	})
	slices.SortFunc(keys, func(a, b schedule.LimitKey) int { return cmp.Compare(a.Key, b.Key) })
	return keys[:min(len(keys), limit)], err
}

// GetLimitKey returns the numbers of one key of a limit, also ended ones. nil: it has none of its
// own.
func (s *Store) GetLimitKey(ctx context.Context, limitNo int32, key string) (found *schedule.LimitKey, err error) {
	err = s.read(ctx, func() error {
		if k, own := s.limitKeys[limitKey{limitNo, key}]; own {
			k = copyKey(k)
			found = &k
		}
		return nil
	})
	return found, err
}

// CountLimitUses counts the runs in flight that use a limit, by key, the most used first.
func (s *Store) CountLimitUses(ctx context.Context, limitNo int32, limit int) (counts []schedule.LimitCount, err error) {
	err = s.read(ctx, func() error {
		used := make(map[string]int)
		for _, u := range s.usesOf(limitNo) {
			used[u.Key]++
		}
		for key, n := range used {
			counts = append(counts, schedule.LimitCount{Key: key, Used: n})
		}
		return nil
	})
	slices.SortFunc(counts, func(a, b schedule.LimitCount) int {
		return cmp.Or(cmp.Compare(b.Used, a.Used), cmp.Compare(a.Key, b.Key))
	})
	return counts[:min(len(counts), limit)], err
}

// ListLimitUses returns runs in flight that use a limit, by key.
func (s *Store) ListLimitUses(ctx context.Context, limitNo int32, limit int) (uses []schedule.LimitUse, err error) {
	err = s.read(ctx, func() error {
		uses = s.usesOf(limitNo)
		return nil
	})
	return uses[:min(len(uses), limit)], err
}

// limitsNow adds the limits of the heads and of waiting reservations to the facts of an admission.
func (s *Store) limitsNow(f *ledger.QueueFacts, now time.Time) {
	f.Limits = make(map[schedule.LimitRef]*ledger.LimitNow)
	var named [][]schedule.LimitRef
	for _, r := range f.Reserving(now) {
		named = append(named, r.Limits)
	}
	for i := range f.Heads {
		named = append(named, f.Heads[i].Runs[0].Limits)
	}
	for _, refs := range named {
		for _, ref := range refs {
			l := s.limits[ref.ID]
			if l == nil {
				continue
			}
			used := 0
			for _, u := range s.usesOf(l.No) {
				if u.Key == ref.Key {
					used++
				}
			}
			var numbers *schedule.LimitKey
			if k, own := s.limitKeys[limitKey{l.No, ref.Key}]; own {
				numbers = &k
			}
			f.Limits[ref] = ledger.LimitAt(l, numbers, used, s.starts[limitKey{l.No, ref.Key}], now)
		}
	}
}
