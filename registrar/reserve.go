package registrar

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
)

// reserveAgain is when a reservation that was refused may be asked for again.
const reserveAgain = time.Second

// ReserveInput is a request for the next slot of a queue.
type ReserveInput struct {
	QueueID   string
	UserID    string // of the reservation; "": the caller, or the owner of the queue
	RequestID string // "": a repeat makes another reservation
	Limits    []string
	HoldMS    uint32
	Actor     string `json:"-"`
}

// ReservationNow is a reservation with its place.
type ReservationNow struct {
	schedule.Reservation
	Position int // among those that wait, 1 for the next; 0: it is granted
	Repeated bool
}

// Reserve asks for the next slot of a queue, ahead of its runs. It is granted at once where a slot
// is free.
func (r *Registrar) Reserve(ctx context.Context, in ReserveInput) (ReservationNow, error) {
	if err := checkReserve(ctx, &in); err != nil {
		return ReservationNow{}, err
	}
	if r.reservations == nil {
		return ReservationNow{}, schedule.ErrUnsupported
	}
	queue, err := r.enterableQueue(ctx, in.QueueID)
	if err == nil {
		err = r.boundQueues(ctx)
	}
	if err != nil {
		return ReservationNow{}, err
	}
	if queue.Pulled() {
		return ReservationNow{}, schedule.Invalid("queue_id", queue.QueueID, "is a queue of delivery pull: its workers have the slots", "reserve in a queue of delivery push")
	}
	if in.UserID == "" {
		in.UserID = queue.UserID
	}
	if !queue.Takes(in.UserID) {
		return ReservationNow{}, schedule.Invalid("user_id", in.UserID, "is not the owner of queue "+schedule.Quote(queue.QueueID)+", which is not shared", "share the queue, or use another one")
	}
	unusable, err := r.unusableLimits(ctx, &in)
	if err != nil {
		return ReservationNow{}, err
	}
	var id schedule.Key
	var repeated bool
	req := schedule.ReserveRequest{QueueID: in.QueueID, UserID: in.UserID, RequestID: in.RequestID}
	after, out, err := r.reservations.ChangeReservations(ctx, req, func(f ledger.QueueFacts, earlier *schedule.EnqueueRecord) (schedule.ReserveChange, error) {
		now := r.now()
		if repeated = earlier != nil; repeated {
			id, err = in.earlier(&f, earlier, now)
			return schedule.ReserveChange{Now: now}, err
		}
		if unusable != nil {
			return schedule.ReserveChange{}, unusable
		}
		added, err := r.newReservation(ctx, &in, &f, now)
		if err != nil {
			return schedule.ReserveChange{}, err
		}
		id = added.ID
		return schedule.ReserveChange{Now: now, Add: added, BodyHash: in.hash()}, nil
	})
	if err != nil {
		return ReservationNow{}, err
	}
	r.changedReservations(ctx, &after, &out)
	return placeOf(&after, id, r.now(), repeated)
}

func checkReserve(ctx context.Context, in *ReserveInput) error {
	if owner := auth.FromContext(ctx).Owner; owner != "" {
		if in.UserID == "" {
			in.UserID = owner
		}
		if in.UserID != owner {
			return notOwn(in.UserID)
		}
	}
	var c schedule.Collect
	checkID(&c, "queue_id", in.QueueID)
	if in.UserID != "" {
		checkOwner(&c, in.UserID)
	}
	if in.RequestID != "" {
		checkID(&c, "request_id", in.RequestID)
	}
	checkHold(&c, in.HoldMS)
	schedule.CheckLimitRefs(&c, "limits", in.Limits)
	return c.Err()
}

func checkHold(c *schedule.Collect, hold uint32) {
	if hold < 1 || time.Duration(hold)*time.Millisecond > schedule.MaxHold {
		c.Add("hold_ms", hold, "is not within 1 to 3600000", "it is how long the slot is held unless it is extended")
	}
}

// hash is over the request as it was sent.
func (in *ReserveInput) hash() [32]byte {
	text, err := json.Marshal(in)
	if err != nil { // it has texts and numbers only
		panic("hash the request: " + err.Error())
	}
	return sha256.Sum256(append([]byte("reserve "), text...))
}

// earlier is the reservation that the same request has made before.
func (in *ReserveInput) earlier(f *ledger.QueueFacts, e *schedule.EnqueueRecord, now time.Time) (schedule.Key, error) {
	if e.BodyHash != in.hash() || len(e.Keys) != 1 {
		return schedule.Key{}, schedule.Explain(schedule.ErrKeyConflict, "request_id %q was used before in queue %s for another request; use a new one", in.RequestID, schedule.Quote(in.QueueID))
	}
	if findReservation(f, e.Keys[0], now) == nil {
		return schedule.Key{}, schedule.Explain(schedule.ErrNotFound, "reservation %s of request_id %q has ended; use a new request_id", e.Keys[0], in.RequestID)
	}
	return e.Keys[0], nil
}

// unusableLimits is what is wrong with the limits of a request.
func (r *Registrar) unusableLimits(ctx context.Context, in *ReserveInput) (refusal, err error) {
	var c schedule.Collect
	if err := r.usableLimits().check(ctx, &c, "limits", in.UserID, in.Limits); err != nil {
		return nil, err
	}
	return c.Err(), nil
}

// newReservation is the reservation of a request, or its refusal.
func (r *Registrar) newReservation(ctx context.Context, in *ReserveInput, f *ledger.QueueFacts, now time.Time) (*schedule.Reservation, error) {
	q := f.Queue
	switch {
	case !q.Alive() || !mayRead(ctx, q):
		return nil, noQueue(in.QueueID)
	case q.Closed:
		return nil, schedule.Explain(schedule.ErrPrecondition, "queue %s is closed: it takes no reservations until it is opened", schedule.Quote(in.QueueID))
	}
	if n := len(f.Reserving(now)); n >= int(max(q.MaxReservations, 1)) {
		return nil, schedule.RetryLater(reserveAgain, "queue %s has %s that wait, as many as it allows (max_reservations): try again when one is granted",
			schedule.Quote(in.QueueID), describe.Count(n, "reservation"))
	}
	var c schedule.Collect
	limits := r.bounded(mergeLimits(&c, "limits", q, in.Limits))
	if err := c.Err(); err != nil {
		return nil, err
	}
	requestID := in.RequestID
	if requestID == "" {
		requestID = rand.Text()
	}
	return &schedule.Reservation{
		ID:     schedule.JobKey(now, in.QueueID, in.UserID, "/reserve/"+requestID, 0), // no request id has a slash
		UserID: in.UserID, RequestedBy: in.Actor, Limits: limits, HoldMS: in.HoldMS, EndsAt: now.Add(schedule.WaitedFor), CreatedAt: now,
	}, nil
}

// findReservation is a reservation that is not over; nil: there is none.
func findReservation(f *ledger.QueueFacts, id schedule.Key, now time.Time) *schedule.Reservation {
	if !f.Queue.Alive() {
		return nil
	}
	i := slices.IndexFunc(f.Reserved, func(r schedule.Reservation) bool { return r.ID == id && !r.Over(now) })
	if i < 0 {
		return nil
	}
	return &f.Reserved[i]
}

func placeOf(f *ledger.QueueFacts, id schedule.Key, now time.Time, repeated bool) (ReservationNow, error) {
	found := findReservation(f, id, now)
	if found == nil {
		return ReservationNow{}, noReservation(id)
	}
	out := ReservationNow{Reservation: *found, Position: f.PlaceOf(id, now), Repeated: repeated}
	out.QueueID = f.Queue.QueueID
	return out, nil
}

func noReservation(id schedule.Key) error {
	return schedule.Explain(schedule.ErrNotFound, "there is no reservation %s: it has ended, or it never was", id)
}

// ownReservation is a reservation that the caller may see.
func (r *Registrar) ownReservation(ctx context.Context, id schedule.Key) (*schedule.Reservation, error) {
	if r.reservations == nil {
		return nil, schedule.ErrUnsupported
	}
	found, err := r.reservations.GetReservation(ctx, id)
	if errors.Is(err, schedule.ErrNotFound) || err == nil && (found.Over(r.now()) || !auth.FromContext(ctx).Sees(found.UserID)) {
		return nil, noReservation(id)
	}
	return found, err
}

// GetReservation returns a reservation that is not over. waits: somebody waits for its grant, so it
// is not withdrawn, and it is granted where a slot is free.
func (r *Registrar) GetReservation(ctx context.Context, id schedule.Key, waits bool) (ReservationNow, error) {
	found, err := r.ownReservation(ctx, id)
	if err != nil {
		return ReservationNow{}, err
	}
	now := r.now()
	facts, err := r.reservations.ReadReservations(ctx, found.QueueNo, now)
	if err != nil {
		return ReservationNow{}, err
	}
	out, err := placeOf(&facts, id, now, false)
	const often = schedule.WaitedFor / 3
	if err != nil || !waits || out.Granted() || !facts.MaySettle(now) && out.EndsAt.Sub(now) > schedule.WaitedFor-often {
		return out, err
	}
	after, changed, err := r.reservations.ChangeReservations(ctx, schedule.ReserveRequest{QueueID: out.QueueID}, func(f ledger.QueueFacts, _ *schedule.EnqueueRecord) (schedule.ReserveChange, error) {
		now := r.now()
		c := schedule.ReserveChange{Now: now}
		if there := findReservation(&f, id, now); there != nil && !there.Granted() {
			c.Extend, c.EndsAt = id, now.Add(schedule.WaitedFor)
		}
		return c, nil
	})
	if err != nil {
		return ReservationNow{}, err
	}
	r.changedReservations(ctx, &after, &changed)
	return placeOf(&after, id, r.now(), false)
}

// ListReservations lists the reservations of a queue in order of arrival; a caller with an owner
// gets its own.
func (r *Registrar) ListReservations(ctx context.Context, queueID string) (list []ReservationNow, err error) {
	q, err := r.GetQueue(ctx, queueID)
	if err != nil || r.reservations == nil {
		return nil, err
	}
	now := r.now()
	facts, err := r.reservations.ReadReservations(ctx, q.No, now)
	if err != nil {
		return nil, err
	}
	id := auth.FromContext(ctx)
	for i := range facts.Reserved {
		if f := &facts.Reserved[i]; !f.Over(now) && id.Sees(f.UserID) {
			one, err := placeOf(&facts, f.ID, now, false)
			if err != nil {
				return nil, err
			}
			list = append(list, one)
		}
	}
	return list, nil
}

// ExtendReservation moves the end of a granted reservation to holdMS from now; nil: as long as it
// was reserved for.
func (r *Registrar) ExtendReservation(ctx context.Context, id schedule.Key, holdMS *uint32) (ReservationNow, error) {
	if holdMS != nil {
		var c schedule.Collect
		if checkHold(&c, *holdMS); c.Err() != nil {
			return ReservationNow{}, c.Err()
		}
	}
	return r.changeReservation(ctx, id, func(there *schedule.Reservation, now time.Time) (schedule.ReserveChange, error) {
		if !there.Granted() {
			return schedule.ReserveChange{}, schedule.Explain(schedule.ErrPrecondition, "cannot extend reservation %s: it waits for its grant; GetReservation with wait_ms goes on waiting", id)
		}
		hold := there.HoldMS
		if holdMS != nil {
			hold = *holdMS
		}
		return schedule.ReserveChange{Now: now, Extend: id, EndsAt: now.Add(time.Duration(hold) * time.Millisecond)}, nil
	})
}

// ReleaseReservation ends a reservation, and returns it as it was.
func (r *Registrar) ReleaseReservation(ctx context.Context, id schedule.Key, actor string) (ReservationNow, error) {
	var before ReservationNow
	_, err := r.changeReservation(ctx, id, func(there *schedule.Reservation, now time.Time) (schedule.ReserveChange, error) {
		before = ReservationNow{Reservation: *there}
		return schedule.ReserveChange{Now: now, Release: []schedule.Key{id}, Actor: actor}, nil
	})
	if before.ID == id && errors.Is(err, schedule.ErrNotFound) {
		return before, nil // it has ended now
	}
	return before, err
}

// changeReservation changes a reservation that the caller may see.
func (r *Registrar) changeReservation(ctx context.Context, id schedule.Key, decide func(*schedule.Reservation, time.Time) (schedule.ReserveChange, error)) (ReservationNow, error) {
	found, err := r.ownReservation(ctx, id)
	if err != nil {
		return ReservationNow{}, err
	}
	after, out, err := r.reservations.ChangeReservations(ctx, schedule.ReserveRequest{QueueID: found.QueueID}, func(f ledger.QueueFacts, _ *schedule.EnqueueRecord) (schedule.ReserveChange, error) {
		now := r.now()
		there := findReservation(&f, id, now)
		if there == nil {
			return schedule.ReserveChange{}, noReservation(id)
		}
		there.QueueID = found.QueueID
		return decide(there, now)
	})
	if err != nil {
		return ReservationNow{}, err
	}
	r.changedReservations(ctx, &after, &out)
	return placeOf(&after, id, r.now(), false)
}

// releaseAll ends all reservations of a queue.
func (r *Registrar) releaseAll(ctx context.Context, queueID, actor string) error {
	if r.reservations == nil {
		return nil
	}
	after, out, err := r.reservations.ChangeReservations(ctx, schedule.ReserveRequest{QueueID: queueID}, func(f ledger.QueueFacts, _ *schedule.EnqueueRecord) (schedule.ReserveChange, error) {
		c := schedule.ReserveChange{Now: r.now(), Actor: actor}
		for i := range f.Reserved {
			c.Release = append(c.Release, f.Reserved[i].ID)
		}
		return c, nil
	})
	if err == nil {
		r.changedReservations(ctx, &after, &out)
	}
	return err
}

// changedReservations logs what has happened, and has the queue counted again.
func (r *Registrar) changedReservations(ctx context.Context, after *ledger.QueueFacts, out *ledger.Reserved) {
	if !out.Empty() && after.Queue != nil {
		r.counts.stale(after.Queue.No)
	}
	for i := range out.Events {
		e := &out.Events[i]
		r.log.InfoContext(ctx, "reservation", "queue_id", e.QueueID, "kind", string(e.Kind), "note", e.Note)
	}
}

// reservationsIn is how many reservations a queue has, for its deletion.
func reservationsIn(c schedule.QueueCounts) string {
	return fmt.Sprintf("%s, %s", describe.Count(c.Reserved, "granted reservation"), describe.Count(c.Reserving, "waiting one"))
}
