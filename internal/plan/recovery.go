package plan

import (
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// recovery applies one revision's catch-up policy to late rows and to a range of slots without
// rows.
type recovery struct {
	*planner
	d         *schedule.Definition
	tt        *Timetable // of d
	revision  int64
	late      []schedule.Run
	notBefore time.Time // end of the previous portion's period
	nextAt    time.Time // set: when the next portion is due
}

// recent trims a range at both ends. Slots still within the grace (an edit moved them there) are
// planned like on-time slots; slots older than the catch-up window are recorded as missed.
func (r *recovery) recent(s span) span {
	s = r.fireOnTime(s)
	oldest := r.oldest()
	if !s.open() || !s.from.Before(oldest) {
		return s
	}
	cut := earliest(schedule.CeilSecond(oldest), s.until)
	r.record(schedule.EventMissed, schedule.ReasonMissed, span{s.from, cut}, "older than catchup_window_ms")
	return span{cut, s.until}
}

// oldest is the edge of the catch-up window. The policy none never catches up, so it has no edge.
func (r *recovery) oldest() time.Time {
	if r.d.CatchupPolicy == schedule.CatchupNone {
		return time.Time{}
	}
	return r.now.Add(-r.d.CatchupWindow())
}

func (r *recovery) fireOnTime(s span) span {
	if !s.open() {
		return s
	}
	first, ok := r.tt.firstOnTime(s.from, r.now, r.cfg.Grace)
	if !ok || !first.Before(s.until) {
		return s
	}
	for at := first; ok && at.Before(s.until); at, ok = r.tt.Next(at) {
		r.out.Rows = append(r.out.Rows, newRow(r.d, r.revision, r.tt.Slot(at), schedule.TriggerSchedule))
	}
	return span{s.from, first}
}

// run decides on late rows and a recent range, and returns the rest of the range.
func (r *recovery) run(missed span) schedule.Backlog {
	if !missed.open() && len(r.late) == 0 {
		return schedule.Backlog{}
	}
	r.dropAncientRows()
	left := span{}
	switch r.d.CatchupPolicy {
	case schedule.CatchupFireImmediately:
		// Half a tick early, so that the next tick finds the portion due even if it comes a little
		// too soon.
		left = r.inPortions(missed, pace{period: r.cfg.Tick, early: r.cfg.Tick / 2})
	case schedule.CatchupSpread:
		left = r.inPortions(missed, pace{period: r.cfg.Lookahead, even: true})
	case schedule.CatchupLatest:
		r.latest(missed)
	default:
		r.none(missed)
	}
	if !left.open() {
		return schedule.Backlog{}
	}
	return schedule.Backlog{From: left.from, Until: left.until, Revision: r.revision, At: r.nextAt}
}

func (r *recovery) dropAncientRows() {
	oldest := r.oldest()
	kept := make([]schedule.Run, 0, len(r.late))
	for i := range r.late {
		if r.late[i].RunAt.Before(oldest) {
			r.skip(&r.late[i], schedule.ReasonMissed)
			continue
		}
		kept = append(kept, r.late[i])
	}
	r.late = kept
}

func (r *recovery) none(missed span) {
	for i := range r.late {
		r.skip(&r.late[i], schedule.ReasonMissed)
	}
	r.record(schedule.EventMissed, schedule.ReasonMissed, missed, "catchup_policy is none")
}

// latest fires the newest late slot: one of the range, else the last late row, unless a range of
// an older revision has a newer one.
func (r *recovery) latest(missed span) {
	if newest, ok := r.tt.last(missed.from, missed.until); missed.open() && ok {
		r.record(schedule.EventCoalesced, schedule.ReasonCoalesced, span{missed.from, newest}, "catchup_policy is latest")
		r.fire(newest, r.now)
	}
	for i := range r.late {
		row := &r.late[i]
		newer := func(o schedule.Run) bool { return o.Trigger == schedule.TriggerCatchup && o.RunAt.After(row.RunAt) }
		if i < len(r.late)-1 || slices.ContainsFunc(r.out.Rows, newer) {
			r.skip(row, schedule.ReasonCoalesced)
			continue
		}
		r.refire(row, r.now)
	}
}

// pace is the timing of portions.
type pace struct {
	period time.Duration // from the start of one portion to that of the next
	even   bool          // spread over the period; else all fire at its start
	early  time.Duration // how early the next portion may be taken
}

// inPortions fires late rows, then the oldest slots of the range, MaxCatchup per portion. Late
// rows are all decided now and may fill several portions; the range gets at most one portion at a
// time, after the previous one is over.
func (r *recovery) inPortions(missed span, p pace) (left span) {
	limit := max(1, r.cfg.MaxCatchup)
	remaining := max(0, limit-len(r.late))
	if r.notBefore.After(r.now) {
		remaining = 0
	}
	fromRange, _ := r.tt.count(missed.from, missed.until, remaining)
	portion := min(limit, len(r.late)+fromRange)
	start := latest(r.now, r.notBefore)
	fireAt := func(i int) time.Time {
		at := start.Add(time.Duration(i/portion) * p.period)
		if p.even {
			at = at.Add(time.Duration(i%portion) * p.period / time.Duration(portion)).Truncate(time.Millisecond)
		}
		return at
	}
	for i := range r.late {
		r.refire(&r.late[i], fireAt(i))
	}
	left = r.fireOldest(missed, fromRange, func(i int) time.Time { return fireAt(len(r.late) + i) })
	r.nextAt = start
	if fired := len(r.late) + fromRange; fired > 0 {
		portions := (fired + portion - 1) / portion
		r.nextAt = start.Add(time.Duration(portions)*p.period - p.early)
	}
	return left
}

// fireOldest fires the n oldest slots of a range and returns the rest of it.
func (r *recovery) fireOldest(s span, n int, fireAt func(i int) time.Time) (left span) {
	if !s.open() {
		return s
	}
	at, ok := r.tt.From(s.from)
	for i := 0; i < n && ok; i++ {
		r.fire(at, fireAt(i))
		at, ok = r.tt.Next(at)
	}
	if !ok {
		return span{}
	}
	return span{at, s.until}
}

func (r *recovery) fire(runAt, fireAt time.Time) {
	slot := Slot{Key: schedule.SlotKey(r.d.ScheduleID, runAt), RunAt: runAt, FireAt: fireAt}
	r.out.Rows = append(r.out.Rows, newRow(r.d, r.revision, slot, schedule.TriggerCatchup))
}

func (r *recovery) refire(row *schedule.Run, at time.Time) {
	r.out.LateVerdicts = append(r.out.LateVerdicts, schedule.LateVerdict{Key: row.Key, Fire: true, FireAt: at, Trigger: schedule.TriggerCatchup})
}

func (r *recovery) skip(row *schedule.Run, reason schedule.Reason) {
	r.out.LateVerdicts = append(r.out.LateVerdicts, schedule.LateVerdict{Key: row.Key, Reason: reason})
}

// record writes an event for a range of slots without rows, or several where slots between them
// have rows.
func (r *recovery) record(kind schedule.EventKind, reason schedule.Reason, s span, note string) {
	if !s.open() {
		return
	}
	for _, x := range r.tt.Without(s.from, s.until, r.s.Planned) {
		first, _ := r.tt.From(x.From)
		last, _ := r.tt.last(x.From, x.Until)
		r.event(schedule.Event{Kind: kind, Revision: r.revision, From: first, To: last, Count: int64(x.Count), Reason: reason, Note: note})
	}
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
