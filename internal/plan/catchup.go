package plan

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// catchUp deals with everything that is late: rows planned in time but never
// claimed (c.Late), an open backlog, and the slots between the cursor and the
// first on-time slot, in that order, oldest first.
//
// Afterwards the cursor stands at the first on-time slot: on-time slots never
// wait for a backlog.
func (p *planner) catchUp(c *schedule.PlanCandidate) {
	from, until := p.out.NextRunAt, p.firstOnTime()
	p.out.NextRunAt = until
	outage := span{from: from, until: until}
	if until.IsZero() && !from.IsZero() { // exhausted meanwhile: everything up to now is late
		outage.until = p.now.Add(p.s.Jitter() + time.Second)
	}

	if p.out.Backlog.Open() && p.out.Backlog.Revision != p.s.Revision && c.BacklogDefinition != nil {
		p.workOffOld(c.BacklogDefinition)
		if p.out.Backlog.Open() && outage.open() && p.s.CatchupPolicy != schedule.CatchupNone {
			// Two ranges of two revisions do not fit; as at a second edit, the older ends.
			p.closeBacklog("the schedule fell behind again before the range of its older revision was worked off")
		}
	}
	notBefore := time.Time{}
	if p.out.Backlog.Open() && p.out.Backlog.Revision == p.s.Revision {
		outage = outage.with(p.out.Backlog)
		notBefore = p.out.Backlog.At
		p.out.Backlog = schedule.Backlog{}
	}
	if !outage.open() && len(c.Late) == 0 {
		return
	}
	r := recovery{planner: p, d: &p.s.Definition, tt: p.tt, revision: p.s.Revision, notBefore: notBefore, late: c.Late}
	if rest := r.run(outage); rest.open() {
		p.out.Backlog = schedule.Backlog{From: rest.from, Until: rest.until, Revision: p.s.Revision, At: r.nextAt}
	}
}

// workOffOld works off a portion of a backlog that an edit left behind, by the
// definition that was in force then.
func (p *planner) workOffOld(d *schedule.Definition) {
	tt, err := NewTimetable(d, p.s.CreatedAt, time.Time{})
	if err != nil {
		p.closeBacklog("the range's revision can no longer be read: " + err.Error())
		return
	}
	b := p.out.Backlog
	r := recovery{planner: p, d: d, tt: tt, revision: b.Revision, notBefore: b.At}
	rest := r.run(span{from: b.From, until: b.Until})
	p.out.Backlog = schedule.Backlog{}
	if rest.open() {
		p.out.Backlog = schedule.Backlog{From: rest.from, Until: rest.until, Revision: b.Revision, At: r.nextAt}
	}
}

func (p *planner) closeBacklog(why string) {
	b := p.out.Backlog
	p.event(schedule.Event{
		Kind: schedule.EventBacklogClosed, From: b.From, To: b.Until.Add(-time.Second),
		Reason: schedule.ReasonMissed, Note: why,
	})
	p.out.Backlog = schedule.Backlog{}
}

// firstOnTime is the first slot at or after the cursor that is not missed;
// zero = none. fire_at and run_at both grow from slot to slot, so the missed
// ones are a prefix, and all that are older than grace and jitter together can
// be jumped over.
func (p *planner) firstOnTime() time.Time {
	at := p.out.NextRunAt
	if at.IsZero() {
		return at
	}
	if sure := p.now.Add(-p.cfg.Grace - p.s.Jitter() - time.Second); at.Before(sure) {
		var ok bool
		if at, ok = p.tt.From(sure); !ok {
			return time.Time{}
		}
	}
	for ok := true; ok; at, ok = p.tt.Next(at) {
		if !p.tt.Slot(at).missed(p.now, p.cfg.Grace) {
			return at
		}
	}
	return time.Time{}
}

// span is a half-open range of nominal instants; zero from = empty.
type span struct{ from, until time.Time }

func (s span) open() bool { return !s.from.IsZero() && s.from.Before(s.until) }

// with widens s by an open backlog, which lies before it. What was planned
// between the two has rows, and rows are respected.
func (s span) with(b schedule.Backlog) span {
	if !s.open() {
		return span{b.From, b.Until}
	}
	return span{b.From, s.until}
}

// recovery applies one definition's catch-up policy to late rows and a range.
type recovery struct {
	*planner
	d         *schedule.Definition
	tt        *Timetable
	revision  int64
	notBefore time.Time // spread: the window in which the last portion runs ends then
	late      []schedule.Run
	nextAt    time.Time // set: when the next portion is due
}

// run returns what is left of the range for later.
func (r *recovery) run(missed span) span {
	missed = r.dropAncient(missed)
	switch r.d.CatchupPolicy {
	case schedule.CatchupFireImmediately:
		return r.fireImmediately(missed)
	case schedule.CatchupSpread:
		return r.spread(missed)
	case schedule.CatchupLatest:
		return r.latest(missed)
	default:
		return r.none(missed)
	}
}

// dropAncient records what is older than the catch-up window as missed, rows
// and range alike. Under none everything is, whatever its age.
func (r *recovery) dropAncient(missed span) span {
	if r.d.CatchupPolicy == schedule.CatchupNone {
		return missed
	}
	oldest := r.now.Add(-r.d.CatchupWindow())
	kept := r.late[:0:0]
	for _, row := range r.late {
		if row.RunAt.Before(oldest) {
			r.skip(row, schedule.ReasonMissed)
			continue
		}
		kept = append(kept, row)
	}
	r.late = kept
	if missed.open() && missed.from.Before(oldest) {
		cut := earliest(schedule.CeilSecond(oldest), missed.until)
		r.record(schedule.EventMissed, schedule.ReasonMissed, span{missed.from, cut}, "older than catchup_window_ms")
		missed.from = cut
	}
	return missed
}

// none fires nothing but what an edit moved into the range while it was still
// within the grace.
func (r *recovery) none(missed span) span {
	for _, row := range r.late {
		r.skip(row, schedule.ReasonMissed)
	}
	r.record(schedule.EventMissed, schedule.ReasonMissed, r.fireOnTime(missed), "catchup_policy is none")
	return span{}
}

// latest fires the newest of everything that is late, and on-time ones.
func (r *recovery) latest(missed span) span {
	missed = r.fireOnTime(missed)
	newest, ok := r.tt.last(missed.from, missed.until)
	if missed.open() && ok {
		r.record(schedule.EventCoalesced, schedule.ReasonCoalesced, span{missed.from, newest}, "catchup_policy is latest")
		r.fire(newest, r.now)
	}
	for i, row := range r.late {
		if i == len(r.late)-1 && !ok {
			r.refire(row, r.now)
			continue
		}
		r.skip(row, schedule.ReasonCoalesced)
	}
	return span{}
}

// fireImmediately fires at most MaxCatchup missed slots per tick, oldest first.
func (r *recovery) fireImmediately(missed span) span {
	missed = r.fireOnTime(missed)
	portion := max(1, r.cfg.MaxCatchup)
	for i, row := range r.late {
		r.refire(row, r.now.Add(time.Duration(i/portion)*r.cfg.Tick))
	}
	if r.notBefore.After(r.now) { // this tick's portion has gone already
		r.nextAt = r.notBefore
		return missed
	}
	// Half a tick: the next one must find the backlog due even if it comes early.
	r.nextAt = r.now.Add(r.cfg.Tick / 2)
	return r.emit(missed, portion-len(r.late), func(int) time.Time { return r.now })
}

// spread fires portions of n = min(missed, MaxCatchup) evenly over a lookahead
// window; the next portion is due when that window is over.
func (r *recovery) spread(missed span) span {
	missed = r.fireOnTime(missed)
	t0 := latest(r.now, r.notBefore)
	limit := max(1, r.cfg.MaxCatchup)
	inRange := 0
	if missed.open() && !r.notBefore.After(r.now) {
		inRange, _ = r.tt.count(missed.from, missed.until, limit)
	}
	n := min(len(r.late)+inRange, limit)
	if n == 0 && r.notBefore.After(r.now) { // the window of the last portion still runs
		r.nextAt = r.notBefore
		return missed
	}
	if n == 0 {
		return span{}
	}
	at := func(i int) time.Time {
		return t0.Add(time.Duration(i) * r.cfg.Lookahead / time.Duration(n)).Truncate(time.Millisecond)
	}
	for i, row := range r.late {
		r.refire(row, at(i))
	}
	rest := r.emit(missed, min(inRange, n-len(r.late)), func(i int) time.Time { return at(len(r.late) + i) })
	windows := (len(r.late) + n - 1) / n
	r.nextAt = t0.Add(time.Duration(max(1, windows)) * r.cfg.Lookahead)
	return rest
}

// fireOnTime plans the end of the range that is still within the grace (an
// edit moved it there) like any on-time slot, and returns the missed rest.
func (r *recovery) fireOnTime(s span) span {
	if !s.open() {
		return s
	}
	at, ok := s.from, true
	if sure := r.now.Add(-r.cfg.Grace - r.d.Jitter() - time.Second); at.Before(sure) {
		at = sure
	}
	missedUntil := s.until
	for at, ok = r.tt.From(at); ok && at.Before(s.until); at, ok = r.tt.Next(at) {
		slot := r.tt.Slot(at)
		if slot.missed(r.now, r.cfg.Grace) {
			continue
		}
		missedUntil = earliest(missedUntil, at)
		r.out.Rows = append(r.out.Rows, newRow(r.d, r.revision, slot, schedule.TriggerSchedule))
	}
	return span{s.from, missedUntil}
}

// emit fires up to n slots of the range and returns what is left of it.
func (r *recovery) emit(s span, n int, fireAt func(i int) time.Time) span {
	if !s.open() {
		return span{}
	}
	at, ok := r.tt.From(s.from)
	for i := 0; i < n && ok && at.Before(s.until); i++ {
		r.fire(at, fireAt(i))
		at, ok = r.tt.Next(at)
	}
	if !ok || !at.Before(s.until) {
		return span{}
	}
	return span{at, s.until}
}

func (r *recovery) fire(runAt, fireAt time.Time) {
	slot := Slot{Key: schedule.SlotKey(r.d.ScheduleID, runAt), RunAt: runAt, FireAt: fireAt}
	r.out.Rows = append(r.out.Rows, newRow(r.d, r.revision, slot, schedule.TriggerCatchup))
}

func (r *recovery) refire(row schedule.Run, at time.Time) {
	r.out.Judged = append(r.out.Judged, schedule.Judgement{Key: row.Key, Fire: true, FireAt: at, Trigger: schedule.TriggerCatchup})
}

func (r *recovery) skip(row schedule.Run, reason schedule.Reason) {
	r.out.Judged = append(r.out.Judged, schedule.Judgement{Key: row.Key, Reason: reason})
}

// record writes one event for a range of slots that will have no rows.
func (r *recovery) record(kind schedule.EventKind, reason schedule.Reason, s span, note string) {
	if !s.open() {
		return
	}
	n, more := r.tt.count(s.from, s.until, maxCount)
	if n == 0 {
		return
	}
	if more {
		note += "; counted to the limit, the range holds more"
	}
	last, _ := r.tt.last(s.from, s.until)
	r.event(schedule.Event{Kind: kind, From: s.from, To: last, Count: int64(n), Reason: reason, Note: note})
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
