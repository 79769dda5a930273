package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// backfillers request backfills and pause, resume and cancel them at random moments. When
// all faults have ended, they resume the paused ones.
func (w *world) backfillers() {
	busy := w.dice.of(forBackfills)
	time.Sleep(busy.span(2*time.Second, 5*time.Second))
	for n := uint64(0); ; n++ {
		d := busy.of(n + 1)
		time.Sleep(d.of(1).span(50*time.Millisecond, pick(busy.of(0), time.Second, 3*time.Second)))
		if w.elapsed() > w.profile.faulty-time.Second {
			break
		}
		if verb := pick(d.of(2), "ask", "ask", "ask", "pause", "resume", "cancel"); verb == "ask" {
			w.askBackfill(fmt.Sprintf("s%d", d.of(3).below(w.profile.schedules)), d.of(4))
		} else if id, ok := w.watch.someBackfill(d.of(3)); ok {
			w.changeBackfill(verb, id, d.of(4).perMille(500))
		}
	}
	time.Sleep(w.profile.faulty - w.elapsed() + time.Millisecond)
	for _, id := range w.watch.pausedBackfills() {
		w.changeBackfill("resume", id, false)
	}
}

func (w *world) askBackfill(id string, d dice) {
	now := w.clients.now()
	in := registrar.BackfillInput{
		ScheduleID: id, From: now.Add(-d.of(1).span(time.Second, 10*time.Second)), To: now.Add(-d.of(2).span(0, time.Second)),
		Reprocess: pick(d.of(3), schedule.Reprocesses...), Order: pick(d.of(4), schedule.BackfillOrders...),
		OverlapPolicy: pick(d.of(5), "", schedule.OverlapAllow, schedule.OverlapQueue), RatePerMinute: pick(d.of(6), int32(0), 60, 300),
		RequestID: fmt.Sprintf("b%x", uint64(d)),
	}
	if in.OverlapPolicy == schedule.OverlapAllow {
		in.Concurrency = int32(d.of(7).within(1, 3))
	}
	var found registrar.BackfillResult
	err := w.insist(func(ctx context.Context) (err error) {
		found, err = w.registrar.Backfill(ctx, in)
		return err
	})
	w.log.say(w.elapsed(), "user: backfill %s %s..%s %s %s %s %d at once, %d a minute: %+v %v", id, w.at(in.From), w.at(in.To), in.Reprocess, in.Order,
		in.OverlapPolicy, in.Concurrency, in.RatePerMinute, found.Backfill, err)
}

func (w *world) changeBackfill(verb, id string, runs bool) {
	if verb == "cancel" {
		w.watch.cancelling(id)
	}
	in := registrar.BackfillChangeInput{BackfillID: id, CancelRuns: runs}
	err := w.insist(func(ctx context.Context) (err error) {
		switch verb {
		case "pause":
			_, err = w.registrar.PauseBackfill(ctx, in)
		case "resume":
			_, err = w.registrar.ResumeBackfill(ctx, registrar.BackfillChangeInput{BackfillID: id})
		case "cancel":
			_, err = w.registrar.CancelBackfill(ctx, in)
		}
		return err
	})
	w.log.say(w.elapsed(), "user: %s backfill %s: %v", verb, id, err)
}

// backfillLife is one backfill with all its writes.
type backfillLife struct {
	row        schedule.Backfill
	keys       map[int64][]schedule.Key // by run_at: one after the other
	lastStart  time.Time
	cancelling bool // its user has begun to
}

func (l *ledgerWatch) someBackfill(d dice) (string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := sorted(l.backfills)
	if len(ids) == 0 {
		return "", false
	}
	return pick(d, ids...), true
}

func (l *ledgerWatch) pausedBackfills() (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range sorted(l.backfills) {
		if l.backfills[id].row.State == schedule.BackfillPaused {
			ids = append(ids, id)
		}
	}
	return ids
}

func (l *ledgerWatch) cancelling(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.backfills[id].cancelling = true
}

// backfill checks each write of a backfill's row: it moves forward, and an ended backfill
// does not change.
func (l *ledgerWatch) backfill(term *schedule.Term, before, after *schedule.Backfill, slots []schedule.BackfillSlot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fence(term, "a backfill")
	f := l.backfills[after.BackfillID]
	if f == nil {
		f = &backfillLife{keys: make(map[int64][]schedule.Key)}
		l.backfills[after.BackfillID] = f
	}
	f.row = *after
	for _, slot := range slots {
		at := slot.RunAt.Unix()
		if !slices.Contains(f.keys[at], slot.Key) {
			f.keys[at] = append(f.keys[at], slot.Key)
			l.feeds[slot.Key] = f // another's, if that one's row was taken back
		}
	}
	if before == nil {
		return
	}
	back := after.Cursor.Before(before.Cursor)
	if after.Order == schedule.NewestFirst {
		back = after.Cursor.After(before.Cursor)
	}
	switch {
	case back:
		l.violation("backfill %s went back from %s to %s", after.BackfillID, l.at(before.Cursor), l.at(after.Cursor))
	case before.State.Ended() && after.State != before.State:
		l.violation("backfill %s was %s and became %s", after.BackfillID, before.State, after.State)
	case term != nil && after.State == schedule.BackfillPaused && before.State != schedule.BackfillPaused:
		l.violation("backfill %s was paused by the leader: %s", after.BackfillID, after.StateNote)
	case after.Inserted < before.Inserted, after.PassedOver < before.PassedOver, after.Succeeded < before.Succeeded, after.Failed < before.Failed:
		l.violation("backfill %s counts less: %+v, then %+v", after.BackfillID, before.BackfillCounts, after.BackfillCounts)
	}
}

// takenBack: a pause of its backfill may delete a row that is only planned.
func (l *ledgerWatch) takenBack(r *schedule.Run) bool {
	for _, f := range l.backfills {
		if f.row.State == schedule.BackfillPaused && slices.Contains(f.keys[r.RunAt.Unix()], r.Key) {
			return r.Trigger == schedule.TriggerBackfill
		}
	}
	return false
}

// insertedByBackfill checks a new row of a backfill against the request.
func (l *ledgerWatch) insertedByBackfill(r *schedule.Run) {
	f := l.feeds[r.Key]
	if f == nil {
		l.violation("a row of a backfill belongs to none: %s run_at %s", r.ScheduleID, l.at(r.RunAt))
		return
	}
	b := &f.row
	rule := l.rules[revisionID{r.ScheduleID, b.Revision}]
	switch {
	case b.State != schedule.BackfillRunning:
		l.violation("backfill %s put down %s while it was %s", b.BackfillID, l.at(r.RunAt), b.State)
	case r.ScheduleID != b.ScheduleID || r.Revision != b.Revision || r.RunAt.Before(b.From) || !r.RunAt.Before(b.To) || !rule.is(r.RunAt):
		l.violation("backfill %s put down %s run_at %s revision %d, which is no slot of its range", b.BackfillID, r.ScheduleID, l.at(r.RunAt), r.Revision)
	case b.RatePerMinute > 0 && !f.lastStart.IsZero() && r.FireAt.Sub(f.lastStart) < time.Minute/time.Duration(b.RatePerMinute)-time.Microsecond:
		l.violation("backfill %s starts %s after the last start, at %d a minute", b.BackfillID, r.FireAt.Sub(f.lastStart), b.RatePerMinute)
	}
	f.lastStart = r.FireAt
	for _, h := range l.order {
		o := &h.row
		if h.gone || o.ScheduleID != r.ScheduleID || !o.RunAt.Equal(r.RunAt) || o.Trigger == schedule.TriggerManual {
			continue
		}
		switch {
		case !ended(o.Status):
			l.violation("backfill %s put down %s run_at %s beside a run of that slot that is %s", b.BackfillID, r.ScheduleID, l.at(r.RunAt), o.Status)
		case b.Reprocess == schedule.ReprocessMissed && (o.Status == schedule.StatusSuccess || o.Status == schedule.StatusFailed),
			b.Reprocess == schedule.ReprocessFailed && o.Status == schedule.StatusSuccess:
			l.violation("backfill %s of what %s put down %s run_at %s, which was a %s", b.BackfillID, b.Reprocess, r.ScheduleID, l.at(r.RunAt), o.Status)
		}
	}
}

// bounded: no backfill has more runs in flight than its concurrency.
func (l *ledgerWatch) bounded() {
	for _, id := range sorted(l.backfills) {
		f, n := l.backfills[id], 0
		if !f.row.Open {
			continue
		}
		for _, keys := range f.keys {
			for _, key := range keys {
				if h := l.rows[key]; h != nil && !h.gone && !ended(h.row.Status) && l.feeds[key] == f { // another backfill may have it now
					n++
				}
			}
		}
		if n > int(f.row.Concurrency) {
			l.violation("backfill %s has %d runs under way, and may have %d", id, n, f.row.Concurrency)
		}
	}
}

// fed checks an ended backfill: each slot of its range took effect once or was passed
// over for a reason, and the counts say so.
func (w *world) fed(f *backfillLife) {
	b := &f.row
	var counts schedule.BackfillCounts
	others := int64(0) // slots that this backfill removed and another inserted: either outcome counts
	for at, keys := range f.keys {
		effects := 0
		for i, key := range keys {
			if wk := w.executor.works[key]; wk != nil && !wk.refused {
				effects++
			}
			h := w.watch.rows[key]
			switch {
			case i < len(keys)-1: // it gave way, and came again
			case w.watch.feeds[key] != f:
				others++
			case h == nil || h.gone:
				counts.Cancelled++
			case schedule.SkippedForAnother(h.row.Status, h.row.Reason):
				counts.Skipped++
			default:
				counts.Count(h.row.Status, h.row.Reason, 1)
			}
		}
		if effects > 1 {
			w.violation("backfill %s ran the slot at %s %d times", b.BackfillID, w.at(time.Unix(at, 0)), effects)
		}
	}
	// A slot that another ran, while its row here was taken back, is skipped.
	less := b.Succeeded < counts.Succeeded || b.Failed < counts.Failed || b.Skipped+b.Cancelled < counts.Skipped+counts.Cancelled
	all := counts.Succeeded + counts.Failed + counts.Skipped + counts.Cancelled + others
	if less || all != b.Succeeded+b.Failed+b.Skipped+b.Cancelled || int(b.Inserted) != len(f.keys) {
		w.violation("backfill %s counts %+v, its runs come to %+v of %d slots", b.BackfillID, b.BackfillCounts, counts, len(f.keys))
	}
	switch {
	case b.State == schedule.BackfillFinished:
		w.wholeRange(f)
	case b.Reason == schedule.ReasonCancelled && !f.cancelling, b.Reason == schedule.ReasonDeleted && !w.watch.lives[b.ScheduleID].deleted:
		w.violation("backfill %s is %s(%s), which nobody asked for", b.BackfillID, b.State, b.Reason)
	}
}

func (w *world) wholeRange(f *backfillLife) {
	b := &f.row
	slots := w.watch.rules[revisionID{b.ScheduleID, b.Revision}].between(b.From, true, b.To.Add(-time.Second))
	if len(slots) != int(b.Slots) || b.PassedOver+b.Inserted != b.Slots {
		w.violation("backfill %s is finished with %+v, its range has %d slots", b.BackfillID, b.BackfillCounts, len(slots))
	}
	for _, at := range slots {
		seen := len(f.keys[at.Unix()]) > 0
		for _, h := range w.watch.order {
			// A planned row of another backfill, which passed for this one, goes when that
			// one is paused or cancelled, by a user or with its schedule.
			other := w.watch.feeds[h.row.Key]
			there := !h.gone || other != nil && other != f && other.row.State == schedule.BackfillCancelled
			seen = seen || there && h.row.ScheduleID == b.ScheduleID && h.row.RunAt.Equal(at) && h.row.Trigger != schedule.TriggerManual
		}
		if !seen {
			w.violation("backfill %s is finished, and its slot %s was never run", b.BackfillID, w.at(at))
		}
	}
}
