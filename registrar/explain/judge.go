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

// judge is one answer on its way.
type judge struct {
	*Facts
	at    time.Time // the whole second
	out   Answer
	rule  *revised // in force, or of the row
	clock *describe.Clock
	zone  *time.Location
}

// revised is a revision with its timetable; problem says why there is none.
type revised struct {
	*schedule.Revision
	timetable *plan.Timetable
	problem   string
}

// Judge answers.
func Judge(f Facts) Answer {
	j := &judge{Facts: &f, at: f.Asked.UTC().Truncate(time.Second)}
	j.out = Answer{ScheduleID: f.Schedule.ScheduleID, At: f.Asked.UTC(), Now: f.Now, KeptSince: f.KeptSince, Blocking: f.Blocking, Reading: f.Reading}
	j.life()
	row := j.runs()
	switch {
	case row != nil:
		j.setRule(j.revision(row.Revision))
	case j.exists():
		j.setRule(j.inForce(j.at))
	}
	j.out.Range = j.rangeOf()
	j.out.Pause = j.pause()
	switch {
	case j.skippedReading():
		j.gap()
	case row != nil:
		j.judgeRow(row)
	case j.rule == nil:
		j.noSchedule()
	case j.rule.problem != "":
		j.say(VerdictNotASlot, WhyUnreadable)
		j.out.Detail, j.out.Trouble = j.rule.problem, j.last(schedule.TroubleEvents)
	case !j.isSlot():
		j.notASlot()
	case j.at.After(f.Now):
		j.ahead()
	default:
		j.passed()
	}
	j.gaps()
	j.neighbours()
	return j.out
}

func (j *judge) say(v Verdict, why Why) { j.out.Verdict, j.out.Why = v, why }

// runs splits off the slot's own row.
func (j *judge) runs() (row *schedule.Run) {
	key := schedule.SlotKey(j.Schedule.ScheduleID, j.at)
	for i := range j.Runs {
		if r := &j.Runs[i]; r.Key == key && j.Asked.Equal(j.at) {
			row = r
			continue
		}
		j.out.Others = append(j.out.Others, j.Runs[i])
	}
	j.out.Run = row
	return row
}

// revision is the one of a number; an empty one where it is gone.
func (j *judge) revision(n int64) *revised {
	for i := range j.Revisions {
		if j.Revisions[i].Revision == n {
			return j.read(&j.Revisions[i])
		}
	}
	return nil
}

// inForce is the revision that a slot at an instant is planned by: an edit
// takes only later ones.
func (j *judge) inForce(at time.Time) *revised {
	for i := range j.Revisions { // newest first
		if j.Revisions[i].CreatedAt.Before(at) {
			return j.read(&j.Revisions[i])
		}
	}
	return nil
}

func (j *judge) read(r *schedule.Revision) *revised {
	out := &revised{Revision: r}
	tt, err := plan.NewTimetable(&r.Definition, j.createdBefore(r.CreatedAt), r.CreatedAt)
	if err != nil {
		out.problem = err.Error()
		return out
	}
	out.timetable = tt
	return out
}

// next is the revision that replaced one, or nil.
func (j *judge) next(r *schedule.Revision) *schedule.Revision {
	for i := len(j.Revisions) - 1; i >= 0; i-- {
		if j.Revisions[i].Revision > r.Revision {
			return &j.Revisions[i]
		}
	}
	return nil
}

func (j *judge) setRule(r *revised) {
	if r == nil {
		return
	}
	j.rule = r
	j.out.Rule = &Rule{
		Definition: &r.Definition, Revision: r.Revision.Revision, Words: describe.Spec(&r.Definition),
		MadeAt: r.CreatedAt, MadeBy: r.ChangedBy,
	}
	if next := j.next(r.Revision); next != nil {
		j.out.Rule.ReplacedAt = next.CreatedAt
	}
	j.zone = time.UTC
	if zone, err := cronexpr.LoadLocation(r.Definition.Timezone); err == nil {
		j.zone = zone
	}
	if clock, err := describe.NewClock(&r.Definition, j.zone); err == nil {
		j.clock = clock
	}
}

func (j *judge) isSlot() bool {
	if !j.Asked.Equal(j.at) {
		return false
	}
	next, ok := j.rule.timetable.Next(j.at.Add(-time.Second))
	if !ok || !next.Equal(j.at) {
		return false
	}
	j.out.Slot = j.slot(j.rule, j.at)
	return true
}

// slot is an instant as the rule's clock shows it.
func (j *judge) slot(r *revised, at time.Time) *Slot {
	s := &Slot{Key: schedule.SlotKey(j.Schedule.ScheduleID, at), RunAt: at, FireAt: at, Local: at.In(j.zone).Format(describe.LocalFormat)}
	if r.timetable != nil {
		s.FireAt = r.timetable.Slot(at).FireAt
	}
	if j.clock != nil {
		before, ok := time.Time{}, false
		if r.timetable != nil {
			before, ok = r.timetable.Last(at.AddDate(0, -1, 0), at)
		}
		if !ok {
			before = at.Add(-time.Second)
		}
		s.Note = j.clock.Note(before, at)
	}
	return s
}

// judgeRow: the row is what happened.
func (j *judge) judgeRow(row *schedule.Run) {
	if j.rule == nil { // a row without its revision cannot be; its own times still stand
		j.zone = time.UTC
		j.out.Slot = &Slot{Key: row.Key, RunAt: row.RunAt, FireAt: row.FireAt, Local: row.RunAt.Format(describe.LocalFormat)}
	} else {
		j.out.Slot = j.slot(j.rule, j.at)
		j.out.Slot.FireAt = row.FireAt
	}
	why := Why(row.Reason)
	j.out.Detail = row.ErrorMessage
	switch row.Status {
	case schedule.StatusSuccess:
		j.say(VerdictRan, why)
	case schedule.StatusFailed:
		j.say(VerdictFailed, why)
	case schedule.StatusSkipped:
		j.say(VerdictSkipped, why)
	case schedule.StatusCancelled:
		j.say(VerdictCancelled, why)
	case schedule.StatusPlanned:
		j.judgePlan(row)
	default:
		j.say(VerdictInFlight, why)
		if row.Retrying() {
			j.say(VerdictRetrying, why)
		}
	}
	if row.Status != schedule.StatusPlanned && !schedule.BlockedBy(row.Reason) && !row.WaitedForTurn() {
		j.out.Blocking = nil // nothing was in its way
	}
}

func (j *judge) judgePlan(row *schedule.Run) {
	switch {
	case !row.WaitingSince.IsZero():
		j.say(VerdictWaiting, Why(schedule.ReasonOverlap))
	case row.FireAt.After(j.Now):
		j.permitted(row.FireAt)
	default:
		j.say(VerdictDue, WhyUnclaimed)
	}
}

// ahead: what the planner will make of it, as things stand.
func (j *judge) ahead() {
	if j.out.Pause != nil {
		j.say(VerdictWillNotFire, Why(schedule.ReasonPaused))
		return
	}
	j.permitted(j.out.Slot.FireAt)
}

func (j *judge) permitted(fireAt time.Time) {
	j.say(VerdictWillFire, "")
	if j.rule == nil {
		return
	}
	if j.Schedule.PlanFailures > 0 {
		j.out.Trouble = j.last(schedule.TroubleEvents)
	}
	use := j.rule.Definition.GrantUse(j.RequireGrant)
	if reason, why := grant.Judge(j.Grant, use, fireAt); reason != "" {
		j.say(VerdictWillNotFire, Why(reason))
		j.out.Detail = why
	}
}

// passed: a slot behind us that has no row.
func (j *judge) passed() {
	b := j.Schedule.Backlog
	s := j.Schedule
	switch {
	case j.out.Range != nil:
		j.say(VerdictNotFired, Why(j.out.Range.Reason))
	case j.out.Pause != nil:
		j.say(VerdictNotFired, Why(schedule.ReasonPaused))
	case b.Open() && !j.at.Before(b.From) && j.at.Before(b.Until):
		j.say(VerdictDue, WhyBacklog)
		j.out.Backlog = &b
	case s.Alive() && s.Revision == j.rule.Revision.Revision && !s.NextRunAt.IsZero() && !j.at.Before(s.NextRunAt),
		s.Alive() && s.Pause.Paused && !s.Pause.Until.IsZero() && !j.at.Before(s.Pause.Until): // its end is not yet noticed
		j.say(VerdictDue, WhyUnplanned)
		j.out.Trouble = j.trouble()
	case j.at.Before(j.KeptSince):
		j.say(VerdictExpired, WhyRetention)
	default:
		j.say(VerdictUnrecorded, "")
		j.out.Trouble = j.last([]schedule.EventKind{schedule.EventClockStepped})
	}
	if j.out.Verdict != VerdictDue {
		j.out.Blocking = nil
	}
}

func (j *judge) trouble() *schedule.Event {
	if j.Schedule.PlanFailures == 0 {
		return nil
	}
	return j.last(schedule.TroubleEvents)
}

// notASlot says why the rule has none there.
func (j *judge) notASlot() {
	d := &j.rule.Definition
	j.out.Blocking, j.out.Pause, j.out.Range = nil, nil, nil
	local := j.at.In(j.zone)
	switch {
	case d.CronExpr == "" && d.IntervalMS == 0 && d.OnceAt.IsZero():
		j.say(VerdictNotASlot, WhyByHand)
	case !d.StartAt.IsZero() && j.Asked.Before(d.StartAt):
		j.say(VerdictNotASlot, WhyBeforeStart)
	case !d.EndAt.IsZero() && j.Asked.After(d.EndAt):
		j.say(VerdictNotASlot, WhyAfterEnd)
	case !j.Asked.Equal(j.at):
		j.say(VerdictNotASlot, WhyFraction)
	case j.clock != nil && j.clock.Repeated(j.at):
		j.say(VerdictNotASlot, WhySecondPass)
	default:
		j.say(VerdictNotASlot, WhyOffRule)
		if d.CronExpr != "" {
			if fields := describe.Mismatch(d.CronExpr, local); len(fields) > 0 {
				j.out.Detail = fields[0]
			}
		}
	}
}

// neighbours are the slots around the instant. They may lie beyond the revision
// in force: one edit is looked across, either way.
func (j *judge) neighbours() {
	if j.rule == nil || j.rule.timetable == nil {
		return
	}
	next := j.next(j.rule.Revision)
	around := j.Asked
	if j.out.Why == WhyGap {
		around = around.Add(-1) // the instant after the gap may be a slot for something else
	}
	if at, ok := j.rule.timetable.Next(around); ok && (next == nil || !at.After(next.CreatedAt)) && (j.out.DeletedAt.IsZero() || !at.After(j.out.DeletedAt)) {
		j.out.Next = j.slot(j.rule, at)
	} else if next != nil && !next.CreatedAt.Before(around) && j.out.DeletedAt.IsZero() {
		if later := j.read(next); later.timetable != nil {
			if at, ok := later.timetable.Next(next.CreatedAt); ok {
				j.out.Next = j.slot(later, at)
			}
		}
	}
	began := j.rule.CreatedAt
	if at, ok := j.rule.timetable.Last(began.Add(time.Nanosecond), schedule.CeilSecond(around)); ok {
		j.out.Previous = j.slot(j.rule, at)
		return
	}
	i := slices.IndexFunc(j.Revisions, func(r schedule.Revision) bool {
		return r.Revision < j.rule.Revision.Revision && r.CreatedAt.After(j.out.CreatedAt.Add(-time.Nanosecond))
	})
	if i < 0 {
		return
	}
	if earlier := j.read(&j.Revisions[i]); earlier.timetable != nil {
		if at, ok := earlier.timetable.Last(earlier.CreatedAt.Add(time.Nanosecond), began.Add(time.Nanosecond)); ok {
			j.out.Previous = j.slot(earlier, at)
		}
	}
}
