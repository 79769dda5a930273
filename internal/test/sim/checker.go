package sim

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
)

// checkCall checks one call of the executor: it is recorded, not early, wanted, and the
// same request as before.
func (w *world) checkCall(at time.Duration, by string, call launcher.Call) {
	now := w.began.Add(at)
	run, err := w.ledger.GetRun(context.Background(), call.Key)
	if row := w.watch.countedRow(call.Key); row != nil { // a call may be late
		run, err = row, nil
	}
	switch {
	case err != nil:
		w.violation("the executor was called for %s run_at %s, of which there is no row", call.ScheduleID, w.at(call.ScheduledFor))
		return
	case run.Status == schedule.StatusPlanned:
		w.violation("the executor was called for %s run_at %s, which is only PLANNED", call.ScheduleID, w.at(call.ScheduledFor))
	case run.Deliveries == 0:
		w.violation("the executor was called for %s run_at %s before the call was recorded", call.ScheduleID, w.at(call.ScheduledFor))
	case now.Before(run.FireAt):
		w.violation("the executor was called for %s run_at %s %s early", call.ScheduleID, w.at(call.ScheduledFor), run.FireAt.Sub(now))
	}
	w.executor.mu.Lock()
	known := w.executor.works[call.Key]
	w.executor.mu.Unlock()
	if known != nil && !sameRequest(&known.call, &call) {
		w.violation("the key of %s run_at %s came with another request", call.ScheduleID, w.at(call.ScheduledFor))
	}
	w.watch.mu.Lock()
	defer w.watch.mu.Unlock()
	w.watch.permitted(at, &call, run)
	w.watch.getsEvents(&call)
	if w.watch.jobs[call.Key] != nil {
		w.watch.jobCalled(at, by, &call, run)
		return
	}
	w.watch.startedInTime(now, run)
	f := w.watch.lives[call.ScheduleID]
	f.wake(&f.row, now)
	deleted := !f.row.Alive()
	if f.stopped && f.quiet > 0 && at > f.quiet+time.Second+5*time.Millisecond && (call.Trigger.FromSpec() || call.Trigger == schedule.TriggerEvent || deleted || w.watch.automatic(run)) {
		w.violation("the executor was called for %s run_at %s, %s after its pause or deletion was answered", call.ScheduleID, w.at(call.ScheduledFor), at-f.quiet)
	}
}

func sameRequest(a, b *launcher.Call) bool {
	return a.ScheduleID == b.ScheduleID && a.WorkflowID == b.WorkflowID && a.Version == b.Version && a.UserID == b.UserID &&
		a.ScheduledFor.Equal(b.ScheduledFor) && a.Trigger == b.Trigger && a.ExecutionGrantID == b.ExecutionGrantID && bytes.Equal(a.Input, b.Input)
}

// settled reports whether every due slot has ended and every shard has a leader.
func (w *world) settled() bool {
	w.watch.mu.Lock()
	defer w.watch.mu.Unlock()
	now := time.Now()
	for _, h := range w.watch.order {
		if w.watch.waitsFor(h, now) && !w.watch.keptByQueue(h) {
			return false
		}
	}
	if slices.ContainsFunc(w.watch.jobOrder, w.watch.jobWaitsFor) || len(w.watch.reservations) > 0 {
		return false
	}
	for _, f := range w.watch.backfills {
		if f.row.Open && !w.watch.heldUp(f, now) {
			return false
		}
	}
	for _, f := range w.watch.lives {
		if f.unplanned() {
			return false
		}
	}
	return w.publishing.Load() == 0 && len(w.watch.unserved(now)) == 0
}

// unplanned reports whether slots of a schedule are still to be planned. One that is
// paused without an end waits for its user.
func (f *life) unplanned() bool {
	forGood := f.row.Pause.Paused && f.row.Pause.Until.IsZero()
	return f.row.Alive() && !forGood && (f.row.Pause.Paused || f.row.Backlog.Open() || !f.row.NextRunAt.IsZero())
}

// stuck describes what did not end in time.
func (w *world) stuck() {
	w.watch.mu.Lock()
	defer w.watch.mu.Unlock()
	for _, h := range w.watch.order {
		if w.watch.waitsFor(h, time.Now()) && !w.watch.keptByQueue(h) {
			w.violation("%s run_at %s is still %s, %s after the last fault", h.row.ScheduleID, w.at(h.row.RunAt), h.row.Status, w.profile.calmAfter())
		}
	}
	for _, j := range w.watch.jobOrder {
		if w.watch.jobWaitsFor(j) {
			w.violation("the job %.12s of %s is still %s %s, %s after the last fault", j.row.Key, j.row.ScheduleID, j.row.Status, j.row.Queue.State, w.profile.calmAfter())
		}
	}
	for id, r := range w.watch.reservations {
		w.violation("the reservation %.12s (granted at %s) ends at %s, and is still there %s after the last fault", id, w.at(r.GrantedAt), w.at(r.EndsAt), w.profile.calmAfter())
	}
	for id, f := range w.watch.backfills {
		if f.row.Open && !w.watch.heldUp(f, time.Now()) {
			w.violation("backfill %s of %s is still %s, %s after the last fault: %+v", id, f.row.ScheduleID, f.row.State, w.profile.calmAfter(), f.row)
		}
	}
	for _, id := range w.watch.unserved(time.Now()) {
		w.violation("%s has pending events %s after the last fault", id, w.profile.calmAfter())
	}
	for id, f := range w.watch.lives {
		if f.unplanned() {
			w.violation("%s is still to be planned at %s, %s after the last fault", id, w.at(f.row.NextRunAt), w.profile.calmAfter())
		}
	}
}

// check checks the guarantees of the world as a whole.
func (w *world) check() {
	l := w.watch
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for _, id := range sorted(l.lives) {
		f := l.lives[id]
		f.wake(&f.row, now)
		f.close(now)
		w.conserved(id, f)
	}
	for _, h := range l.order {
		if !h.gone {
			w.planned(h)
			w.truthful(h)
			w.delivered(h)
			if w.watch.jobs[h.row.Key] == nil {
				w.patient(h)
				w.inTime(h)
			}
		}
	}
	for _, id := range sorted(l.backfills) {
		if f := l.backfills[id]; !f.row.Open { // else heldUp
			w.fed(f)
		}
	}
	w.eventsOver()
	w.jobsOver()
	w.toldOnce()
	w.minutesAdd()
	w.toldOutside()
	w.returnedOnce()
	w.onceInEffect()
	w.disjoint()
	w.revivedByHand()
	w.failures()
	w.terms()
	if l.epoch == 0 {
		w.violation("nobody ever led")
	}
}

func sorted[V any](m map[string]V) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// conserved: each slot has exactly one row, or lies in exactly one range.
func (w *world) conserved(id string, f *life) {
	for i := range f.parts {
		p := &f.parts[i]
		for _, at := range p.rule.between(p.from, p.including, p.until) {
			w.watch.slots++
			h := w.watch.rows[key(id, at)]
			row := h != nil && !h.gone && h.row.Trigger.FromSpec() // a backfill's row comes later and does not count
			ranges := 0
			for _, e := range w.watch.ranges[id] {
				if e.Revision == p.revision && !at.Before(e.From) && !at.After(e.To) {
					ranges++
				}
			}
			switch {
			case row && ranges == 0, !row && ranges == 1:
			case h != nil && !h.gone && h.row.Trigger == schedule.TriggerBackfill && ranges == 0:
				// No leader planned for longer than the slot is past, and a backfill took
				// it before the plan did. Its row is the slot's.
			case row && h.claimed+h.completed > 0 && ranges == 1 && (len(f.parts) > 1 || f.paused):
				// docs/decisions.md, Known limits: handled before its run_at, and then the
				// schedule was changed. The row counts.
			default:
				w.violation("the slot of %s run_at %s has %v row and lies in %d ranges", id, w.at(at), row, ranges)
			}
		}
	}
}

// planned: the row of a slot belongs to a slot of the schedule.
func (w *world) planned(h *history) {
	r := &h.row
	if !r.Trigger.FromSpec() {
		return
	}
	f := w.watch.lives[r.ScheduleID]
	// It is kept if it was armed before a change, by the worker's clock, or cancelled
	// by its user.
	early := r.FireAt.Sub(r.RunAt).Abs() + time.Second + w.profile.maxSkew
	for i := range f.parts {
		p := &f.parts[i]
		inside := r.RunAt.After(p.from) || p.including && r.RunAt.Equal(p.from)
		before := !r.RunAt.After(p.until) || h.claimed+h.completed > 0 && r.RunAt.Sub(p.until) <= early || r.Reason == schedule.ReasonCancelled
		if !inside || !before || !p.rule.is(r.RunAt) || p.revision != r.Revision {
			continue
		}
		fireAt := r.FireAt
		if !h.entered.IsZero() {
			fireAt = h.entered
		}
		if r.Trigger == schedule.TriggerSchedule && !fireAt.Equal(p.rule.fireAt(r.RunAt)) && !fireAt.Equal(p.rule.late().fireAt(r.RunAt)) {
			w.violation("%s run_at %s fires at %s, and not at %s", r.ScheduleID, w.at(r.RunAt), w.at(fireAt), w.at(p.rule.fireAt(r.RunAt)))
		}
		return
	}
	w.violation("%s run_at %s revision %d has a row, and is no slot", r.ScheduleID, w.at(r.RunAt), r.Revision)
}

// truthful: the ledger and the executor agree on a run.
func (w *world) truthful(h *history) {
	r, wk := &h.row, w.executor.works[h.row.Key]
	so := true
	switch {
	case r.Status == schedule.StatusSuccess:
		so = wk != nil && !wk.refused && wk.outcome.Status == schedule.StatusSuccess && wk.ends <= h.completed && !wk.cancel
	case r.Reason == schedule.ReasonSnoozed:
		so = r.Status == schedule.StatusSkipped && wk != nil && wk.outcome.Reason == schedule.ReasonSnoozed && wk.ends <= h.completed && !wk.cancel
	case r.Status == schedule.StatusSkipped, r.Reason == schedule.ReasonLaunchUnavailable, r.Reason == schedule.ReasonDeleted, r.Reason == schedule.ReasonWorkflowNotFound:
		so = wk == nil
	case r.Status == schedule.StatusCancelled: // it does not begin later, unless the cancel was not confirmed
		so = wk == nil || wk.began <= h.completed || w.watch.timedOut[r.Key.String()]
	case r.Reason == schedule.ReasonLaunchRefused:
		so = wk != nil && wk.refused
	case r.Reason == schedule.ReasonInterrupted:
		so = wk != nil && wk.outcome.ErrorCode == "interrupted" && !wk.cancel
	case r.Reason == schedule.ReasonWorkflowFailed:
		so = wk != nil && (wk.outcome.Status == schedule.StatusFailed || wk.refused || wk.cancel)
	}
	if !so {
		w.violation("%s run_at %s is %s(%s), and the executor knows it as %+v", r.ScheduleID, w.at(r.RunAt), r.Status, r.Reason, wk)
	}
}

// onceInEffect: no slot took effect under two keys.
func (w *world) onceInEffect() {
	type slot struct {
		id string
		at time.Time
	}
	seen := make(map[slot]bool)
	for _, wk := range w.executor.order {
		s := slot{wk.call.ScheduleID, wk.call.ScheduledFor.UTC()}
		if !wk.call.Trigger.FromSpec() || wk.refused {
			continue
		}
		if seen[s] {
			w.violation("the slot of %s run_at %s took effect twice", s.id, w.at(s.at))
		}
		seen[s] = true
	}
}

// disjoint: exclusive runs of one overlap key do not overlap, unless the ledger had
// ended one without knowing its end, and says so: the first, or the second during its
// call.
func (w *world) disjoint() {
	for i, a := range w.executor.order {
		ha := w.watch.rows[a.call.Key]
		if a.refused || ha == nil || !ha.row.Exclusive {
			continue
		}
		for _, b := range w.executor.order[i+1:] {
			hb := w.watch.rows[b.call.Key]
			if b.refused || hb == nil || !hb.row.Exclusive || hb.row.OverlapKey != ha.row.OverlapKey || b.began >= a.ends {
				continue
			}
			if late := hb.row.Reason == schedule.ReasonLost && hb.completed <= b.began; !late && !w.watch.givenUp(ha) {
				w.violation("%s run_at %s began at +%s while %s run_at %s of the same overlap key ran until +%s, and is %s(%s)", hb.row.ScheduleID,
					w.at(hb.row.RunAt), b.began, ha.row.ScheduleID, w.at(ha.row.RunAt), a.ends, ha.row.Status, ha.row.Reason)
			}
		}
	}
}

// givenUp: the ledger counted the run as ended without knowing that it was.
func (l *ledgerWatch) givenUp(h *history) bool {
	return h.row.Reason == schedule.ReasonTimeout || h.row.Reason == schedule.ReasonDeadline || h.row.Reason == schedule.ReasonLost || l.timedOut[h.row.Key.String()]
}
