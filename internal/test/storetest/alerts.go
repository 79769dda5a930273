package storetest

import (
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var alerts = []check{
	{"an alert comes back as it was written, and its end and its rows keep who has seen to it", alertSurvives},
	{"alerts are listed newest first, by page and filter", alertLists},
	{"a message comes back as it was written and is there once", messageSurvives},
	{"a message is given to one sender at a time, and to the next when its lease runs out", messageClaimed},
	{"a sender asks for the messages of one target, or for those of all but some", messageOfTarget},
	{"only the newest attempt says what became of a message", messageSettled},
	{"a target that is gone is known until a message arrives there", targetGone},
	{"what has ended or waits can be sent again, and what is under way is not sent twice", messageAgain},
	{"messages are listed newest first, by page and filter", messageLists},
	{"many senders send each message once", messagesRaced},
	{"notices of one key are told together, and what comes later is told later", noticesGrouped},
	{"a notice about an alert that was told before starts a group of its own", noticesAlone},
	{"a group that no alert joined for long, or that began long ago, takes no more", groupsAge},
	{"a group that was told waits for the interval", groupsWait},
	{"a reminder of what is not told yet does not put off its message", remindersRepeat},
	{"a decision that fails leaves the notices as they are", groupingFails},
	{"groups that are closed or whose alerts are gone are pruned with their notices, open ones stay", groupsPruned},
	{"alerts and messages that ended long ago are pruned, open ones stay", alertsPruned},
}

func (r *rig) alert(name string) schedule.Alert {
	return schedule.Alert{
		AlertID: r.id(name), ScheduleID: r.id("schedule-" + name), WorkflowID: r.id("workflow"), UserID: r.user, Kind: schedule.ExpectFinish,
		Revision: 1 << 40, LimitMS: 1<<32 - 1, Cause: schedule.CauseTooLate, Late: 1 << 41, FirstSlot: odd(1), LastSlot: odd(2), Deadline: odd(3), OpenedAt: odd(4), NotifiedAt: odd(5), Targets: "pager,0123456789ab",
		RunKey: schedule.ManualKey("run", name), Detail: awkward,
	}
}

func keptAlert(a schedule.Alert) schedule.Alert {
	for _, at := range []*time.Time{&a.FirstSlot, &a.LastSlot, &a.Deadline, &a.OpenedAt, &a.ClosedAt, &a.NotifiedAt, &a.AckedAt} {
		if !at.IsZero() {
			*at = stored(*at)
		}
	}
	return a
}

// write has alerts and messages written by a verdict.
func (r *rig) write(alerts []schedule.Alert, messages ...schedule.AlertDelivery) {
	r.Helper()
	s := r.create(fmt.Sprintf("writer-%d", r.counter()), startOnly)
	r.judging(r.now, func(c schedule.ExpectationCase) schedule.ExpectationVerdict {
		v := schedule.ExpectationVerdict{State: c.State}
		v.State.JudgeAt = time.Time{}
		if c.State.ScheduleID == s.ScheduleID {
			v.Alerts, v.Deliveries = alerts, messages
		}
		return v
	})
}

func (r *rig) counter() int { r.written++; return r.written }

func (r *rig) oneAlert(id string) schedule.Alert {
	r.Helper()
	a, err := r.GetAlert(r.ctx, id)
	r.ok(err, "get alert")
	return *a
}

func alertSurvives(r *rig) {
	a := r.alert("a")
	r.write([]schedule.Alert{a})
	equal(r, "the alert", r.oneAlert(a.AlertID), keptAlert(a))
	r.inUTC("Alert", r.oneAlert(a.AlertID))
	r.ok(r.AckAlert(r.ctx, schedule.AlertAck{AlertID: a.AlertID, By: "ada", Note: "on it", Now: r.now}), "acknowledge")
	r.ok(r.AckAlert(r.ctx, schedule.AlertAck{AlertID: a.AlertID, By: "bob", Note: "me too", Now: r.at(time.Hour)}), "acknowledge again")
	a.Late, a.LastSlot, a.Deadline, a.Cause, a.ClosedAt, a.Resolution, a.NotifiedAt = 7, odd(6), odd(7), schedule.CauseNotPlanned, odd(8), schedule.ResolutionRecovered, odd(9)
	a.Targets = "pager,0123456789ab,mail"
	r.write([]schedule.Alert{a})
	a.AckedAt, a.AckedBy, a.AckNote = r.now, "ada", "on it"
	r.everyFieldSet(reflect.ValueOf(a), "Alert")
	equal(r, "the alert, closed", r.oneAlert(a.AlertID), keptAlert(a))
	_, err := r.GetAlert(r.ctx, r.id("no-such"))
	r.hold(notFound(err), "an alert that there is not: %v", err)
	r.hold(notFound(r.AckAlert(r.ctx, schedule.AlertAck{AlertID: r.id("no-such"), Now: r.now})), "nor can it be acknowledged")
}

func alertLists(r *rig) {
	first, second, third := r.alert("a"), r.alert("b"), r.alert("c")
	first.OpenedAt, second.OpenedAt, third.OpenedAt = r.now, r.at(time.Second), r.at(time.Second)
	first.Kind, first.ClosedAt, first.Resolution = schedule.ExpectStart, r.at(time.Hour), schedule.ResolutionHappened
	second.UserID = r.id("other")
	r.write([]schedule.Alert{first, second, third})
	names := func(f schedule.AlertFilter) (ids []string) {
		f.Limit = max(f.Limit, 1)
		for { // page by page
			found, err := r.ListAlerts(r.ctx, f)
			r.ok(err, "list alerts")
			if len(found) == 0 {
				return ids
			}
			for _, a := range found {
				ids = append(ids, a.AlertID)
			}
			last := found[len(found)-1]
			f.AfterOpened, f.AfterID = last.OpenedAt, last.AlertID
		}
	}
	open, closed := true, false
	equal(r, "all, one by one", names(schedule.AlertFilter{}), []string{third.AlertID, second.AlertID, first.AlertID})
	equal(r, "of an owner", names(schedule.AlertFilter{UserID: r.user, Limit: 10}), []string{third.AlertID, first.AlertID})
	equal(r, "of a schedule", names(schedule.AlertFilter{ScheduleID: second.ScheduleID}), []string{second.AlertID})
	equal(r, "of a kind", names(schedule.AlertFilter{Kind: schedule.ExpectStart}), []string{first.AlertID})
	equal(r, "open", names(schedule.AlertFilter{Open: &open}), []string{third.AlertID, second.AlertID})
	equal(r, "closed", names(schedule.AlertFilter{Open: &closed}), []string{first.AlertID})
}

func (r *rig) message(name string, created time.Time) schedule.AlertDelivery {
	return schedule.AlertDelivery{
		DeliveryID: r.id("msg-" + name), AlertID: r.id("alert-" + name), ScheduleID: r.id("schedule"), UserID: r.user, Type: "alert.opened",
		Target: "target-" + name, TargetKind: "email", Host: "example.org", Payload: `{"a": 1}`, CreatedAt: created,
	}
}

// claimMessages are those that are due at now, with a lease of a minute.
func (r *rig) claimMessages(now time.Time) []schedule.AlertDelivery {
	r.Helper()
	claimed, err := r.ClaimDeliveries(r.ctx, schedule.DeliveryClaim{Now: now, Lease: time.Minute, Limit: 100})
	r.ok(err, "claim deliveries")
	return claimed
}

// oneMessage is a message as it is kept.
func (r *rig) oneMessage(id string) schedule.AlertDelivery {
	r.Helper()
	found, err := r.ListDeliveries(r.ctx, schedule.DeliveryFilter{Limit: 100})
	r.ok(err, "list deliveries")
	for _, d := range found {
		if d.DeliveryID == id {
			return d
		}
	}
	r.Fatalf("there is no message %s", id)
	return schedule.AlertDelivery{}
}

func (r *rig) settled(d schedule.AlertDelivery, edit func(*schedule.DeliverySettlement)) bool {
	r.Helper()
	s := schedule.DeliverySettlement{DeliveryID: d.DeliveryID, Attempts: d.Attempts, Round: d.Round, State: schedule.DeliveryDelivered, Status: 204, Arrived: true, Now: r.now}
	edit(&s)
	moved, err := r.SettleDelivery(r.ctx, s)
	r.ok(err, "settle delivery")
	return moved
}

func arrived(*schedule.DeliverySettlement) {}

func messageSurvives(r *rig) {
	d := r.message("m", odd(1))
	r.ok(r.InsertDeliveries(r.ctx, []schedule.AlertDelivery{d}), "insert")
	other := d
	other.Payload = `{}`
	r.ok(r.InsertDeliveries(r.ctx, []schedule.AlertDelivery{other}), "insert again")
	d.CreatedAt = stored(d.CreatedAt)
	d.State, d.Round, d.RoundAt, d.NextAt = schedule.DeliveryPending, 1, d.CreatedAt, d.CreatedAt
	equal(r, "the message", r.oneMessage(d.DeliveryID), d)
	r.inUTC("AlertDelivery", r.oneMessage(d.DeliveryID))
	test := schedule.AlertDelivery{DeliveryID: r.id("test"), Type: "alert.test", Target: "t", Host: "h", Payload: "{}", CreatedAt: r.now}
	r.ok(r.InsertDeliveries(r.ctx, []schedule.AlertDelivery{test}), "insert a test")
	r.hold(r.oneMessage(test.DeliveryID).AlertID == "", "a test is of no alert")
}

func messageClaimed(r *rig) {
	r.ok(r.InsertDeliveries(r.ctx, []schedule.AlertDelivery{r.message("m", r.now)}), "insert")
	r.hold(len(r.claimMessages(r.at(-time.Second))) == 0, "not before its time")
	first := r.claimMessages(r.now)
	r.hold(len(first) == 1 && first[0].Attempts == 1 && first[0].NextAt.Equal(r.at(time.Minute)), "the first sender has it: %+v", first)
	r.hold(len(r.claimMessages(r.at(59*time.Second))) == 0, "nobody else while the lease lasts")
	second := r.claimMessages(r.at(time.Minute))
	r.hold(len(second) == 1 && second[0].Attempts == 2, "the next sender has it then: %+v", second)
}

func messageOfTarget(r *rig) {
	a, b, c := r.message("a", r.now), r.message("b", r.at(time.Second)), r.message("c", r.at(2*time.Second))
	c.Target = a.Target
	r.ok(r.InsertDeliveries(r.ctx, []schedule.AlertDelivery{a, b, c}), "insert")
	claim := func(target string, except ...string) (ids []string) {
		claimed, err := r.ClaimDeliveries(r.ctx, schedule.DeliveryClaim{Now: r.at(time.Minute), Lease: time.Minute, Limit: 1, Target: target, Except: except})
		r.ok(err, "claim deliveries")
		for _, d := range claimed {
			ids = append(ids, d.DeliveryID)
		}
		return ids
	}
	equal(r, "of a target that has none", claim("nobody"), nil)
	equal(r, "but of those targets", claim("", a.Target, b.Target), nil)
	equal(r, "but of that target", claim("", a.Target), []string{b.DeliveryID})
	equal(r, "of a target, the oldest first", claim(a.Target), []string{a.DeliveryID})
	equal(r, "and the next", claim("", b.Target), []string{c.DeliveryID})
}

func messageSettled(r *rig) {
	r.ok(r.InsertDeliveries(r.ctx, []schedule.AlertDelivery{r.message("m", r.now)}), "insert")
	first := r.claimMessages(r.now)[0]
	again := func(s *schedule.DeliverySettlement) {
		s.State, s.NextAt, s.Status, s.Error, s.Arrived = schedule.DeliveryPending, r.at(time.Hour), 503, "it is busy", false
	}
	r.hold(r.settled(first, again), "an attempt that failed")
	kept := r.oneMessage(first.DeliveryID)
	r.hold(kept.State == schedule.DeliveryPending && kept.NextAt.Equal(r.at(time.Hour)) && kept.LastStatus == 503 && kept.LastError == "it is busy" && kept.EndedAt.IsZero(), "is kept: %+v", kept)
	r.hold(len(r.claimMessages(r.at(59*time.Minute))) == 0, "and is not sent before it says")
	second := r.claimMessages(r.at(time.Hour))[0]
	r.hold(!r.settled(first, arrived), "an older attempt changes nothing")
	r.hold(r.settled(second, arrived), "the newest does")
	kept = r.oneMessage(first.DeliveryID)
	r.hold(kept.State == schedule.DeliveryDelivered && kept.LastStatus == 204 && kept.LastError == "" && kept.EndedAt.Equal(r.now) && kept.Attempts == 2, "and is kept: %+v", kept)
	r.hold(!r.settled(second, again), "what has ended has ended")
	r.hold(len(r.claimMessages(r.at(1000*time.Hour))) == 0, "and is sent to nobody")
}

func targetGone(r *rig) {
	d := r.message("m", r.now)
	sibling := r.message("n", r.at(time.Second))
	sibling.Target = d.Target
	r.ok(r.InsertDeliveries(r.ctx, []schedule.AlertDelivery{d, sibling}), "insert")
	first := r.claimMessages(r.now)[0]
	r.hold(!first.Disabled, "the target is there")
	r.hold(r.settled(first, func(s *schedule.DeliverySettlement) {
		s.State, s.Status, s.Error, s.Arrived, s.Gone = schedule.DeliveryDead, 410, "gone", false, true
	}), "it says that it is gone")
	second := r.claimMessages(r.at(time.Second))[0]
	r.hold(second.Disabled && r.oneMessage(d.DeliveryID).Disabled, "that is known of its other messages")
	r.hold(r.settled(second, arrived), "one arrives")
	r.hold(!r.oneMessage(d.DeliveryID).Disabled, "and it is back")
}

func messageAgain(r *rig) {
	d := r.message("m", r.now)
	r.ok(r.InsertDeliveries(r.ctx, []schedule.AlertDelivery{d}), "insert")
	same, err := r.Redeliver(r.ctx, schedule.Redelivery{DeliveryID: d.DeliveryID, Now: r.at(time.Hour), Lease: time.Minute})
	r.ok(err, "redeliver what is on its way")
	r.hold(same.Round == 1 && same.NextAt.Equal(r.now), "it stays as it is: %+v", same)
	first := r.claimMessages(r.now)[0]
	r.settled(first, func(s *schedule.DeliverySettlement) {
		s.State, s.Error, s.Arrived = schedule.DeliveryDead, "no answer", false
	})
	again, err := r.Redeliver(r.ctx, schedule.Redelivery{DeliveryID: d.DeliveryID, Now: r.at(time.Hour), Lease: time.Minute})
	r.ok(err, "redeliver")
	r.hold(again.State == schedule.DeliveryPending && again.Round == 2 && again.Attempts == 0 && again.RoundAt.Equal(r.at(time.Hour)) &&
		again.NextAt.Equal(r.at(time.Hour)) && again.EndedAt.IsZero() && again.Payload == d.Payload, "it begins anew: %+v", again)
	second := r.claimMessages(r.at(time.Hour))
	r.hold(len(second) == 1 && second[0].Attempts == 1, "it is sent: %+v", second)
	r.hold(!r.settled(first, arrived), "an attempt of the round before changes nothing")
	r.hold(r.settled(second[0], func(s *schedule.DeliverySettlement) {
		s.State, s.NextAt, s.Error, s.Arrived = schedule.DeliveryPending, r.at(2*time.Hour), "no answer", false
	}), "its attempt fails")
	soon, err := r.Redeliver(r.ctx, schedule.Redelivery{DeliveryID: d.DeliveryID, Now: r.at(2*time.Hour - time.Minute), Lease: time.Minute})
	r.ok(err, "redeliver what may be under way")
	r.hold(soon.Round == 2, "it stays as it is: %+v", soon)
	waiting, err := r.Redeliver(r.ctx, schedule.Redelivery{DeliveryID: d.DeliveryID, Now: r.at(time.Hour), Lease: time.Minute})
	r.ok(err, "redeliver what waits")
	r.hold(waiting.Round == 3 && waiting.NextAt.Equal(r.at(time.Hour)) && waiting.Attempts == 0, "it is sent now: %+v", waiting)
	_, err = r.Redeliver(r.ctx, schedule.Redelivery{DeliveryID: r.id("no-such"), Now: r.now})
	r.hold(notFound(err), "a message that there is not: %v", err)
}

func messageLists(r *rig) {
	first, second, third := r.message("a", r.now), r.message("b", r.at(time.Second)), r.message("c", r.at(time.Second))
	third.ScheduleID = r.id("other")
	r.ok(r.InsertDeliveries(r.ctx, []schedule.AlertDelivery{first, second, third}), "insert")
	r.hold(r.settled(r.claimMessages(r.now)[0], arrived), "the first arrives")
	names := func(f schedule.DeliveryFilter) (ids []string) {
		f.Limit = 1
		for {
			found, err := r.ListDeliveries(r.ctx, f)
			r.ok(err, "list deliveries")
			if len(found) == 0 {
				return ids
			}
			ids = append(ids, found[0].DeliveryID)
			f.AfterCreated, f.AfterID = found[0].CreatedAt, found[0].DeliveryID
		}
	}
	equal(r, "all, one by one", names(schedule.DeliveryFilter{}), []string{third.DeliveryID, second.DeliveryID, first.DeliveryID})
	equal(r, "of an alert", names(schedule.DeliveryFilter{AlertID: second.AlertID}), []string{second.DeliveryID})
	equal(r, "of a schedule", names(schedule.DeliveryFilter{ScheduleID: third.ScheduleID}), []string{third.DeliveryID})
	equal(r, "of another", names(schedule.DeliveryFilter{ScheduleID: r.id("no-such")}), nil)
	equal(r, "delivered", names(schedule.DeliveryFilter{State: schedule.DeliveryDelivered}), []string{first.DeliveryID})
}

func messagesRaced(r *rig) {
	const many = 40
	for i := range many {
		r.ok(r.InsertDeliveries(r.ctx, []schedule.AlertDelivery{r.message(fmt.Sprint("m", i), r.now)}), "insert")
	}
	var mu sync.Mutex
	sent := make(map[string]int)
	r.crowd(4, func(int) {
		for range many {
			claimed, err := r.ClaimDeliveries(r.ctx, schedule.DeliveryClaim{Now: r.now, Lease: time.Minute, Limit: 3})
			if err != nil {
				r.Errorf("claim: %v", err)
			}
			mu.Lock()
			for _, d := range claimed {
				sent[d.DeliveryID]++
			}
			mu.Unlock()
		}
	})
	r.hold(len(sent) == many, "%d of %d were sent", len(sent), many)
	for id, n := range sent {
		r.hold(n == 1, "%s was sent %d times", id, n)
	}
}

func alertsPruned(r *rig) {
	r.lead()
	old, open, fresh := r.alert("old"), r.alert("open"), r.alert("fresh")
	old.ClosedAt, fresh.ClosedAt = r.at(-48*time.Hour), r.now
	gone, stays := r.message("gone", r.at(-50*time.Hour)), r.message("stays", r.at(-49*time.Hour))
	r.write([]schedule.Alert{old, open, fresh}, gone, stays)
	r.hold(r.settled(r.claimMessages(r.at(-50 * time.Hour))[0], func(s *schedule.DeliverySettlement) { s.Now = r.at(-48 * time.Hour) }), "one arrives")
	r.pruneAll(r.at(-24 * time.Hour))
	_, err := r.GetAlert(r.ctx, old.AlertID)
	r.hold(notFound(err), "the old one is gone: %v", err)
	equal(r, "an open one", r.oneAlert(open.AlertID), keptAlert(open))
	equal(r, "a fresh one", r.oneAlert(fresh.AlertID), keptAlert(fresh))
	left, err := r.ListDeliveries(r.ctx, schedule.DeliveryFilter{Limit: 10})
	r.ok(err, "list deliveries")
	r.hold(len(left) == 1 && left[0].DeliveryID == stays.DeliveryID, "of the messages the one that is on its way is left: %+v", left)
}
