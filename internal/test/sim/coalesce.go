package sim

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// coalesceWatch is what one transaction did to runs under policy coalesce: as they were before it.
type coalesceWatch struct {
	began, started, replaced []schedule.Run
}

// coalescing notes a write of a planned run under policy coalesce.
func (l *ledgerWatch) coalescing(before, after *schedule.Run) {
	if before == nil || after == nil || before.Stage() != schedule.StatusPlanned || before.Queue.No != 0 || !coalesces(before) {
		return
	}
	c := &l.coalesced
	switch {
	case after.Reason == schedule.ReasonCoalesced:
		c.replaced = append(c.replaced, *before)
	case flying(after.Status) || after.Queue.No != 0:
		c.started = append(c.started, *before)
	case before.WaitingSince.IsZero() && !after.WaitingSince.IsZero():
		c.began = append(c.began, *after)
	}
}

func coalesces(r *schedule.Run) bool { return r.OverlapPolicy == schedule.OverlapCoalesce }

// isSlot: of two slots of a schedule only the newer one waits; an automatic retry counts as its slot.
func (l *ledgerWatch) isSlot(r *schedule.Run) bool { return r.Trigger.FromSpec() || l.automatic(r) }

// coalescesCommitted checks what a transaction did by the state after it.
func (l *ledgerWatch) coalescesCommitted(at time.Duration) {
	c := l.coalesced
	l.coalesced = coalesceWatch{}
	now := l.began.Add(at)
	for i := range c.began {
		l.waitsAlone(&c.began[i], now)
		l.inherits(&c.began[i], &c)
	}
	for i := range c.started {
		l.inTurn(&c.started[i], &c, now)
	}
}

// waitsAlone: of a schedule one slot waits, and none while a manual run waits.
func (l *ledgerWatch) waitsAlone(r *schedule.Run, now time.Time) {
	for _, h := range l.order {
		o := &h.row
		if o.ScheduleID != r.ScheduleID || o.Key == r.Key || o.OverlapKey != r.OverlapKey || !l.isWaiting(h, now) {
			continue
		}
		slots := l.isSlot(o) && l.isSlot(r)
		if slots || l.isSlot(o) && r.Trigger == schedule.TriggerManual || l.isSlot(r) && o.Trigger == schedule.TriggerManual {
			l.violation("%s run_at %s (%s) and run_at %s (%s) wait together under coalesce", r.ScheduleID, l.at(r.RunAt), r.Trigger, l.at(o.RunAt), o.Trigger)
		}
	}
}

// isWaiting: a run under policy coalesce waits for its overlap key, and for nothing else.
func (l *ledgerWatch) isWaiting(h *history, now time.Time) bool {
	r := &h.row
	return !h.gone && coalesces(r) && r.Status == schedule.StatusPlanned && r.Queue.No == 0 && !r.WaitingSince.IsZero() && !l.held(h, now)
}

// turn is since when the oldest of the runs waited whose place one of a schedule took; zero: none did.
func (c *coalesceWatch) turn(r *schedule.Run) (since time.Time) {
	for i := range c.replaced {
		if o := &c.replaced[i]; o.ScheduleID == r.ScheduleID && o.OverlapKey == r.OverlapKey && !o.WaitingSince.IsZero() && (since.IsZero() || o.WaitingSince.Before(since)) {
			since = o.WaitingSince
		}
	}
	return since
}

// manuals counts the manual runs of a schedule that begin to wait or start.
func (c *coalesceWatch) manuals(r *schedule.Run) (n int) {
	for _, runs := range [][]schedule.Run{c.began, c.started} {
		for i := range runs {
			if runs[i].ScheduleID == r.ScheduleID && runs[i].Trigger == schedule.TriggerManual {
				n++
			}
		}
	}
	return n
}

// inherits: a run that begins to wait has waited as long as those whose place it takes.
func (l *ledgerWatch) inherits(r *schedule.Run, c *coalesceWatch) {
	want, turn := r.UpdatedAt, c.turn(r)
	others := c.manuals(r) > 1
	if !turn.IsZero() && (l.isSlot(r) || r.Trigger == schedule.TriggerManual && !others) {
		want = turn
		l.coverage.situations[turnInherited].Add(1)
	}
	if !r.WaitingSince.Equal(want) && !others {
		l.violation("%s run_at %s (%s) waits since %s under coalesce, not since %s", r.ScheduleID, l.at(r.RunAt), r.Trigger, l.at(r.WaitingSince), l.at(want))
	}
}

// inTurn: a run that starts passes none that waits and comes before it.
func (l *ledgerWatch) inTurn(r *schedule.Run, c *coalesceWatch, now time.Time) {
	begun := make(map[schedule.Key]bool)
	for i := range c.began {
		begun[c.began[i].Key] = true
	}
	// since is when the turn of a run began: those that begin now come after all others.
	since := func(x *schedule.Run) time.Time {
		if begun[x.Key] || x.WaitingSince.IsZero() {
			if turn := c.turn(x); !turn.IsZero() && (l.isSlot(x) || x.Trigger == schedule.TriggerManual) {
				return turn
			}
			return schedule.MaxTime
		}
		return x.WaitingSince
	}
	if c.manuals(r) > 1 { // one of them has the turn of the slots
		return
	}
	for _, h := range l.order {
		o := &h.row
		if o.OverlapKey != r.OverlapKey || o.Key == r.Key || !l.isWaiting(h, now) || c.manuals(o) > 1 {
			continue
		}
		l.coverage.situations[turnTakenFirst].Add(1)
		before := cmp.Or(schedule.FalseFirst(o.Trigger.AfterOthers(), r.Trigger.AfterOthers()), cmp.Compare(r.Priority, o.Priority),
			since(o).Compare(since(r)), o.FireAt.Compare(r.FireAt), o.RunAt.Compare(r.RunAt), bytes.Compare(o.Key[:], r.Key[:]))
		if before < 0 {
			l.violation("%s run_at %s (%s, priority %d, fire_at %s, turn %s) started under coalesce before %s run_at %s (%s, priority %d, fire_at %s, turn %s), which comes first",
				r.ScheduleID, l.at(r.RunAt), r.Trigger, r.Priority, l.at(r.FireAt), l.at(since(r)), o.ScheduleID, l.at(o.RunAt), o.Trigger, o.Priority, l.at(o.FireAt), l.at(since(o)))
		}
	}
}

// hasHeir: a run took the place of one that ended: a newer slot of its schedule or a manual run that
// waits now or starts in this transaction. Of slots that nobody saw in time the planner keeps the
// newest.
func (l *ledgerWatch) hasHeir(before, r *schedule.Run, now time.Time) bool {
	if l.isSlot(r) && now.Sub(r.RunAt) > l.profile.grace && now.Sub(before.FireAt) > l.profile.grace && before.WaitingSince.IsZero() && l.newer(r) {
		return true
	}
	return l.isSlot(r) && slices.ContainsFunc(l.order, func(h *history) bool {
		o := &h.row
		isNow := o.Status == schedule.StatusPlanned || since(o).Equal(r.CompletedAt)
		if h.gone || ended(o.Status) || !isNow || o.ScheduleID != r.ScheduleID || !coalesces(o) || o.FireAt.After(now) || o.Key == r.Key {
			return false
		}
		byHand := o.Trigger == schedule.TriggerManual
		if byHand {
			l.coverage.situations[slotOfManualRun].Add(1)
		} else if l.isSlot(o) && !o.RunAt.Before(r.RunAt) {
			l.coverage.situations[slotCoalesced].Add(1)
		}
		return byHand || l.isSlot(o) && !o.RunAt.Before(r.RunAt)
	})
}
