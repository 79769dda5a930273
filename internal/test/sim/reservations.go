package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// The checker's own rules of reservations: nothing here may use package ledger, or the methods of a
// reservation.

// reservationWatch is what the checker remembers of reservations.
type reservationWatch struct {
	reservations map[schedule.Key]schedule.Reservation
	released     map[schedule.Key]bool  // by users
	slotGrants   []schedule.Reservation // of the current transaction
}

func newReservationWatch() reservationWatch {
	return reservationWatch{
		reservations: make(map[schedule.Key]schedule.Reservation), released: make(map[schedule.Key]bool),
	}
}

// waitedFor is how long a reservation waits that no user waits for.
const waitedFor = 30 * time.Second

// reservation sees every write of a reservation.
func (l *ledgerWatch) reservation(before, after *schedule.Reservation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if after == nil {
		l.reservationOver(before, now)
		return
	}
	l.reservations[after.ID] = *after
	bound := waitedFor
	switch {
	case before == nil:
		if !after.GrantedAt.IsZero() {
			l.violation("the reservation %.12s was born granted", after.ID)
		}
	case before.GrantedAt.IsZero() && !after.GrantedAt.IsZero():
		l.slotGrants = append(l.slotGrants, *after)
		if before.EndsAt.Before(after.GrantedAt) {
			l.violation("the reservation %.12s was granted at %s and had ended at %s", after.ID, l.at(after.GrantedAt), l.at(before.EndsAt))
		}
	case !before.GrantedAt.Equal(after.GrantedAt):
		l.violation("the reservation %.12s was granted at %s, and again at %s", after.ID, l.at(before.GrantedAt), l.at(after.GrantedAt))
	}
	if !after.GrantedAt.IsZero() {
		bound = time.Duration(after.HoldMS) * time.Millisecond
	}
	if left := after.EndsAt.Sub(now); left > bound {
		l.violation("the reservation %.12s lasts for %s, and may for %s", after.ID, left, bound)
	}
	l.log.say(l.elapsed(), "reservation %.12s: granted %s, ends %s", after.ID, l.at(after.GrantedAt), l.at(after.EndsAt))
}

// reservationOver: a reservation ends when its user says so, or its time.
func (l *ledgerWatch) reservationOver(r *schedule.Reservation, now time.Time) {
	delete(l.reservations, r.ID)
	what := reservationWithdrawn
	switch {
	case l.released[r.ID]:
		what = reservationReleased
	case r.EndsAt.After(now):
		l.violation("the reservation %.12s ended %s early", r.ID, r.EndsAt.Sub(now))
	case !r.GrantedAt.IsZero():
		what = reservationExpired
	}
	l.coverage.situations[what].Add(1)
	l.log.say(l.elapsed(), "reservation %.12s is over", r.ID)
}

// heldIn counts the granted reservations of a queue that no clock takes for over.
func (l *ledgerWatch) heldIn(no int32, now time.Time) (n int) {
	for _, r := range l.reservations {
		if r.QueueNo == no && !r.GrantedAt.IsZero() && r.EndsAt.After(now) {
			n++
		}
	}
	return n
}

// reservedUses counts the granted reservations of any queue that use a limit. after, if not zero:
// only those that end after it.
func (l *ledgerWatch) reservedUses(name string, after time.Time) (n int) {
	for _, r := range l.reservations {
		if !r.GrantedAt.IsZero() && r.EndsAt.After(after) && slices.Contains(limitNames(r.Limits), name) {
			n++
		}
	}
	return n
}

func limitNames(limits schedule.Limits) []string {
	if limits == "" {
		return nil
	}
	return strings.Split(string(limits), ",")
}

// ahead is a reservation of a queue that waits, is not over for any clock, and that no limit keeps:
// it goes before every run, and before reservations behind it.
func (l *ledgerWatch) ahead(no int32, position int64, now time.Time, free func(names []string) bool) *schedule.Reservation {
	for _, r := range l.reservations {
		if r.QueueNo == no && r.GrantedAt.IsZero() && r.EndsAt.After(now) && r.Position < position && free(limitNames(r.Limits)) {
			return &r
		}
	}
	return nil
}

// reservationsCommitted checks the grants of a transaction by the state after it.
func (l *ledgerWatch) reservationsCommitted(now time.Time) {
	for i := range l.slotGrants {
		g := &l.slotGrants[i]
		q := l.queues[g.QueueNo]
		if q.pausedAt(now) {
			l.violation("the reservation %.12s was granted while its queue is paused until %s", g.ID, l.at(q.row.Pause.Until))
		}
		if runs, held := l.inFlightIn(g.QueueNo), l.heldIn(g.QueueNo, now); runs+held > int(q.row.MaxInFlight) {
			l.violation("%d runs and %d reservations of %s are in flight after a grant, and max_in_flight is %d", runs, held, q.row.QueueID, q.row.MaxInFlight)
		}
		for _, name := range limitNames(g.Limits) {
			if most, n := l.mostOf(name), l.using(name, func(*job) bool { return false })+l.reservedUses(name, now); most > 0 && n > most {
				l.violation("%d runs and reservations use limit %s after a grant, and max_in_flight is %d", n, name, most)
			}
		}
		if first := l.ahead(g.QueueNo, g.Position, now, func(names []string) bool { return l.freeFor(names, i) }); first != nil {
			l.violation("the reservation %.12s (position %d) was granted past %.12s (position %d)", g.ID, g.Position, first.ID, first.Position)
		}
		l.coverage.situations[reservationGranted].Add(1)
		if len(l.waitingIn(g.QueueNo)) > 0 {
			l.coverage.situations[reservationFirst].Add(1)
		}
		if g.GrantedAt.Sub(g.CreatedAt) > time.Second {
			l.coverage.situations[reservationWaited].Add(1)
		}
	}
	for _, j := range l.admissions {
		q := l.queues[j.row.Queue.No]
		runs, held := l.inFlightIn(q.row.No), l.heldIn(q.row.No, now)
		if runs+held > int(q.row.MaxInFlight) {
			l.violation("%d runs and %d reservations of %s are in flight after an admission, and max_in_flight is %d", runs, held, q.row.QueueID, q.row.MaxInFlight)
		}
		if first := l.ahead(q.row.No, 1<<62, now, func(names []string) bool { return l.freeFor(names, len(l.slotGrants)) }); first != nil {
			l.violation("the job %.12s was admitted past the reservation %.12s", j.row.Key, first.ID)
		}
	}
	l.slotGrants = l.slotGrants[:0]
}

// freeFor reports whether no limit was full before the i-th grant of this transaction, and before
// its admissions.
func (l *ledgerWatch) freeFor(names []string, i int) bool {
	for _, name := range names {
		n := l.using(name, func(j *job) bool { return slices.Contains(l.admissions, j) }) + l.reservedUses(name, time.Time{})
		for _, g := range l.slotGrants[i:] {
			if slices.Contains(limitNames(g.Limits), name) {
				n--
			}
		}
		if most := l.mostOf(name); most > 0 && n >= most {
			return false
		}
	}
	return true
}

// reserve is a user that wants the next slot of a queue: it waits as long as it likes, extends the
// reservation or does not, and releases it or forgets it.
func (w *world) reserve(n int, d dice) {
	in := registrar.ReserveInput{QueueID: queueID(n), UserID: "u0", RequestID: fmt.Sprintf("r%x", uint64(d)), HoldMS: uint32(d.of(1).within(200, 3000))}
	if w.profile.limited {
		in.Limits = pick(d.of(2), limitsOfRuns...)
	}
	w.running.Go(func() {
		var r registrar.ReservationNow
		err := w.insist(func(ctx context.Context) (err error) {
			r, err = w.registrar.Reserve(ctx, in)
			return err
		})
		w.log.say(w.elapsed(), "user: reserve %s for %d ms (%s): granted %t, %v", in.QueueID, in.HoldMS, in.RequestID, r.Granted(), err)
		for until, k := w.elapsed()+d.of(3).span(0, 8*time.Second), uint64(100); err == nil && r.GrantedAt.IsZero() && w.elapsed() < until; k++ {
			w.sleep(d.of(k), d.of(k).of(1).span(50*time.Millisecond, 250*time.Millisecond))
			var next registrar.ReservationNow
			if next, err = w.registrar.GetReservation(context.Background(), r.ID, true); err == nil {
				r = next
			} else if !errors.Is(err, schedule.ErrNotFound) {
				err = nil // it asks again
			}
		}
		if err != nil {
			return
		}
		for k := range uint64(d.of(4).below(4)) {
			if r.GrantedAt.IsZero() {
				break
			}
			w.sleep(d.of(200+k), time.Duration(in.HoldMS)*time.Millisecond/2)
			w.extend(&r, in.HoldMS)
		}
		if d.of(5).perMille(600) {
			w.release(r.ID)
		}
	})
}

// extend fails unless the answer says that the reservation is held for its whole time again.
func (w *world) extend(r *registrar.ReservationNow, hold uint32) {
	var out registrar.ReservationNow
	began := w.clients.now()
	err := w.insist(func(ctx context.Context) (err error) {
		out, err = w.registrar.ExtendReservation(ctx, r.ID, nil)
		return err
	})
	if until := began.Add(time.Duration(hold) * time.Millisecond).Truncate(time.Microsecond); err == nil && out.EndsAt.Before(until.Add(-w.profile.maxSkew)) {
		w.violation("the reservation %.12s was extended until %s, and not until %s", r.ID, w.at(out.EndsAt), w.at(until))
	}
	w.log.say(w.elapsed(), "user: extend %.12s: %v", r.ID, err)
}

func (w *world) release(id schedule.Key) {
	w.watch.mu.Lock()
	w.watch.released[id] = true
	w.watch.mu.Unlock()
	err := w.insist(func(ctx context.Context) error {
		_, err := w.registrar.ReleaseReservation(ctx, id, "")
		return err
	})
	w.log.say(w.elapsed(), "user: release %.12s: %v", id, err)
}
