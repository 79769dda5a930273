package plan

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Slot is one nominal instant of a schedule and the instant at which it may be launched.
type Slot struct {
	Key    schedule.Key
	RunAt  time.Time
	FireAt time.Time
}

// Slot computes when the slot at runAt fires. The offset comes from the slot's key, so every
// worker, restart and preview computes the same. It reaches at most half way to the neighbouring
// slots, which keeps their order, and is clamped to the window and to the revision's creation.
func (t *Timetable) Slot(runAt time.Time) Slot {
	key := schedule.SlotKey(t.scheduleID, runAt)
	return Slot{Key: key, RunAt: runAt, FireAt: t.fireAt(key, runAt)}
}

func (t *Timetable) fireAt(key schedule.Key, runAt time.Time) time.Time {
	if t.jitter == 0 {
		return runAt
	}
	return t.moved(key, runAt, t.before(runAt), t.behind(runAt))
}

// before is the previous slot within reach of the jitter; zero: none.
func (t *Timetable) before(runAt time.Time) time.Time {
	if prev, ok := t.rule.Prev(runAt, 2*t.jitter); ok {
		return prev
	}
	return time.Time{}
}

// behind is the next slot within reach of the jitter; zero: none.
func (t *Timetable) behind(runAt time.Time) time.Time {
	if next, ok := t.rule.Next(runAt); ok {
		return next
	}
	return time.Time{}
}

// moved is runAt with its offset. A zero neighbour does not exist or is too far to matter.
func (t *Timetable) moved(key schedule.Key, runAt, prev, next time.Time) time.Time {
	before, after := t.jitter, t.jitter
	if !prev.IsZero() {
		before = min(before, runAt.Sub(prev)/2)
	}
	if !next.IsZero() {
		after = min(after, next.Sub(runAt)/2)
	}
	a, b := before.Milliseconds(), after.Milliseconds()
	fireAt := runAt.Add(time.Duration(int64(key.Fraction(uint64(a+b+1)))-a) * time.Millisecond)
	if fireAt.Before(t.floor) {
		fireAt = t.floor
	}
	if !t.end.IsZero() && fireAt.After(t.end) {
		fireAt = t.end
	}
	return fireAt
}

// missed reports whether the slot at runAt, first decided at now, is past the misfire grace.
// Lateness counts from the later of run_at and fire_at.
func (t *Timetable) missed(runAt, now time.Time, grace time.Duration) bool {
	return now.Sub(runAt) > grace && now.Sub(t.Slot(runAt).FireAt) > grace
}

// firstOnTime is the first slot at or after from that is not missed. run_at and fire_at both grow
// from slot to slot, so the missed slots are a prefix, and all older than grace plus jitter can be
// skipped.
func (t *Timetable) firstOnTime(from, now time.Time, grace time.Duration) (time.Time, bool) {
	sure := now.Add(-grace - t.jitter - time.Second)
	at, ok := t.From(latest(from, sure))
	for ok && t.missed(at, now, grace) {
		at, ok = t.Next(at)
	}
	return at, ok
}
