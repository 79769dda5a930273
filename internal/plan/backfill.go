package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// FeedConfig bounds what one pass over the backfills inserts.
type FeedConfig struct {
	Ahead   time.Duration // starts due within this time become rows now
	Portion int           // slots of one backfill examined in one pass
	Pending int           // limit of PLANNED and LAUNCHING rows over all backfills
}

// Feeder decides on backfills at now.
func Feeder(now time.Time, cfg FeedConfig) schedule.BackfillFeeder {
	return schedule.BackfillFeeder{
		Window: func(c *schedule.BackfillCandidate) (slots []time.Time) {
			defer func() { _ = recover() }() // feedOne meets the panic again and reports it
			f, err := newFeeding(c, now, cfg)
			if err != nil || f.capacity() == 0 || f.next().After(f.horizon()) {
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

// given is what this pass has inserted already; the loaded standings do not include it.
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
//  1. It counts the runs that have ended. Runs that gave way to another run of their
//     overlap key, and rows that a pause removed, must be inserted again.
//  2. While there is capacity, it inserts those, then the next matching slots of the range.
//  3. When the range is done and all runs are counted, the backfill is finished.
//
// A backfill without a schedule or a grant is cancelled with the reason. One with an unreadable
// definition is paused and does not affect the others.
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
		f.left = min(f.capacity(), left)
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

type feeding struct {
	c   *schedule.BackfillCandidate
	tt  *Timetable
	now time.Time
	cfg FeedConfig

	unsettled []schedule.BackfillSlot // end not counted yet
	backlog   []schedule.BackfillSlot // subset of unsettled to insert again
	left      int                     // rows that may still be inserted
	given     given
	out       schedule.BackfillDecision
}

// newFeeding works without a timetable when runs can only be settled.
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

func (f *feeding) settle() {
	b := &f.out.Backfill
	open := f.unsettled
	f.unsettled = nil
	for _, slot := range open {
		run := slot.Run
		switch {
		case run == nil && b.State == schedule.BackfillCancelled:
			b.Cancelled++
		case run == nil, schedule.SkippedForAnother(run.Status, run.Reason) && !b.State.Ended():
			f.unsettled, f.backlog = append(f.unsettled, slot), append(f.backlog, slot)
			continue
		case !run.Status.Terminal():
			f.unsettled = append(f.unsettled, slot)
			continue
		case schedule.SkippedForAnother(run.Status, run.Reason):
			b.Skipped++
		default:
			b.Count(run.Status, run.Reason, 1)
			f.refused(run)
		}
		slot.Settled = true
		f.out.Slots = append(f.out.Slots, slot)
	}
}

// refused ends a backfill that has no grant: every further run would be refused too.
func (f *feeding) refused(run *schedule.Run) {
	switch run.Reason {
	case schedule.ReasonGrantExpired, schedule.ReasonGrantRevoked, schedule.ReasonGrantDenied:
		if f.out.Backfill.State == schedule.BackfillRunning {
			f.end(run.Reason, cmp.Or(run.ErrorMessage, "the execution grant does not allow it"))
		}
	}
}

// capacity is how many more runs may be planned or in flight.
func (f *feeding) capacity() int {
	b := &f.c.Backfill
	if b.State != schedule.BackfillRunning || b.OverlapPolicy.Exclusive() && f.c.Busy {
		return 0
	}
	capacity := int(b.Concurrency)
	for _, slot := range f.c.Unsettled {
		if slot.Run != nil && !slot.Run.Status.Terminal() {
			capacity--
		}
	}
	return max(capacity, 0)
}

// next is the instant of the next start; horizon is how far ahead starts become rows.
func (f *feeding) next() time.Time    { return latest(f.now, f.out.Backfill.NextAt) }
func (f *feeding) horizon() time.Time { return f.now.Add(f.cfg.Ahead) }

// again inserts slots once more: under their own key if the row was removed, as a new attempt if
// it had ended. If another run has taken the slot meanwhile, the slot is settled or left for the
// next pass.
func (f *feeding) again() {
	for i, slot := range f.backlog {
		if !f.mayStart() {
			return
		}
		switch state := f.slotState(i); {
		case state.OnWay:
			continue
		case !f.c.Backfill.Reprocess.Wants(state):
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
			row.MaxAttempts += old.Attempt
			f.out.Slots = append(f.out.Slots, schedule.BackfillSlot{RunAt: slot.RunAt, Key: row.Key})
		}
		f.start(row)
	}
}

// goOn goes through the slots of the window.
func (f *feeding) goOn() {
	b := &f.out.Backfill
	if len(f.backlog) > 0 && f.left == 0 { // insert the backlog first
		return
	}
	passed := 0
	for i := len(f.backlog); i < len(f.c.Slots); i++ {
		at, state := f.c.Slots[i], f.slotState(i)
		if !b.Reprocess.Wants(state) {
			b.PassedOver++
			f.advance(at)
			passed++
			continue
		}
		if !f.mayStart() {
			return
		}
		key := schedule.SlotKey(b.ScheduleID, at)
		if state.Rows {
			key = schedule.BackfillKey(b.ScheduleID, b.RequestID, at)
		}
		slot := schedule.BackfillSlot{RunAt: at, Key: key}
		f.out.Slots, f.unsettled = append(f.out.Slots, slot), append(f.unsettled, slot)
		f.start(f.row(at, key))
		b.Inserted++
		f.advance(at)
	}
	f.out.More = passed > 0 && f.left > 0 && len(f.c.Slots) > 0
	if _, any := f.ahead(); !any && len(f.unsettled) == 0 {
		f.finish()
	}
}

func (f *feeding) mayStart() bool { return f.left > 0 && !f.next().After(f.horizon()) }

// start inserts a row for the next start and sets the time of the one after it.
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

// slotState is the current state of the i-th slot that Window returned.
func (f *feeding) slotState(i int) schedule.SlotState {
	state := f.c.SlotStates[i]
	state.OnWay = state.OnWay || f.given.slots[f.slotOf(f.c.Slots[i])]
	return state
}

func (f *feeding) slotOf(at time.Time) slotOf { return slotOf{f.c.Backfill.ScheduleID, at.Unix()} }

// row is a slot as a run of this backfill. Exclusive backfills always use the policy skip: their
// runs give way to all others and are inserted again.
func (f *feeding) row(at time.Time, key schedule.Key) schedule.Run {
	b := &f.c.Backfill
	row := newRow(f.c.Definition, b.Revision, Slot{RunAt: at, Key: key}, schedule.TriggerBackfill)
	row.OverlapPolicy, row.Exclusive, row.RequestedBy = schedule.OverlapAllow, false, b.CreatedBy
	if b.OverlapPolicy.Exclusive() {
		row.OverlapPolicy, row.Exclusive = schedule.OverlapSkip, true
	}
	return row
}

func (f *feeding) advance(at time.Time) {
	if f.out.Backfill.Order == schedule.NewestFirst {
		f.out.Backfill.Cursor = at
	} else {
		f.out.Backfill.Cursor = at.Add(time.Second)
	}
}

// window are the next slots of the range, at most one portion. It stops before slots that the
// planner still owns (after an outage, or with an open backlog): the catch-up policy decides on
// those first.
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

func (f *feeding) ahead() (time.Time, bool) {
	b := &f.out.Backfill
	if b.Order == schedule.NewestFirst {
		at, ok := f.tt.last(b.From, b.Cursor)
		if !ok {
			return at, false
		}
		slot, any := f.tt.From(at) // an interval has a computed neighbour before its first slot
		return at, any && slot.Equal(at)
	}
	at, ok := f.tt.From(b.Cursor)
	return at, ok && at.Before(b.To)
}

// planners reports whether the planner has still to plan the slot or to record it as missed.
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

// pause pauses a backfill that needs an operator.
func (f *feeding) pause(note string) {
	b := &f.out.Backfill
	b.State, b.StateNote, b.ChangedBy = schedule.BackfillPaused, note, ""
	f.event(schedule.EventBackfillPaused, schedule.ReasonNone, fmt.Sprintf("backfill %s: %s", b.BackfillID, note))
}

func (f *feeding) event(kind schedule.EventKind, reason schedule.Reason, note string) {
	b := &f.out.Backfill
	f.out.Events = append(f.out.Events, schedule.Event{
		ScheduleID: b.ScheduleID, Time: f.now, Kind: kind, From: b.From, To: b.To.Add(-time.Second), Count: b.Inserted,
		Reason: reason, Note: note, Revision: b.Revision,
	})
}
