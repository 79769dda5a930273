package tables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// limitNumbers are the columns of max_in_flight and a rate. NULL is 0; the max_in_flight of a
// key is -1 instead.
type limitNumbers struct {
	max  int64
	rate schedule.RateDefinition
}

func (n *limitNumbers) targets() []any {
	return []any{&n.max, &n.rate.Starts, &n.rate.PerMS, &n.rate.Burst}
}

// limitRow is a row of limits.
type limitRow struct {
	schedule.Limit
	numbers limitNumbers
}

func limitFields(r *limitRow) []any {
	fields := []any{&r.No, &r.LimitID, &r.UserID, &r.Shared, &r.Keyed, &r.Ordered}
	return append(append(fields, r.numbers.targets()...), &r.Note, &r.Revision, &r.CreatedAt, &r.UpdatedAt, &r.Used)
}

func (r *limitRow) limit() *schedule.Limit {
	l := r.Limit
	l.MaxInFlight, l.Rate = uint32(r.numbers.max), r.numbers.rate
	return &l
}

// keyRow is a row of limit_keys.
type keyRow struct {
	schedule.LimitKey
	numbers limitNumbers
}

func keyFields(r *keyRow) []any {
	return append(append([]any{&r.Key}, r.numbers.targets()...), &r.Note, &r.Until)
}

func (r *keyRow) key() *schedule.LimitKey {
	k := r.LimitKey
	if n := uint32(r.numbers.max); r.numbers.max >= 0 {
		k.MaxInFlight = &n
	}
	k.Rate = r.numbers.rate
	return &k
}

// errLimitCreated says that somebody has created the limit meanwhile.
var errLimitCreated = errors.New("the limit was created meanwhile")

// ChangeLimit lets decide change a limit, in one transaction and under its lock: after it, no
// admission reads what was before. decide may be called again. It returns the limit after the
// change; nil: there is none.
func (t *Tables) ChangeLimit(ctx context.Context, limitID string, decide func(schedule.LimitFacts) (schedule.LimitChange, error)) (after *schedule.Limit, err error) {
	change := func(ctx context.Context, q Queries) error {
		facts, err := t.dialect.lockLimit(ctx, q, limitID)
		if err != nil {
			return err
		}
		change, err := decide(facts)
		if err != nil {
			return err
		}
		if after = facts.Limit; change.Empty() {
			return nil
		}
		if err := writeLimit(ctx, q, facts.Limit, &change); err != nil {
			return err
		}
		if after, err = readLimit(ctx, q, limitID); err != nil {
			return err
		}
		t.dialect.WakeQueues(q) // more may start now
		if change.Audit == nil {
			return nil
		}
		return t.dialect.InsertAudit(ctx, q, []schedule.AuditEntry{*change.Audit})
	}
	for {
		err = t.write(ctx, change)
		if !errors.Is(err, errLimitCreated) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("change limit %s: %w", schedule.Quote(limitID), err)
	}
	return after, nil
}

// lockLimit reads a limit once no admission uses it. It is nil if there is none.
func (d *Dialect) lockLimit(ctx context.Context, q Queries, limitID string) (facts schedule.LimitFacts, err error) {
	if facts.Limit, err = d.lockedLimit(ctx, q, limitID); err != nil || facts.Limit == nil {
		return facts, err
	}
	var ending, overEnding int
	if _, err = one(ctx, q, []any{&facts.Keys.Count, &ending, &facts.Keys.End, &facts.Over.Count, &overEnding, &facts.Over.End}, sqlLimitKeysEnd, facts.Limit.No); err != nil {
		return facts, fmt.Errorf("count keys: %w", err)
	}
	if ending < facts.Keys.Count {
		facts.Keys.End = time.Time{}
	}
	if overEnding < facts.Over.Count {
		facts.Over.End = time.Time{}
	}
	if _, err = one(ctx, q, []any{&facts.MostUsed}, sqlMostUsedKey, facts.Limit.No); err != nil {
		return facts, fmt.Errorf("count the uses of its keys: %w", err)
	}
	return facts, nil
}

// lockedLimit reads a limit under its lock. While another transaction held the lock, the limit may
// have been deleted and created again under another number: then the lock was the old one's.
func (d *Dialect) lockedLimit(ctx context.Context, q Queries, limitID string) (*schedule.Limit, error) {
	found, err := readLimit(ctx, q, limitID)
	for d.LockLimits != "" && err == nil && found != nil {
		if _, err := d.lockLimits(ctx, q, []string{limitID}); err != nil {
			return nil, err
		}
		var locked *schedule.Limit
		if locked, err = readLimit(ctx, q, limitID); err == nil && locked != nil && locked.No == found.No {
			return locked, nil
		}
		found = locked
	}
	return found, err
}

func writeLimit(ctx context.Context, q Queries, before *schedule.Limit, c *schedule.LimitChange) error {
	if before != nil && !c.Now.IsZero() {
		if _, err := q.Exec(ctx, sqlDropEndedKeys, before.No, c.Now); err != nil {
			return fmt.Errorf("delete ended keys: %w", err)
		}
	}
	switch {
	case c.Delete:
		for _, statement := range []string{sqlDeleteLimitKeys, sqlDeleteLimitStarts, sqlDeleteLimit} {
			if _, err := q.Exec(ctx, statement, before.No); err != nil {
				return fmt.Errorf("delete: %w", err)
			}
		}
	case c.After != nil:
		a := c.After
		statement := sqlUpdateLimit
		if before == nil {
			statement = sqlInsertLimit
		}
		n, err := q.Exec(ctx, statement, a.LimitID, a.UserID, a.Shared, a.Keyed, a.Ordered, orNull(a.MaxInFlight), orNull(a.Rate.Starts), orNull(a.Rate.PerMS), orNull(a.Rate.Burst),
			orNull(a.Note), a.Revision, a.CreatedAt, a.UpdatedAt)
		switch {
		case err != nil:
			return fmt.Errorf("write row: %w", err)
		case n == 0:
			return errLimitCreated
		}
	case c.Key != nil:
		k := c.Key
		var most any
		if k.MaxInFlight != nil {
			most = *k.MaxInFlight
		}
		if _, err := q.Exec(ctx, sqlSetLimitKey, before.No, k.Key, most, orNull(k.Rate.Starts), orNull(k.Rate.PerMS), orNull(k.Rate.Burst), orNull(k.Note), k.Until); err != nil {
			return fmt.Errorf("write key %s: %w", schedule.Quote(k.Key), err)
		}
	case c.DropKey != "":
		if _, err := q.Exec(ctx, sqlDropLimitKey, before.No, c.DropKey); err != nil {
			return fmt.Errorf("delete key %s: %w", schedule.Quote(c.DropKey), err)
		}
	}
	return nil
}

func readLimit(ctx context.Context, q Queries, limitID string) (*schedule.Limit, error) {
	found, err := collect(ctx, q, limitFields, sqlGetLimit, limitID)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0].limit(), nil
}

// GetLimit returns a limit, or schedule.ErrNotFound.
func (t *Tables) GetLimit(ctx context.Context, limitID string) (*schedule.Limit, error) {
	found, err := readLimit(ctx, t.read, limitID)
	if err == nil && found == nil {
		err = schedule.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("limit %s: %w", schedule.Quote(limitID), err)
	}
	return found, nil
}

// ListLimits returns limits in order of limit_id.
func (t *Tables) ListLimits(ctx context.Context, f schedule.LimitFilter) ([]schedule.Limit, error) {
	rows, err := collect(ctx, t.read, limitFields, sqlListLimits, f.After, f.UserID, schedule.PageSize(f.Limit))
	if err != nil {
		return nil, fmt.Errorf("list limits: %w", err)
	}
	limits := make([]schedule.Limit, 0, len(rows))
	for i := range rows {
		limits = append(limits, *rows[i].limit())
	}
	return limits, nil
}

// ListLimitKeys returns the keys of a limit that have their own numbers, in order, those above
// after.
func (t *Tables) ListLimitKeys(ctx context.Context, limitNo int32, after string, limit int) ([]schedule.LimitKey, error) {
	rows, err := collect(ctx, t.read, keyFields, sqlListLimitKeys, limitNo, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list the keys of limit %d: %w", limitNo, err)
	}
	keys := make([]schedule.LimitKey, 0, len(rows))
	for i := range rows {
		keys = append(keys, *rows[i].key())
	}
	return keys, nil
}

// GetLimitKey returns the numbers of one key of a limit, also ended ones. nil: it has none of its
// own.
func (t *Tables) GetLimitKey(ctx context.Context, limitNo int32, key string) (*schedule.LimitKey, error) {
	rows, err := collect(ctx, t.read, keyFields, sqlGetLimitKey, limitNo, key)
	if err != nil {
		return nil, fmt.Errorf("key %s of limit %d: %w", schedule.Quote(key), limitNo, err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	return rows[0].key(), nil
}

// CountLimitUses counts the runs in flight that use a limit, by key, the most used first.
func (t *Tables) CountLimitUses(ctx context.Context, limitNo int32, limit int) ([]schedule.LimitCount, error) {
	found, err := collect(ctx, t.read, func(c *schedule.LimitCount) []any { return []any{&c.Key, &c.Used} }, sqlLimitUsesByKey, limitNo, limit)
	if err != nil {
		return nil, fmt.Errorf("count the uses of limit %d: %w", limitNo, err)
	}
	return found, nil
}

// OrphanUses counts uses of limits by runs that are not in flight, and by reservations that are not
// granted. There should be none.
func (t *Tables) OrphanUses(ctx context.Context) (n int, err error) {
	if _, err = one(ctx, t.read, []any{&n}, sqlOrphanUses); err != nil {
		return 0, fmt.Errorf("count uses without a run: %w", err)
	}
	return n, nil
}

// SweepOrphanUses deletes what OrphanUses counts, if the sweep asks for it.
func SweepOrphanUses(ctx context.Context, q Queries, req *schedule.QueueSweep, out *ledger.SweptQueues) error {
	if !req.Orphans {
		return nil
	}
	n, err := q.Exec(ctx, sqlDropOrphanUses)
	if err != nil {
		return fmt.Errorf("delete uses without a run: %w", err)
	}
	out.Orphans = n
	return nil
}

// ListLimitUses returns runs in flight that use a limit, by key.
func (t *Tables) ListLimitUses(ctx context.Context, limitNo int32, limit int) ([]schedule.LimitUse, error) {
	found, err := collect(ctx, t.read, func(u *schedule.LimitUse) []any { return []any{&u.Key, &u.UsedBy} }, sqlLimitUses, limitNo, limit)
	if err != nil {
		return nil, fmt.Errorf("list the uses of limit %d: %w", limitNo, err)
	}
	return found, nil
}

// readLimits adds the limits of limit sets, heads and waiting reservations to the facts of an admission. lock keeps other
// admissions and changes of these limits out until the transaction ends.
func (d *Dialect) readLimits(ctx context.Context, q Queries, f *ledger.QueueFacts, sets []schedule.Limits, now time.Time, lock bool) error {
	var ids, keys []string
	asked := make(map[schedule.LimitRef]bool)
	ask := func(refs []schedule.LimitRef) {
		for _, ref := range refs {
			if !asked[ref] {
				asked[ref] = true
				ids, keys = append(ids, ref.ID), append(keys, ref.Key)
			}
		}
	}
	for _, r := range f.Reserving(now) {
		ask(r.Limits)
	}
	for i := range f.Heads {
		ask(f.Heads[i].Runs[0].Limits)
	}
	for _, set := range sets {
		ask(set.Refs())
	}
	if len(ids) == 0 {
		return nil
	}
	type row struct {
		ref  schedule.LimitRef
		l    limitRow
		k    keyRow
		used int
		next time.Time
	}
	var found []row
	for locked := map[int32]bool(nil); ; {
		if lock && d.LockLimits != "" {
			var err error
			if locked, err = d.lockLimits(ctx, q, ids); err != nil {
				return err
			}
		}
		var err error
		found, err = collect(ctx, q, func(r *row) []any {
			fields := append([]any{&r.ref.ID, &r.ref.Key, &r.l.No}, r.l.numbers.targets()...)
			return append(append(fields, r.k.numbers.targets()...), &r.k.Until, &r.used, &r.next)
		}, d.LimitsNow, Rows{ids, keys})
		if err != nil {
			return fmt.Errorf("read limits: %w", err)
		}
		// A limit may have been deleted and created again before its lock was free.
		if locked == nil || !slices.ContainsFunc(found, func(r row) bool { return !locked[r.l.No] }) {
			break
		}
	}
	f.Limits = make(map[schedule.LimitRef]*ledger.LimitNow, len(found))
	for i := range found {
		r := &found[i]
		f.Limits[r.ref] = ledger.LimitAt(r.l.limit(), r.k.key(), r.used, r.next, now)
	}
	return nil
}

// lockLimits locks the limits with these ids, and returns their numbers.
func (d *Dialect) lockLimits(ctx context.Context, q Queries, ids []string) (map[int32]bool, error) {
	sorted := slices.Compact(slices.Sorted(slices.Values(ids)))
	nos, err := collect(ctx, q, func(no *int32) []any { return []any{no} }, d.LockLimits, sorted)
	if err != nil {
		return nil, fmt.Errorf("lock limits: %w", err)
	}
	locked := make(map[int32]bool, len(nos))
	for _, no := range nos {
		locked[no] = true
	}
	return locked, nil
}
