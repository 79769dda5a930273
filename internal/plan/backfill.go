package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// FeedConfig bounds what one pass over the backfills puts down.
type FeedConfig struct {
	Ahead   time.Duration // starts that are due so soon become rows now
	Portion int           // slots of one backfill that a pass goes through
	Pending int           // rows of all backfills that may be PLANNED or LAUNCHING
}

// Feeder decides on backfills at now.
func Feeder(now time.Time, cfg FeedConfig) schedule.BackfillFeeder {
	return schedule.BackfillFeeder{
		Window: func(c *schedule.BackfillCandidate) (slots []time.Time) {
			defer func() { _ = recover() }() // feedOne meets it again, and says so
			f, err := newFeeding(c, now, cfg)
			if err != nil || f.room() == 0 || f.next().After(f.horizon()) {
				return nil
			}
			f.settle()
			for _, slot := range f.backlog {
				slots = append(slots, slot.RunAt)
			}
			return append(slots, f.window()...)
		},
		Decide: func(candidates []schedule.BackfillCandidate, pending int) []schedule.BackfillDecision {
			out := make([]schedule.BackfillDecision, len(candidates))
			left := max(cfg.Pending-pending, 0)
			given := given{keys: make(map[string]bool), slots: make(map[slotOf]bool)}
			for i := range candidates {
				out[i] = feedOne(&candidates[i], now, cfg, left, given)
				left -= len(out[i].Rows)
			}
			return out
		},
	}
}

// given is what a pass has given away already, which its standings do not know.
type given struct {
	keys  map[string]bool // overlap keys
	slots map[slotOf]bool
}

type slotOf struct {
	scheduleID string
	runAt      int64
}

// feedOne feeds one backfill:
//
//  1. the runs that have ended are counted; those that gave way to another run
//     of their overlap key, or whose row was taken back by a pause, are to be
//     inserted again;
//  2. while there is room, they are, then the next slots of the range that are
//     of the kind asked for;
//  3. with the range behind it and all runs counted, it is finished.
//
// One without a schedule or a grant is cancelled with the reason; one whose
// definition cannot be read is paused, and harms no other.
func feedOne(c *schedule.BackfillCandidate, now time.Time, cfg FeedConfig, left int, given given) (d schedule.BackfillDecision) {
	defer func() {
		if p := recover(); p != nil {
			f := &feeding{c: c, now: now, out: schedule.BackfillDecision{Backfill: c.Backfill}}
			f.pause(fmt.Sprintf("the planner panicked: %v", p))
			d = f.out
		}
	}()
	f, err := newFeeding(c, now, cfg)
	f.settle()
	b := &f.out.Backfill
	switch {
	case b.State.Ended():
	case c.Schedule == nil || !c.Schedule.Alive() || c.Schedule.CreatedAt.After(b.CreatedAt):
		f.end(schedule.ReasonDeleted, "the schedule was deleted")
	case b.State == schedule.BackfillPaused:
	case err != nil:
		f.pause(err.Error())
	default:
		f.left = min(f.room(), left)
		f.given = given
		if c.Backfill.OverlapPolicy.Exclusive() && given.keys[b.OverlapKey] {
			f.left = 0
		}
		f.again()
		f.goOn()
		if len(f.out.Rows) > 0 {
			given.keys[b.OverlapKey] = true
		}
	}
	b.Open = !b.State.Ended() || len(f.unsettled) > 0
	if *b != c.Backfill {
		b.UpdatedAt = now
	}
	return f.out
}

// feeding is the state of one decision.
type feeding struct {
	c   *schedule.BackfillCandidate
	tt  *Timetable
	now time.Time
	cfg FeedConfig

	unsettled []schedule.BackfillSlot // whose end is not counted
	backlog   []schedule.BackfillSlot // of them: to be inserted again
	left      int                     // rows that may still be inserted
	given     given
	out       schedule.BackfillDecision
}

// newFeeding also serves, without a timetable, for what can only be settled.
func newFeeding(c *schedule.BackfillCandidate, now time.Time, cfg FeedConfig) (*feeding, error) {
	f := &feeding{c: c, now: now, cfg: cfg, unsettled: c.Unsettled, out: schedule.BackfillDecision{Backfill: c.Backfill}}
	if c.Schedule == nil || c.Definition == nil {
		return f, fmt.Errorf("the definition of revision %d is missing or cannot be read", c.Backfill.Revision)
	}
	tt, err := NewTimetable(c.Definition, c.Schedule.CreatedAt, time.Time{})
	if err != nil {
		return f, fmt.Errorf("read revision %d: %w", c.Backfill.Revision, err)
	}
	f.tt = tt
	return f, nil
}

// settle counts the runs that have ended.
func (f *feeding) settle() {
	b := &f.out.Backfill
	open := f.unsettled
	f.unsettled = nil
	for _, slot := range open {
		run := slot.Run
		switch {
		case run == nil && b.State == schedule.BackfillCancelled:
			b.Cancelled++
		case run == nil, schedule.GaveWay(run.Status, run.Reason) && !b.State.Ended():
			f.unsettled, f.backlog = append(f.unsettled, slot), append(f.backlog, slot)
			continue
		case !run.Status.Terminal():
			f.unsettled = append(f.unsettled, slot)
			continue
		case schedule.GaveWay(run.Status, run.Reason):
			b.Skipped++
		default:
			b.Count(run.Status, run.Reason, 1)
			f.refused(run)
		}
		slot.Settled = true
		f.out.Slots = append(f.out.Slots, slot)
	}
}

// refused ends a backfill whose runs no grant allows: the others would end so too.
func (f *feeding) refused(run *schedule.Run) {
	switch run.Reason {
	case schedule.ReasonGrantExpired, schedule.ReasonGrantRevoked, schedule.ReasonGrantDenied:
		if f.out.Backfill.State == schedule.BackfillRunning {
			f.end(run.Reason, cmp.Or(run.ErrorMessage, "the execution grant does not allow it"))
		}
	}
}

// room is how many more of its runs may be planned or in flight.
func (f *feeding) room() int {
	b := &f.c.Backfill
	if b.State != schedule.BackfillRunning || b.OverlapPolicy.Exclusive() && f.c.Busy {
		return 0
	}
	room := int(b.Concurrency)
	for _, slot := range f.c.Unsettled {
		if slot.Run != nil && !slot.Run.Status.Terminal() {
			room--
		}
	}
	return max(room, 0)
}

// next is the instant of the next start, horizon how far starts become rows.
func (f *feeding) next() time.Time    { return latest(f.now, f.out.Backfill.NextAt) }
func (f *feeding) horizon() time.Time { return f.now.Add(f.cfg.Ahead) }

// again puts down what must be once more: under its own key where the row was
// taken back, as a new attempt where it had ended. Meanwhile another may have run
// the slot: then it is settled, or left for the next time.
func (f *feeding) again() {
	for i, slot := range f.backlog {
		if !f.mayStart() {
			return
		}
		switch standing := f.standing(i); {
		case standing.OnWay:
			continue
		case !f.c.Backfill.Reprocess.Wants(standing):
			f.out.Backfill.Skipped++
			f.unsettled = slices.DeleteFunc(f.unsettled, func(s schedule.BackfillSlot) bool { return s.Key == slot.Key })
			slot.Settled = true
			f.out.Slots = append(f.out.Slots, slot)
			continue
		}
		row := f.row(slot.RunAt, slot.Key)
		if old := slot.Run; old != nil {
			row.Key = schedule.RetryKey(old.Key, f.c.Backfill.RequestID)
			row.Attempt, row.RetryOf = old.Attempt+1, old.Key
			f.out.Slots = append(f.out.Slots, schedule.BackfillSlot{RunAt: slot.RunAt, Key: row.Key})
		}
		f.start(row)
	}
}

// goOn goes through the slots of the window.
func (f *feeding) goOn() {
	b := &f.out.Backfill
	if len(f.backlog) > 0 && f.left == 0 { // what is behind comes first
		return
	}
	passed := 0
	for i := len(f.backlog); i < len(f.c.Slots); i++ {
		at, standing := f.c.Slots[i], f.standing(i)
		if !b.Reprocess.Wants(standing) {
			b.PassedOver++
			f.advance(at)
			passed++
			continue
		}
		if !f.mayStart() {
			return
		}
		key := schedule.SlotKey(b.ScheduleID, at)
		if standing.Rows {
			key = schedule.BackfillKey(b.ScheduleID, b.RequestID, at)
		}
		slot := schedule.BackfillSlot{RunAt: at, Key: key}
		f.out.Slots, f.unsettled = append(f.out.Slots, slot), append(f.unsettled, slot)
		f.start(f.row(at, key))
		b.PutDown++
		f.advance(at)
	}
	f.out.More = passed > 0 && f.left > 0 && len(f.c.Slots) > 0
	if _, any := f.ahead(); !any && len(f.unsettled) == 0 {
		f.finish()
	}
}

func (f *feeding) mayStart() bool { return f.left > 0 && !f.next().After(f.horizon()) }

// start puts a row down for the next start, and the one after it off.
func (f *feeding) start(row schedule.Run) {
	b := &f.out.Backfill
	row.FireAt = f.next()
	if b.RatePerMinute > 0 {
		b.NextAt = row.FireAt.Add(time.Minute / time.Duration(b.RatePerMinute))
	}
	f.out.Rows = append(f.out.Rows, row)
	f.given.slots[f.slotOf(row.RunAt)] = true
	f.left--
}

// standing is how the i-th slot that Window has named stands by now.
func (f *feeding) standing(i int) schedule.Standing {
	standing := f.c.Standings[i]
	standing.OnWay = standing.OnWay || f.given.slots[f.slotOf(f.c.Slots[i])]
	return standing
}

func (f *feeding) slotOf(at time.Time) slotOf { return slotOf{f.c.Backfill.ScheduleID, at.Unix()} }

// row is a slot as a run of this backfill. Exclusive ones are inserted as skip
// whatever the policy: they give way to everything else, and come again.
func (f *feeding) row(at time.Time, key schedule.Key) schedule.Run {
	b := &f.c.Backfill
	row := newRow(f.c.Definition, b.Revision, Slot{RunAt: at, Key: key}, schedule.TriggerBackfill)
	row.OverlapPolicy, row.Exclusive = schedule.OverlapAllow, false
	if b.OverlapPolicy.Exclusive() {
		row.OverlapPolicy, row.Exclusive = schedule.OverlapSkip, true
	}
	return row
}

// advance moves the cursor past a slot.
func (f *feeding) advance(at time.Time) {
	if f.out.Backfill.Order == schedule.NewestFirst {
		f.out.Backfill.Cursor = at
	} else {
		f.out.Backfill.Cursor = at.Add(time.Second)
	}
}

// window are the next slots of the range, up to a portion, and none that is the
// planner's still: an outage has put the cursor or a backlog before it. They
// are judged by the catch-up policy first.
func (f *feeding) window() []time.Time {
	mine := *f
	var slots []time.Time
	for len(slots) < f.cfg.Portion {
		at, ok := mine.ahead()
		if !ok || f.planners(at) {
			break
		}
		slots = append(slots, at)
		mine.advance(at)
	}
	return slots
}

// ahead is the next slot of the range.
func (f *feeding) ahead() (time.Time, bool) {
	b := &f.out.Backfill
	if b.Order == schedule.NewestFirst {
		at, ok := f.tt.last(b.From, b.Cursor)
		if !ok {
			return at, false
		}
		slot, any := f.tt.From(at) // an interval's neighbour before its first slot is none
		return at, any && slot.Equal(at)
	}
	at, ok := f.tt.From(b.Cursor)
	return at, ok && at.Before(b.To)
}

// planners reports whether a slot is yet to be planned, or judged as missed.
func (f *feeding) planners(at time.Time) bool {
	s := f.c.Schedule
	if backlog := s.Backlog; backlog.Open() && !at.Before(backlog.From) && at.Before(backlog.Until) {
		return true
	}
	return !s.Pause.Active(f.now) && !s.NextRunAt.IsZero() && !at.Before(s.NextRunAt)
}

func (f *feeding) finish() {
	b := &f.out.Backfill
	b.State, b.EndedAt = schedule.BackfillFinished, f.now
	f.event(schedule.EventBackfillFinished, schedule.ReasonNone, fmt.Sprintf("backfill %s: %d succeeded, %d failed, %d skipped, %d cancelled, %d passed over",
		b.BackfillID, b.Succeeded, b.Failed, b.Skipped, b.Cancelled, b.PassedOver))
}

func (f *feeding) end(reason schedule.Reason, note string) {
	b := &f.out.Backfill
	b.State, b.Reason, b.StateNote, b.ChangedBy, b.EndedAt = schedule.BackfillCancelled, reason, note, "", f.now
	f.event(schedule.EventBackfillCancelled, reason, fmt.Sprintf("backfill %s: %s", b.BackfillID, note))
}

// pause puts aside what somebody must look at.
func (f *feeding) pause(note string) {
	b := &f.out.Backfill
	b.State, b.StateNote, b.ChangedBy = schedule.BackfillPaused, note, ""
	f.event(schedule.EventBackfillPaused, schedule.ReasonNone, fmt.Sprintf("backfill %s: %s", b.BackfillID, note))
}

func (f *feeding) event(kind schedule.EventKind, reason schedule.Reason, note string) {
	b := &f.out.Backfill
	f.out.Events = append(f.out.Events, schedule.Event{
		ScheduleID: b.ScheduleID, Time: f.now, Kind: kind, From: b.From, To: b.To.Add(-time.Second), Count: b.PutDown,
		Reason: reason, Note: note, Revision: b.Revision,
	})
}
