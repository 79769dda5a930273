package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
)

// The checker's own rules of when consumers are looked at.

// claimsAt is the instant of a claim that comes now. It may have waited since.
func (l *ledgerWatch) claimsAt(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claimAt = now
}

// consumersFirst: while the wake row of a consumer of an overlap key is due, or its run, no run of a
// schedule starts under the key, unless a next attempt or the run of another consumer is due: these go
// before new events, even if they end in the same claim. What became due after the instant of the claim
// does not count.
func (l *ledgerWatch) consumersFirst(r *schedule.Run) {
	now, asked := time.Now(), l.claimAt
	comes := false // a run of the key that a look waits for
	for _, h := range l.order {
		o := &h.row
		comes = comes || o.OverlapKey == r.OverlapKey && (l.automatic(o) || o.Trigger == schedule.TriggerEvent) && h.completed == l.elapsed()
		if o.OverlapKey != r.OverlapKey || o.Key == r.Key || h.gone || o.Status != schedule.StatusPlanned || l.held(h, now) || o.FireAt.After(now) {
			continue
		}
		comes = comes || o.Trigger == schedule.TriggerEvent || l.automatic(o)
		if r.Trigger == schedule.TriggerEvent {
			l.coverage.situations[consumerFirst].Add(1)
		} else if o.Trigger == schedule.TriggerEvent && !o.FireAt.After(asked) && !l.pausedLately(o.ScheduleID, now) {
			l.violation("%s run_at %s started before the run of consumer %s", r.ScheduleID, l.at(r.RunAt), o.ScheduleID)
		}
	}
	if comes || r.Trigger == schedule.TriggerEvent || l.automatic(r) {
		return
	}
	for _, id := range sorted(l.inboxes) {
		f, when := l.lives[id], l.wakeRows[id]
		if f.row.UserID+"/"+f.row.OverlapKey == r.OverlapKey && l.pendingOf(id) > 0 && l.takes(id, now) && !when.IsZero() && !when.After(asked) {
			l.violation("%s run_at %s started at %s while %d events are pending for consumer %s, to be looked at since %s", r.ScheduleID, l.at(r.RunAt), l.at(asked), l.pendingOf(id), id, l.at(when))
		}
	}
}

// pausedLately: a consumer is paused, or was a moment ago.
func (l *ledgerWatch) pausedLately(id string, now time.Time) bool {
	p := l.lives[id].row.Pause
	return p.Paused && (p.Until.IsZero() || p.Until.After(now.Add(-l.profile.maxSkew-time.Second)))
}

// takes reports whether a consumer is to take events now: it lives, is not paused, has no open run, and
// none was skipped within the last minute.
func (l *ledgerWatch) takes(id string, now time.Time) bool {
	at, was := l.refused[id]
	for _, e := range l.inboxes[id] {
		if e.State == topic.Reserved { // the end of its run is also the next look
			return false
		}
	}
	return l.lives[id].row.Alive() && !l.pausedLately(id, now) && (!was || l.elapsed() > at+time.Minute+time.Second+l.profile.maxSkew)
}

// pendingOf counts what a consumer has pending.
func (l *ledgerWatch) pendingOf(id string) (n int) {
	for _, e := range l.inboxes[id] {
		if e.State == topic.Pending {
			n++
		}
	}
	return n
}

// unserved are the consumers that wait for a look, and for nothing that their users did. The entries of
// a deleted one wait for it too.
func (l *ledgerWatch) unserved(now time.Time) (ids []string) {
	for _, id := range sorted(l.inboxes) {
		f := l.lives[id]
		forGood := f.row.Alive() && f.row.Pause.Paused && f.row.Pause.Until.IsZero()
		deferred := l.wakeRows[id].After(now) && l.wakeRows[id].Before(now.Add(time.Minute)) // its run was not permitted
		if l.pendingOf(id) > 0 && !forGood && !deferred && !slices.ContainsFunc(l.order, func(h *history) bool {
			return h.row.OverlapKey == f.row.UserID+"/"+f.row.OverlapKey && !h.gone && !ended(h.row.Status) && l.keptByQueue(h)
		}) {
			ids = append(ids, id)
		}
	}
	return ids
}

// wakesInTime: once all is calm, a consumer that may take events is looked at within two ticks.
func (w *world) wakesInTime() {
	l := w.watch
	l.mu.Lock()
	defer l.mu.Unlock()
	now, at := time.Now(), w.elapsed()
	for _, id := range sorted(l.inboxes) {
		since, wants := l.wanting[id]
		switch {
		case at < w.profile.faulty+15*time.Second || l.pendingOf(id) == 0 || !l.takes(id, now) || l.busy(id, now):
			delete(l.wanting, id)
		case !wants:
			l.wanting[id] = at
		case at-since > 3*time.Second:
			w.violation("consumer %s has %d pending events, nothing is in its way since +%s, and nobody looks", id, l.pendingOf(id), since)
			l.wanting[id] = w.profile.faulty + w.profile.calmAfter() // said once
		}
	}
}

// busy reports whether a run is in flight under the overlap key of a consumer, or comes first.
func (l *ledgerWatch) busy(id string, now time.Time) bool {
	key := l.lives[id].row.UserID + "/" + l.lives[id].row.OverlapKey
	return slices.ContainsFunc(l.order, func(h *history) bool {
		planned := h.row.Status == schedule.StatusPlanned && (h.row.FireAt.After(now.Add(time.Second)) || l.held(h, now))
		return h.row.OverlapKey == key && !h.gone && !ended(h.row.Status) && (!planned || h.row.Queue.No != 0)
	})
}

// eventsOver: at the end a run that succeeded has consumed its events, and readers see what was written.
func (w *world) eventsOver() {
	l := w.watch
	for key, seqs := range l.batches {
		h := l.rows[key]
		for _, seq := range seqs {
			e, there := l.inboxes[h.row.ScheduleID][seq]
			if consumed := e.State == topic.Consumed && e.Run == key; there && consumed != (h.row.Status == schedule.StatusSuccess) {
				w.violation("event %d is %s for %s by run %.12s, and run %.12s of it is %s", seq, e.State, h.row.ScheduleID, e.Run, key, h.row.Status)
			}
		}
	}
	for _, id := range sorted(l.inboxes) {
		found, err := w.ledger.ListInbox(context.Background(), topic.InboxFilter{ScheduleID: id, Limit: 1000})
		if err != nil || len(found) != len(l.inboxes[id]) && len(found) < 1000 {
			w.violation("the inbox of %s is read as %d entries (%v), and has %d", id, len(found), err, len(l.inboxes[id]))
		}
		for i := range found {
			if got, is := found[i].Entry, l.inboxes[id][found[i].Seq]; fmt.Sprint(got) != fmt.Sprint(is) {
				w.violation("an entry of %s is read as %+v, and is %+v", id, got, is)
			}
		}
	}
}
