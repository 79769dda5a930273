package ledger

import (
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Unique keys of runs in queues. They are checked at entry and by no later transition: a retry, a
// snooze or a run by hand asks for nothing. A row outlives its run only with scope period, so a key
// is judged by its run and not by the row.

// EntryVerdict is the answer to an entry with a unique key.
type EntryVerdict int

// The verdicts.
const (
	EntryNew      EntryVerdict = iota // it takes the key
	EntryReturned                     // the answer is the run that holds the key
	EntryReplaced                     // the same, and that run has changed
)

// Uniques judges the runs of one request, one after the other: a run that has entered holds its key
// for those after it.
type Uniques struct {
	holds map[schedule.Key]*schedule.UniqueFact
	born  map[schedule.Key]bool // runs of the request
	dirty map[schedule.Key]bool // hashes
	order []schedule.Key        // of dirty
	now   time.Time
}

// NewUniques begins with the keys as a transaction has found them, by hash.
func NewUniques(found map[schedule.Key]schedule.UniqueFact, now time.Time) *Uniques {
	u := &Uniques{holds: make(map[schedule.Key]*schedule.UniqueFact), born: make(map[schedule.Key]bool), dirty: make(map[schedule.Key]bool), now: now}
	for hash, fact := range found {
		u.holds[hash] = &fact
	}
	return u
}

// Enter judges one run. row is the new run; it belongs to the request if the verdict is EntryNew,
// and may be changed until Enter was called for all runs. Otherwise key is that of the answer. The
// error is schedule.ErrExists.
func (u *Uniques) Enter(asked *schedule.Unique, hash schedule.Key, row *schedule.Run) (key schedule.Key, verdict EntryVerdict, err error) {
	held := u.holds[hash]
	if held == nil || !holdsKey(held, u.now) {
		u.take(asked, hash, row)
		return row.Key, EntryNew, nil
	}
	switch {
	case asked.OnDuplicate == schedule.DuplicateRefuse:
		return key, 0, schedule.Explain(schedule.ErrExists, "unique key %s is held by %s%s: nothing was added", schedule.Quote(asked.Key), u.holder(held), whyHeld(held))
	case asked.OnDuplicate != schedule.DuplicateReplace || held.Run == nil || !NeverAdmitted(held.Run):
		return held.RunKey, EntryReturned, nil
	case held.Run.ScheduleID != row.ScheduleID:
		return key, 0, schedule.Explain(schedule.ErrExists,
			"unique key %s is held by %s of %s: replace gives it another input, priority and start, and cannot make it a run of %s; cancel that run, or use another key",
			schedule.Quote(asked.Key), u.holder(held), held.Run.ScheduleID, row.ScheduleID)
	}
	u.replace(asked, held, row)
	u.touch(hash)
	return held.RunKey, EntryReplaced, nil
}

// NeverAdmitted reports whether neither the run nor one before it, which it retries, was admitted.
func NeverAdmitted(r *schedule.Run) bool {
	return !r.Status.Terminal() && !r.Queue.State.Admitted() && r.ClaimedAt.IsZero() && r.RetryOf.IsZero() && r.CancelRequestedAt.IsZero()
}

// holdsKey reports whether a key is taken.
func holdsKey(f *schedule.UniqueFact, now time.Time) bool {
	switch f.Scope {
	case schedule.UniqueWaiting:
		return f.Run != nil && NeverAdmitted(f.Run)
	case schedule.UniquePeriod:
		return f.Until.After(now)
	}
	return f.Run != nil
}

// holder names the run that holds a key. A run of the same request is not written if that is refused.
func (u *Uniques) holder(f *schedule.UniqueFact) string {
	if u.born[f.RunKey] {
		return "an earlier run of this request"
	}
	return "run " + f.RunKey.String()
}

func whyHeld(f *schedule.UniqueFact) string {
	if f.Scope == schedule.UniquePeriod {
		return " until " + f.Until.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf(" (scope %s)", f.Scope)
}

func (u *Uniques) touch(hash schedule.Key) {
	if !u.dirty[hash] {
		u.dirty[hash] = true
		u.order = append(u.order, hash)
	}
}

func (u *Uniques) take(asked *schedule.Unique, hash schedule.Key, row *schedule.Run) {
	f := &schedule.UniqueFact{Run: row, UniqueHold: schedule.UniqueHold{
		QueueNo: row.Queue.No, Hash: hash, UserID: row.UserID, Key: asked.Key, RunKey: row.Key, Scope: asked.Scope, FirstAt: stored(u.now),
	}}
	if asked.Scope == schedule.UniquePeriod {
		f.Until = f.FirstAt.Add(time.Duration(asked.PeriodMS) * time.Millisecond)
	}
	if asked.Debounce != nil {
		f.FireBy = f.FirstAt.Add(asked.Debounce.Max())
		startAt(row, quietEnd(asked.Debounce, f.FirstAt, u.now), u.now)
	}
	u.holds[hash], u.born[row.Key] = f, true
	u.touch(hash)
}

// replace gives a run that was never admitted what an entry asks for. It keeps its place, limits,
// attempts and webhook.
func (u *Uniques) replace(asked *schedule.Unique, held *schedule.UniqueFact, row *schedule.Run) {
	r := held.Run
	r.Reprioritize(row.Priority)
	r.Input = row.Input
	fireAt := row.FireAt
	held.Replaced++
	held.FireBy = time.Time{}
	if asked.Debounce != nil {
		fireAt, held.FireBy = quietEnd(asked.Debounce, held.FirstAt, u.now), held.FirstAt.Add(asked.Debounce.Max())
	}
	startAt(r, fireAt, u.now)
}

// quietEnd is when a debounced run starts.
func quietEnd(d *schedule.Debounce, firstAt, now time.Time) time.Time {
	at := now.Add(d.Quiet())
	if latest := firstAt.Add(d.Max()); latest.Before(at) {
		at = latest
	}
	return schedule.Later(at, now).Truncate(time.Millisecond)
}

// startAt sets the start of a job. The end of its wait moves along.
func startAt(r *schedule.Run, at, now time.Time) {
	r.StartBy = WaitsFrom(r, schedule.Later(at, now))
	r.RunAt, r.FireAt = at, at
	if r.Queue.State != schedule.QueueChained {
		r.Queue.State = StateOfEntry(at, now)
	}
}

// Changes are the keys and the runs to write: those that the request has changed, without its own
// runs.
func (u *Uniques) Changes() (holds []schedule.UniqueHold, replaced []schedule.Run) {
	for _, hash := range u.order {
		f := u.holds[hash]
		holds = append(holds, f.UniqueHold)
		if f.Run != nil && !u.born[f.RunKey] {
			replaced = append(replaced, *f.Run)
		}
	}
	return holds, replaced
}

// UniqueAfter is what the end of a run makes of the key that it holds; keeps = false: it is free.
// A retry, and the run after a snooze or an interruption, takes it over, except with scope waiting:
// there the first admission has freed it. With scope period it stays, unless the run was cancelled:
// the clock of who ends a run does not say whether the time is over.
func UniqueAfter(h schedule.UniqueHold, r *schedule.Run) (after schedule.UniqueHold, keeps bool) {
	if h.Scope == schedule.UniqueWaiting {
		return h, false
	}
	if next, goesOn := r.RetriedBy(); goesOn {
		h.RunKey = next
		return h, true
	}
	return h, h.Scope == schedule.UniquePeriod && r.Status != schedule.StatusCancelled
}
