package ledger

import (
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
)

// Reserved is what a transaction makes of reservations.
type Reserved struct {
	Added   *schedule.Reservation // as it was added; a grant of it is in Granted, too
	Granted []schedule.Reservation
	Moved   []schedule.Reservation // their ends_at
	Ended   []schedule.Reservation
	Uses    []LimitUse // of Granted
	Events  []schedule.QueueEvent
}

// Empty reports whether there is nothing to write.
func (o *Reserved) Empty() bool {
	return o.Added == nil && len(o.Granted)+len(o.Moved)+len(o.Ended) == 0
}

// held is how many granted reservations count in max_in_flight.
func (f *QueueFacts) held(now time.Time) (n int) {
	for i := range f.Reserved {
		if r := &f.Reserved[i]; r.Granted() && !r.Over(now) {
			n++
		}
	}
	return n
}

// Reserving are the reservations that wait, in order of arrival.
func (f *QueueFacts) Reserving(now time.Time) (waiting []Reservation) {
	for i := range f.Reserved {
		if r := &f.Reserved[i]; !r.Granted() && !r.Over(now) {
			waiting = append(waiting, Reservation{ID: r.ID, Limits: r.Limits.Refs()})
		}
	}
	return waiting
}

// PlaceOf is the place of a waiting reservation, 1 for the next; 0: it does not wait.
func (f *QueueFacts) PlaceOf(id schedule.Key, now time.Time) int {
	return 1 + slices.IndexFunc(f.Reserving(now), func(r Reservation) bool { return r.ID == id })
}

// MaySettle reports whether SettleReservations may have something to write, as the facts were read.
func (f *QueueFacts) MaySettle(now time.Time) bool {
	over := slices.ContainsFunc(f.Reserved, func(r schedule.Reservation) bool { return r.Over(now) })
	return over || len(f.grants(now)) > 0
}

// ChangeReservations makes the change of a request, and ends what is over. It changes the facts;
// GrantReservations comes after it, when the ends are written and the limits are read.
func (f *QueueFacts) ChangeReservations(c *schedule.ReserveChange) (out Reserved) {
	var left []schedule.Reservation
	for _, r := range f.Reserved {
		switch {
		case r.Over(c.Now):
			out.End(f.Queue.QueueID, r, c.Now, "", false)
			continue
		case slices.Contains(c.Release, r.ID):
			out.End(f.Queue.QueueID, r, c.Now, c.Actor, true)
			continue
		case r.ID == c.Extend:
			r.EndsAt = stored(c.EndsAt)
			out.Moved = append(out.Moved, r)
		}
		left = append(left, r)
	}
	if c.Add != nil {
		added := *c.Add
		out.Added = &added
		left = append(left, added)
	}
	f.Reserved = left
	return out
}

// GrantReservations grants what a queue has room for, and changes the facts.
func (f *QueueFacts) GrantReservations(now time.Time, out *Reserved) {
	out.grant(f, f.grants(now), f.Limits, now)
}

// grants are the reservations that are granted next. They call no executor: a launcher's calls do
// not matter.
func (f *QueueFacts) grants(now time.Time) []*Reservation {
	alone := *f
	alone.Heads, alone.Oldest = nil, nil
	v := alone.visit(&schedule.AdmitRequest{Now: now})
	return Admit(&v).Granted
}

// grant notes granted reservations, and changes the facts.
func (o *Reserved) grant(f *QueueFacts, granted []*Reservation, limits map[schedule.LimitRef]*LimitNow, now time.Time) {
	for _, g := range granted {
		i := slices.IndexFunc(f.Reserved, func(r schedule.Reservation) bool { return r.ID == g.ID })
		r := &f.Reserved[i]
		r.GrantedAt = stored(now)
		r.EndsAt = r.GrantedAt.Add(time.Duration(r.HoldMS) * time.Millisecond)
		o.Granted = append(o.Granted, *r)
		for _, ref := range g.Limits {
			if l := limits[ref]; l != nil {
				o.Uses = append(o.Uses, LimitUse{LimitNo: l.No, Key: ref.Key, UsedBy: r.ID})
			}
		}
		o.note(f.Queue.QueueID, r, schedule.QueueReservationGranted, r.RequestedBy, now, "after "+spanOf(now.Sub(r.CreatedAt)))
	}
}

// End notes a reservation that is over. released: a request ends it, otherwise its time does.
func (o *Reserved) End(queueID string, r schedule.Reservation, now time.Time, actor string, released bool) {
	o.Ended = append(o.Ended, r)
	switch held := "held for " + spanOf(now.Sub(r.GrantedAt)); {
	case released && r.Granted():
		o.note(queueID, &r, schedule.QueueReservationReleased, actor, now, held)
	case released:
		o.note(queueID, &r, schedule.QueueReservationWithdrawn, actor, now, "released before its grant")
	case r.Granted():
		o.note(queueID, &r, schedule.QueueReservationExpired, "", now, held+", not released and not extended")
	default:
		o.note(queueID, &r, schedule.QueueReservationWithdrawn, "", now, "no caller has waited for it for "+spanOf(schedule.WaitedFor))
	}
}

func (o *Reserved) note(queueID string, r *schedule.Reservation, kind schedule.QueueEventKind, actor string, now time.Time, what string) {
	o.Events = append(o.Events, schedule.QueueEvent{
		QueueID: queueID, Time: stored(now), Kind: kind, Actor: actor, Note: fmt.Sprintf("reservation %s of %s: %s", r.ID, r.UserID, what),
	})
}

func spanOf(d time.Duration) string { return describe.Span(max(0, d).Round(time.Millisecond)) }

// SweepReservations ends what is over of reservations of any queues, and returns when the next of
// the others ends; zero: there is none.
func SweepReservations(all []schedule.Reservation, now time.Time) (out Reserved, next time.Time) {
	for i := range all {
		r := &all[i]
		switch {
		case r.Over(now):
			out.End(r.QueueID, *r, now, "", false)
		case next.IsZero() || r.EndsAt.Before(next):
			next = r.EndsAt
		}
	}
	return out, next
}

// SweptReservations adds the reservations of a sweep.
func (s *SweptQueues) SweptReservations(all []schedule.Reservation, now time.Time, limit int) Reserved {
	out, next := SweepReservations(all, now)
	if !next.IsZero() && (s.NextDue.IsZero() || next.Before(s.NextDue)) {
		s.NextDue = next
	}
	s.More = s.More || len(out.Ended) == limit
	s.Ready = s.Ready || len(out.Ended) > 0
	return out
}
