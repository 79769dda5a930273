package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// reservations take the next slot of a queue, ahead of its runs.
var reservations = []check{
	{"a reservation is granted at once where a slot is free, and comes back as it was given", reserveFree},
	{"a reservation goes before all runs, and touches none that is in flight", reserveFirst},
	{"runs that reservations go before are the next ones", reserveThenRun},
	{"runs that reservations have kept waiting twice start in their order", reserveTwice},
	{"reservations are granted in order of arrival", reserveOrder},
	{"a granted reservation counts in max_in_flight until it is released", reserveCounts},
	{"a reservation uses its limits from its grant to its end", reserveLimits},
	{"a reservation of a full limit is passed over", reservePassed},
	{"a stall does not hold a reservation, a pause does", reserveStallAndPause},
	{"a reservation that was held for its time is over, and a sweep deletes it and its uses", reserveExpires},
	{"an extended reservation lasts until its new end", reserveExtended},
	{"a waiting reservation that nobody waits for is withdrawn", reserveWithdrawn},
	{"each end of a reservation is in the log of its queue, once", reserveLog},
	{"the same request again is known", reserveAgain},
	{"a refused change of reservations writes nothing", reserveRefused},
	{"a queue that does not exist has no reservations", reserveNowhere},
	{"a change of reservations brings its audit entry", reserveAudited},
	{"a run behind reservations is explained by them", reserveExplained},
	{"of many that reserve, admit and sweep at once nobody exceeds max_in_flight", reserveRace},
}

func (j *jobs) reservation(name string, texts ...string) schedule.Reservation {
	return schedule.Reservation{
		ID: schedule.JobKey(j.now, j.queue.QueueID, j.user, "r/"+name, 0), UserID: j.user, RequestedBy: "ada", Limits: j.limits(texts...), HoldMS: 60_000,
		CreatedAt: j.now, EndsAt: j.at(schedule.WaitedFor),
	}
}

// reserveChange changes the reservations of the queue.
func (j *jobs) reserveChange(c schedule.ReserveChange) (ledger.QueueFacts, ledger.Reserved) {
	j.Helper()
	if c.Now.IsZero() {
		c.Now = j.now
	}
	after, out, err := j.ChangeReservations(j.ctx, schedule.ReserveRequest{QueueID: j.queue.QueueID, UserID: j.user}, func(ledger.QueueFacts, *schedule.EnqueueRecord) (schedule.ReserveChange, error) {
		return c, nil
	})
	j.ok(err, "change reservations")
	return after, out
}

// reserves adds a reservation, and reports whether it is granted at once.
func (j *jobs) reserves(name string, texts ...string) (r schedule.Reservation, granted bool) {
	j.Helper()
	r = j.reservation(name, texts...)
	j.reserveChange(schedule.ReserveChange{Add: &r})
	got := j.reserved(r.ID)
	return got, got.Granted()
}

// reserved is a reservation as it is stored.
func (j *jobs) reserved(id schedule.Key) schedule.Reservation {
	j.Helper()
	got, err := j.GetReservation(j.ctx, id)
	j.ok(err, "get reservation")
	return *got
}

func (j *jobs) hasGrant(id schedule.Key, want bool, when string) {
	j.Helper()
	r := j.reserved(id)
	j.hold(r.Granted() == want, "%s the reservation is granted: want %t, got %+v", when, want, r)
}

// gone fails unless there is no such reservation.
func (j *jobs) gone(id schedule.Key) {
	j.Helper()
	_, err := j.GetReservation(j.ctx, id)
	j.hold(errors.Is(err, schedule.ErrNotFound), "the reservation is gone, got %v", err)
}

func (j *jobs) releases(id schedule.Key) {
	j.Helper()
	j.reserveChange(schedule.ReserveChange{Release: []schedule.Key{id}, Actor: "bob"})
}

func (j *jobs) sweptAt(now time.Time) ledger.SweptQueues {
	j.Helper()
	return j.sweepQueues(func(req *schedule.QueueSweep) { req.Now = now })
}

func reserveFree(r *rig) {
	r.putLimit("gpu", 1)
	j := r.jobs("q", maxInFlight(1))
	got, granted := j.reserves("a", "gpu")
	j.hold(granted, "it is granted")
	want := j.reservation("a", "gpu")
	want.QueueNo, want.QueueID, want.Position = j.queue.No, j.queue.QueueID, got.Position
	want.GrantedAt, want.EndsAt = j.now, j.at(time.Minute)
	equal(r, "reservation", got, want)
	r.inUTC("Reservation", got)
	waiting, _ := j.reserves("b")
	j.hold(!waiting.Granted() && waiting.Position > got.Position && waiting.EndsAt.Equal(j.at(schedule.WaitedFor)), "the second waits behind it, got %+v", waiting)
	facts, err := j.ReadReservations(j.ctx, j.queue.No, j.now)
	j.ok(err, "read reservations")
	equal(r, "all of them", facts.Reserved, []schedule.Reservation{got, waiting})
	j.hold(facts.PlaceOf(waiting.ID, j.now) == 1 && facts.PlaceOf(got.ID, j.now) == 0, "the second is the next")
	counts, err := j.CountQueue(j.ctx, j.queue.No, 10)
	j.ok(err, "count")
	equal(r, "counts", counts, schedule.QueueCounts{Reserving: 1, Reserved: 1})
}

func reserveFirst(r *rig) {
	j := r.jobs("q", maxInFlight(1))
	j.put("a", "b", "c")
	j.enqueue(0, j.job("urgent", 100))
	running := j.accept(j.admits(10, "urgent")[0])
	a, granted := j.reserves("a")
	j.hold(!granted, "it waits: nothing that runs is preempted")
	j.admits(10, "")
	j.isIn(running, schedule.QueueRunning)
	j.hasGrant(a.ID, false, "while the run is in flight")
	j.end(running, schedule.StatusSuccess)
	j.admits(10, "") // the admission grants it instead
	j.hasGrant(a.ID, true, "after the end")
	j.admits(10, "")
	j.releases(a.ID)
	j.gone(a.ID)
	j.admits(10, "a")
}

func reserveThenRun(r *rig) {
	j := r.jobs("q", maxInFlight(2))
	j.put("a", "b", "c", "d", "e", "f")
	running := j.admits(10, "a b")
	for _, want := range []string{"c d", "e f"} {
		first, _ := j.reserves("first before " + want)
		second, _ := j.reserves("second before " + want)
		j.end(running[0], schedule.StatusSuccess)
		j.end(running[1], schedule.StatusSuccess)
		j.admits(10, "")
		j.hasGrant(second.ID, true, "after both ends")
		j.releases(first.ID)
		j.releases(second.ID)
		running = j.admits(10, want)
	}
}

// A store may remember where the first waiting run is: those that two visits leave are before it.
func reserveTwice(r *rig) {
	j := r.jobs("q", maxInFlight(4))
	j.put("a", "b", "c", "d", "e", "f", "g", "h")
	running := j.admits(10, "a b c d")
	var held []schedule.Key
	for n := range 2 {
		for _, name := range []string{"first", "second"} {
			one, _ := j.reserves(fmt.Sprint(name, n))
			held = append(held, one.ID)
		}
		j.end(running[2*n], schedule.StatusSuccess)
		j.end(running[2*n+1], schedule.StatusSuccess)
		j.admits(10, "")
	}
	for _, id := range held {
		j.hasGrant(id, true, "after the ends")
		j.releases(id)
	}
	j.admits(10, "e f g h")
}

func reserveOrder(r *rig) {
	j := r.jobs("q", maxInFlight(2))
	j.put("x")
	var ids []schedule.Key
	for _, name := range []string{"a", "b", "c", "d"} {
		got, granted := j.reserves(name)
		j.hold(granted == (len(ids) < 2), "the first two are granted, %s: %t", name, granted)
		ids = append(ids, got.ID)
	}
	j.releases(ids[1])
	j.hasGrant(ids[2], true, "after a release")
	j.hasGrant(ids[3], false, "behind it")
	j.releases(ids[3]) // before its grant
	j.releases(ids[0])
	j.admits(10, "x")
}

func reserveCounts(r *rig) {
	j := r.jobs("q", maxInFlight(3))
	j.put("a", "b", "c", "d")
	a, _ := j.reserves("a")
	b, _ := j.reserves("b")
	j.admits(10, "a")
	out := j.admission(10)
	j.hold(out.Block != nil && out.Block.What == ledger.BlockedByFull && out.Block.Used == 3, "the queue is full, got %+v", out.Block)
	j.releases(b.ID)
	j.admits(10, "b")
	j.releases(a.ID)
	j.admits(10, "c")
	j.admits(10, "")
}

func reserveLimits(r *rig) {
	gpu := r.putLimit("gpu", 1)
	a, b := r.jobs("a", maxInFlight(10)), r.jobs("b", maxInFlight(10))
	b.putUsing([]string{"b1"}, "gpu")
	first, granted := a.reserves("a", "gpu")
	a.hold(granted, "it is granted")
	r.used(gpu, 1)
	b.admits(10, "")
	second, granted := a.reserves("again", "gpu")
	a.hold(!granted, "the limit is full")
	a.releases(second.ID)
	a.releases(first.ID)
	r.used(gpu, 0)
	b.admits(10, "b1")
	third, granted := a.reserves("third", "gpu")
	a.hold(!granted, "the limit is full of a run")
	r.used(gpu, 1)
	a.releases(third.ID)
	r.used(gpu, 1)
}

func reservePassed(r *rig) {
	r.putLimit("gpu", 1)
	j, other := r.jobs("q", maxInFlight(2)), r.jobs("other", maxInFlight(10))
	other.putUsing([]string{"o"}, "gpu")
	user := other.admits(10, "o")[0]
	j.put("x", "y", "z")
	blocked, _ := j.reserves("blocked", "gpu")
	free, granted := j.reserves("free")
	j.hold(granted, "the one behind it is granted")
	j.admits(10, "x")
	other.end(user, schedule.StatusSuccess)
	j.hasGrant(blocked.ID, false, "while the queue is full")
	j.releases(free.ID)
	j.hasGrant(blocked.ID, true, "with the first slot after the limit is free")
	j.admits(10, "")
}

func reserveStallAndPause(r *rig) {
	j := r.jobs("q", maxInFlight(5))
	j.put("x")
	_, err := j.PutBack(j.ctx, nil, []schedule.StallChange{{QueueStall: schedule.QueueStall{QueueNo: j.queue.No, Until: j.at(time.Minute), Level: 1, Reason: "away"}}}, j.now)
	j.ok(err, "stall")
	_, granted := j.reserves("a")
	j.hold(granted, "it calls no executor")
	paused := j.queue
	paused.Pause.Paused = true
	j.putQueue(paused)
	b, granted := j.reserves("b")
	j.hold(!granted, "the queue is paused")
	j.admits(10, "")
	j.putQueue(j.queue)
	j.admits(10, "")
	j.hasGrant(b.ID, true, "an admission grants it, also in a stall")
}

func reserveExpires(r *rig) {
	gpu := r.putLimit("gpu", 1)
	j := r.jobs("q", maxInFlight(1))
	j.putUsing([]string{"a"}, "gpu")
	got, _ := j.reserves("r", "gpu")
	end := got.EndsAt
	swept := j.sweptAt(end.Add(-time.Microsecond))
	j.hold(swept.NextDue.Equal(end), "a sweep says when it ends, got %v", swept.NextDue)
	j.reserved(got.ID)
	swept = j.sweptAt(end)
	j.hold(swept.NextDue.IsZero(), "none is left, got %v", swept.NextDue)
	j.gone(got.ID)
	r.used(gpu, 0)
	j.admits(10, "a")
	again, _ := j.reserves("again")
	j.end(j.ledger(j.keyOf("a")), schedule.StatusSuccess)
	after, out := j.reserveChange(schedule.ReserveChange{Now: again.EndsAt})
	j.hold(len(after.Reserved) == 0 && len(out.Ended) == 1, "a change ends what is over, got %+v", out)
	j.gone(again.ID)
}

// keyOf is the key of a job by its name.
func (j *jobs) keyOf(name string) schedule.Key {
	for key, n := range j.names {
		if n == name {
			return key
		}
	}
	j.hold(false, "there is no job %s", name)
	return schedule.Key{}
}

func reserveExtended(r *rig) {
	j := r.jobs("q", maxInFlight(1))
	got, _ := j.reserves("r")
	later := j.at(10 * time.Minute)
	j.reserveChange(schedule.ReserveChange{Extend: got.ID, EndsAt: later})
	got.EndsAt = later
	equal(r, "extended", j.reserved(got.ID), got)
	j.sweptAt(j.at(9 * time.Minute))
	j.reserved(got.ID)
	_, out := j.reserveChange(schedule.ReserveChange{Extend: got.ID, EndsAt: j.at(time.Hour), Now: later})
	j.hold(len(out.Moved) == 0 && len(out.Ended) == 1, "one that is over is not extended, got %+v", out)
	j.gone(got.ID)
}

func reserveWithdrawn(r *rig) {
	j := r.jobs("q", maxInFlight(1))
	j.put("a", "b")
	running := j.admits(10, "a")[0]
	waits, _ := j.reserves("r")
	j.now = waits.EndsAt
	j.end(running, schedule.StatusSuccess)
	j.admits(10, "b") // nobody waits for it any more, swept or not
	j.reserved(waits.ID)
	j.sweptAt(j.now)
	j.gone(waits.ID)
}

func reserveLog(r *rig) {
	j := r.jobs("q", maxInFlight(1))
	held, _ := j.reserves("held")
	waits, _ := j.reserves("waits")
	j.reserves("left")
	j.now = j.now.Add(5 * time.Second)
	j.releases(waits.ID)
	j.releases(held.ID)
	j.now = j.now.Add(time.Hour)
	j.sweptAt(j.now)
	j.sweptAt(j.now)
	events, err := j.ListQueueEvents(j.ctx, j.queue.QueueID, 0, 100)
	j.ok(err, "list events")
	var got []string
	for _, e := range events {
		got = append(got, string(e.Kind)+"/"+e.Actor)
	}
	equal(r, "log, newest first", got, []string{"reservation_expired/", "reservation_granted/ada", "reservation_released/bob", "reservation_withdrawn/bob", "reservation_granted/ada"})
	equal(r, "note", events[2].Note, fmt.Sprintf("reservation %s of %s: held for 5 seconds", held.ID, j.user))
}

func reserveAgain(r *rig) {
	j := r.jobs("q", maxInFlight(1))
	req := schedule.ReserveRequest{QueueID: j.queue.QueueID, UserID: j.user, RequestID: "r1"}
	var earlier *schedule.EnqueueRecord
	ask := func() {
		_, _, err := j.ChangeReservations(j.ctx, req, func(_ ledger.QueueFacts, e *schedule.EnqueueRecord) (schedule.ReserveChange, error) {
			if earlier = e; e != nil {
				return schedule.ReserveChange{Now: j.now}, nil
			}
			added := j.reservation("r")
			return schedule.ReserveChange{Add: &added, BodyHash: bodyHash, Now: j.now}, nil
		})
		j.ok(err, "reserve")
	}
	ask()
	j.hold(earlier == nil, "the first request is the first")
	ask()
	want := &schedule.EnqueueRecord{BodyHash: bodyHash, Keys: []schedule.Key{j.reservation("r").ID}}
	equal(r, "what the first request has made", earlier, want)
	j.releases(want.Keys[0])
	ask()
	equal(r, "also after its end", earlier, want)
}

func reserveRefused(r *rig) {
	j := r.jobs("q", maxInFlight(1))
	_, _, err := j.ChangeReservations(j.ctx, schedule.ReserveRequest{QueueID: j.queue.QueueID, UserID: j.user, RequestID: "r"}, func(f ledger.QueueFacts, _ *schedule.EnqueueRecord) (schedule.ReserveChange, error) {
		j.hold(f.Queue != nil && f.Queue.No == j.queue.No, "the queue is known")
		added := j.reservation("r")
		return schedule.ReserveChange{Add: &added, Now: j.now}, errRefused
	})
	j.hold(errors.Is(err, errRefused), "the refusal comes back, got %v", err)
	j.gone(j.reservation("r").ID)
}

func reserveNowhere(r *rig) {
	after, _, err := r.ChangeReservations(r.ctx, schedule.ReserveRequest{QueueID: r.id("nobody"), UserID: r.user}, func(f ledger.QueueFacts, _ *schedule.EnqueueRecord) (schedule.ReserveChange, error) {
		r.hold(f.Queue == nil, "there is no queue")
		return schedule.ReserveChange{Now: r.now}, nil
	})
	r.ok(err, "change")
	r.hold(after.Queue == nil, "there is none after it")
	facts, err := r.ReadReservations(r.ctx, 1<<30, r.now)
	r.ok(err, "read")
	r.hold(facts.Queue == nil, "there is none")
}

func reserveAudited(r *rig) {
	j, entry := r.jobs("q"), r.entry("reserve", r.now)
	added := j.reservation("r")
	j.reserveChange(schedule.ReserveChange{Add: &added, Audit: &entry})
	equal(r, "trail", r.trail(schedule.AuditFilter{Target: entry.Target}), []schedule.AuditEntry{entry})
}
