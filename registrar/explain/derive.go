package explain

import (
	"slices"
	"time"

	"github.com/carillon/carillon/internal/grant"
	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
	"github.com/carillon/carillon/internal/schedule/describe"
)

// derivation is the state of one Derive.
type derivation struct {
	*Facts
	at    time.Time // Asked, cut to a whole second
	out   Answer
	rule  *revised // of the row, else the one in force at the instant
	clock *describe.Clock
	zone  *time.Location
}

// revised is a revision with its timetable; problem: why it has none.
type revised struct {
	*schedule.Revision
	timetable *plan.Timetable
	problem   string
}

// Derive derives the answer from the facts.
func Derive(f Facts) Answer {
	x := &derivation{Facts: &f, at: f.Asked.UTC().Truncate(time.Second)}
	x.out = Answer{ScheduleID: f.Schedule.ScheduleID, At: f.Asked.UTC(), Now: f.Now, KeptSince: f.KeptSince, Blocking: f.Blocking, Reading: f.Reading}
	x.life()
	row := x.runs()
	switch {
	case row != nil:
		x.setRule(x.revision(row.Revision))
	case x.exists():
		x.setRule(x.inForce(x.at))
	}
	x.out.Range = x.rangeOf()
	x.out.Pause = x.pause()
	x.out.PausedNow = f.Schedule.Alive() && f.Schedule.Pause.Active(f.Now)
	switch {
	case x.skippedReading():
		x.gap()
	case row != nil:
		x.deriveRow(row)
	case x.rule == nil:
		x.noSchedule()
	case x.rule.problem != "":
		x.say(VerdictNotASlot, WhyUnreadable)
		x.out.Detail, x.out.PlanFailure = x.rule.problem, x.last(schedule.PlanFailureEvents)
	case !x.isSlot():
		x.notASlot()
	case x.at.After(f.Now):
		x.ahead()
	default:
		x.passed()
	}
	x.gaps()
	x.neighbours()
	return x.out
}

func (x *derivation) say(v Verdict, why Why) { x.out.Verdict, x.out.Why = v, why }

// runs separates the slot's own row from other runs of the slot.
func (x *derivation) runs() (row *schedule.Run) {
	key := schedule.SlotKey(x.Schedule.ScheduleID, x.at)
	for i := range x.Runs {
		if r := &x.Runs[i]; r.Key == key && x.Asked.Equal(x.at) {
			row = r
			continue
		}
		x.out.Others = append(x.out.Others, x.Runs[i])
	}
	x.out.Run = row
	return row
}

// revision finds a revision by its number; nil if it is deleted.
func (x *derivation) revision(n int64) *revised {
	for i := range x.Revisions {
		if x.Revisions[i].Revision == n {
			return x.read(&x.Revisions[i])
		}
	}
	return nil
}

// inForce is the revision by which a slot at an instant is planned. An edit applies
// only to later slots.
func (x *derivation) inForce(at time.Time) *revised {
	for i := range x.Revisions { // newest first
		if x.Revisions[i].CreatedAt.Before(at) {
			return x.read(&x.Revisions[i])
		}
	}
	return nil
}

func (x *derivation) read(r *schedule.Revision) *revised {
	out := &revised{Revision: r}
	tt, err := plan.NewTimetable(&r.Definition, x.createdBefore(r.CreatedAt), r.CreatedAt)
	if err != nil {
		out.problem = err.Error()
		return out
	}
	out.timetable = tt
	return out
}

// next is the revision after r, or nil.
func (x *derivation) next(r *schedule.Revision) *schedule.Revision {
	for i := len(x.Revisions) - 1; i >= 0; i-- {
		if x.Revisions[i].Revision > r.Revision {
			return &x.Revisions[i]
		}
	}
	return nil
}

func (x *derivation) setRule(r *revised) {
	if r == nil {
		return
	}
	x.rule = r
	x.out.Rule = &Rule{
		Definition: &r.Definition, Revision: r.Revision.Revision, Words: describe.Spec(&r.Definition),
		MadeAt: r.CreatedAt, MadeBy: r.ChangedBy,
	}
	if next := x.next(r.Revision); next != nil {
		x.out.Rule.ReplacedAt = next.CreatedAt
	}
	x.zone = time.UTC
	if zone, err := cronexpr.LoadLocation(r.Definition.Timezone); err == nil {
		x.zone = zone
	}
	if clock, err := describe.NewClock(&r.Definition, x.zone); err == nil {
		x.clock = clock
	}
}

func (x *derivation) isSlot() bool {
	if !x.Asked.Equal(x.at) {
		return false
	}
	next, ok := x.rule.timetable.Next(x.at.Add(-time.Second))
	if !ok || !next.Equal(x.at) {
		return false
	}
	x.out.Slot = x.slot(x.rule, x.at)
	return true
}

// slot describes an instant in the time zone of the rule.
func (x *derivation) slot(r *revised, at time.Time) *Slot {
	s := &Slot{Key: schedule.SlotKey(x.Schedule.ScheduleID, at), RunAt: at, FireAt: at, Local: at.In(x.zone).Format(describe.LocalFormat)}
	if r.timetable != nil {
		s.FireAt = r.timetable.Slot(at).FireAt
	}
	if x.clock != nil {
		before, ok := time.Time{}, false
		if r.timetable != nil {
			before, ok = r.timetable.Last(at.AddDate(0, -1, 0), at)
		}
		if !ok {
			before = at.Add(-time.Second)
		}
		s.Note = x.clock.Note(before, at)
	}
	return s
}

// deriveRow: the row is what happened.
func (x *derivation) deriveRow(row *schedule.Run) {
	if x.rule == nil { // should not happen: a row without its revision. Its own times are still right
		x.zone = time.UTC
		x.out.Slot = &Slot{Key: row.Key, RunAt: row.RunAt, FireAt: row.FireAt, Local: row.RunAt.Format(describe.LocalFormat)}
	} else {
		x.out.Slot = x.slot(x.rule, x.at)
		x.out.Slot.FireAt = row.FireAt
	}
	why := Why(row.Reason)
	x.out.Detail = row.ErrorMessage
	switch row.Status {
	case schedule.StatusSuccess:
		x.say(VerdictRan, why)
	case schedule.StatusFailed:
		x.say(VerdictFailed, why)
	case schedule.StatusSkipped:
		x.say(VerdictSkipped, why)
	case schedule.StatusCancelled:
		x.say(VerdictCancelled, why)
	case schedule.StatusPlanned:
		x.derivePlan(row)
	default:
		x.say(VerdictInFlight, why)
		if row.Retrying() {
			x.say(VerdictRetrying, why)
		}
	}
	if row.Status != schedule.StatusPlanned && !schedule.BlockedBy(row.Reason) && !row.WaitedForTurn() {
		x.out.Blocking = nil // nothing blocked it
	}
}

func (x *derivation) derivePlan(row *schedule.Run) {
	switch {
	case !row.WaitingSince.IsZero():
		x.say(VerdictWaiting, Why(schedule.ReasonOverlap))
	case row.FireAt.After(x.Now):
		x.permitted(row.FireAt)
	default:
		x.say(VerdictDue, WhyUnclaimed)
	}
}

// ahead is for a future slot: what the planner will do, by the current state.
func (x *derivation) ahead() {
	if x.out.Pause != nil {
		x.say(VerdictWillNotFire, Why(schedule.ReasonPaused))
		return
	}
	x.permitted(x.out.Slot.FireAt)
}

func (x *derivation) permitted(fireAt time.Time) {
	x.say(VerdictWillFire, "")
	if x.rule == nil {
		return
	}
	if x.Schedule.PlanFailures > 0 {
		x.out.PlanFailure = x.last(schedule.PlanFailureEvents)
	}
	use := x.rule.Definition.GrantUse(x.RequireGrant)
	if reason, why := grant.Denial(x.Grant, use, fireAt); reason != "" {
		x.say(VerdictWillNotFire, Why(reason))
		x.out.Detail = why
	}
}

// passed is for a past slot without a row.
func (x *derivation) passed() {
	b := x.Schedule.Backlog
	s := x.Schedule
	switch {
	case x.out.Range != nil:
		x.say(VerdictNotFired, Why(x.out.Range.Reason))
	case x.out.Pause != nil:
		x.say(VerdictNotFired, Why(schedule.ReasonPaused))
	case b.Open() && !x.at.Before(b.From) && x.at.Before(b.Until):
		x.say(VerdictDue, WhyBacklog)
		x.out.Backlog = &b
	case s.Alive() && s.Revision == x.rule.Revision.Revision && !s.NextRunAt.IsZero() && !x.at.Before(s.NextRunAt),
		s.Alive() && s.Pause.Paused && !s.Pause.Until.IsZero() && !x.at.Before(s.Pause.Until): // the end of the pause is not processed yet
		x.say(VerdictDue, WhyUnplanned)
		x.out.PlanFailure = x.planFailure()
	case x.at.Before(x.KeptSince):
		x.say(VerdictExpired, WhyRetention)
	default:
		x.say(VerdictUnrecorded, "")
		x.out.PlanFailure = x.last([]schedule.EventKind{schedule.EventClockStepped})
	}
	if x.out.Verdict != VerdictDue {
		x.out.Blocking = nil
	}
}

func (x *derivation) planFailure() *schedule.Event {
	if x.Schedule.PlanFailures == 0 {
		return nil
	}
	return x.last(schedule.PlanFailureEvents)
}

// notASlot derives why the rule has no slot there.
func (x *derivation) notASlot() {
	d := &x.rule.Definition
	x.out.Blocking, x.out.Pause, x.out.Range = nil, nil, nil
	local := x.at.In(x.zone)
	switch {
	case d.Consume.Any():
		x.say(VerdictNotASlot, WhyEventDriven)
	case d.ByHand():
		x.say(VerdictNotASlot, WhyByHand)
	case !d.StartAt.IsZero() && x.Asked.Before(d.StartAt):
		x.say(VerdictNotASlot, WhyBeforeStart)
	case !d.EndAt.IsZero() && x.Asked.After(d.EndAt):
		x.say(VerdictNotASlot, WhyAfterEnd)
	case !x.Asked.Equal(x.at):
		x.say(VerdictNotASlot, WhyFraction)
	case x.clock != nil && x.clock.Repeated(x.at):
		x.say(VerdictNotASlot, WhySecondPass)
	default:
		x.say(VerdictNotASlot, WhyOffRule)
		if d.CronExpr != "" {
			if fields := describe.Mismatch(d.CronExpr, local); len(fields) > 0 {
				x.out.Detail = fields[0]
			}
		}
	}
}

// neighbours finds the slots before and after the instant. It looks at most one
// revision back and one ahead.
func (x *derivation) neighbours() {
	if x.rule == nil || x.rule.timetable == nil {
		return
	}
	next := x.next(x.rule.Revision)
	around := x.Asked
	if x.out.Why == WhyGap {
		around = around.Add(-1) // the instant after the gap may itself be a slot
	}
	if at, ok := x.rule.timetable.Next(around); ok && (next == nil || !at.After(next.CreatedAt)) && (x.out.DeletedAt.IsZero() || !at.After(x.out.DeletedAt)) {
		x.out.Next = x.slot(x.rule, at)
	} else if next != nil && !next.CreatedAt.Before(around) && x.out.DeletedAt.IsZero() {
		if later := x.read(next); later.timetable != nil {
			if at, ok := later.timetable.Next(next.CreatedAt); ok {
				x.out.Next = x.slot(later, at)
			}
		}
	}
	began := x.rule.CreatedAt
	if at, ok := x.rule.timetable.Last(began.Add(time.Nanosecond), schedule.CeilSecond(around)); ok {
		x.out.Previous = x.slot(x.rule, at)
		return
	}
	i := slices.IndexFunc(x.Revisions, func(r schedule.Revision) bool {
		return r.Revision < x.rule.Revision.Revision && r.CreatedAt.After(x.out.CreatedAt.Add(-time.Nanosecond))
	})
	if i < 0 {
		return
	}
	if earlier := x.read(&x.Revisions[i]); earlier.timetable != nil {
		if at, ok := earlier.timetable.Last(earlier.CreatedAt.Add(time.Nanosecond), began.Add(time.Nanosecond)); ok {
			x.out.Previous = x.slot(earlier, at)
		}
	}
}
