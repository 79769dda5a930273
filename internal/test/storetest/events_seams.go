package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	eventtopic "github.com/carillon/carillon/internal/topic"
)

func eventPaused(r *rig) {
	e := r.events()
	s := r.consumer("c", []string{"orders"})
	e.look()
	s = r.rewrite(s, func(s *schedule.Schedule) { s.Pause.Paused = true })
	r.publish("orders", "a", "b")
	r.hold(len(e.look()) == 0, "a paused consumer does not run")
	equal(r, "a look in a pause", len(e.take(s.ScheduleID).Wakes), 1)
	e.m = r.load()
	r.hold(len(e.look()) == 0, "nor after a takeover")
	r.rewrite(s, func(s *schedule.Schedule) { s.Pause.Paused = false })
	equal(r, "batch", r.batchOf(e.one().Key), []string{"a", "b"})
	equal(r, "inbox", r.inbox(s), []string{"a reserved", "b reserved"})
}

func eventPlannedPaused(r *rig) {
	e := r.events()
	s := r.consumer("c", []string{"orders"})
	r.publish("orders", "a")
	e.m.read()
	taken := e.take(s.ScheduleID)
	r.hold(len(taken.Runs) == 1, "a run is planned")
	s = r.rewrite(s, func(s *schedule.Schedule) { s.Pause.Paused = true })
	r.hold(len(e.look()) == 0, "it waits")
	r.rewrite(s, func(s *schedule.Schedule) { s.Pause.Paused = false })
	equal(r, "launched", e.one().Key, taken.Runs[0].Key)
}

func eventSkips(r *rig) {
	e := r.events()
	a, b := r.consumer("a", []string{"orders", "bills"}), r.consumer("b", []string{"orders"})
	r.rewrite(a, func(s *schedule.Schedule) { s.Pause.Paused = true })
	r.publish("orders", "1")
	r.publish("bills", "2")
	a = r.revise(a, func(s *schedule.Schedule) { s.Consume.Topics = []string{"bills"} })
	r.delete(b)
	equal(r, "fanout", r.publish("orders", "3")[0].Fanout, 0)
	run := e.one()
	equal(r, "batch", r.batchOf(run.Key), []string{"2"})
	equal(r, "a", r.inbox(a), []string{"1 skipped(unsubscribed)", "2 reserved"})
	equal(r, "b", r.inbox(b), []string{"1 skipped(deleted)"})
	r.now = r.at(time.Second)
	r.delete(a)
	r.publish("bills", "4")
	r.hold(r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusSuccess})[0], "a run in flight still ends")
	equal(r, "a", r.inbox(a), []string{"1 skipped(unsubscribed)", "2 consumed"})
}

// delete makes s a tombstone.
func (r *rig) delete(s schedule.Schedule) {
	r.Helper()
	s.DeletedAt, s.UpdatedAt = r.now, r.now
	c := schedule.Change{Row: &s, DropPlannedAfter: r.now.Add(-time.Hour), EndRest: true}
	c.EndDue.To, c.EndDue.Reason = schedule.StatusCancelled, schedule.ReasonDeleted
	r.change(c)
}

func eventRecreated(r *rig) {
	e := r.events()
	s := r.consumer("c", []string{"orders"})
	r.publish("orders", "old")
	r.delete(s)
	r.now = r.at(time.Minute)
	s.Revision++
	s.DeletedAt, s.CreatedAt, s.UpdatedAt = time.Time{}, r.now, r.now
	r.change(schedule.Change{Row: &s, Created: true, NewRevision: true, ChangedBy: s.UserID})
	r.now = r.at(time.Second)
	r.publish("orders", "new")
	equal(r, "batch", r.batchOf(e.one().Key), []string{"new"})
	equal(r, "inbox", r.inbox(s), []string{"old skipped(deleted)", "new reserved"})
}

func eventTakeover(r *rig) {
	e := r.events()
	s := r.consumer("c", []string{"orders"})
	e.look()
	r.publish("orders", "a")
	e.m.read()
	equal(r, "due by a change", e.m.state.Due(r.now, 10), []string{s.ScheduleID})
	r.lead()
	e.m = r.load()
	equal(r, "due after a takeover", e.m.state.Due(r.now, 10), []string{s.ScheduleID})
	taken := e.take(s.ScheduleID)
	r.lead()
	e.m = r.load()
	equal(r, "what was taken before is launched", e.one().Key, taken.Runs[0].Key)
}

func eventFirst(r *rig) {
	e := r.events()
	s := r.consumer("c", []string{"orders"}, func(s *schedule.Schedule) { s.OverlapKey = r.id("group") })
	p := r.create("p", func(s *schedule.Schedule) { s.OverlapKey, s.OverlapPolicy = r.id("group"), schedule.OverlapQueue })
	first := r.slot(p, r.at(-3*time.Second))
	r.add(first)
	equal(r, "launched", e.one().Key, first.Key)
	second := r.slot(p, r.at(-2*time.Second))
	r.add(second)
	r.hold(len(e.look()) == 0, "the second slot waits")
	r.publish("orders", "a")
	r.hold(len(e.look()) == 0, "the consumer waits")
	r.succeed(first)
	run := e.one()
	equal(r, "the consumer goes first", run.ScheduleID, s.ScheduleID)
	r.succeed(run)
	equal(r, "then the slot", e.one().Key, second.Key)
}

func eventPriority(r *rig) {
	e := r.events()
	group := func(priority int32) func(*schedule.Schedule) {
		return func(s *schedule.Schedule) { s.OverlapKey, s.Priority = r.id("group"), priority }
	}
	r.consumer("low", []string{"orders"}, group(0))
	high := r.consumer("high", []string{"orders"}, group(5))
	e.look()
	r.publish("orders", "a")
	e.m.read()
	equal(r, "due", e.m.state.Due(r.now, 10), []string{high.ScheduleID})
	run := e.one()
	equal(r, "launched", run.ScheduleID, high.ScheduleID)
	r.succeed(run)
	equal(r, "then", e.one().ScheduleID, r.id("low"))
}

func eventFenced(r *rig) {
	e := r.events()
	s := r.consumer("c", []string{"orders"})
	r.publish("orders", "a")
	old := r.term
	r.lead()
	_, err := r.Take(r.ctx, ledger.TakeRequest{Term: old, Now: r.now, ScheduleIDs: []string{s.ScheduleID}})
	r.hold(err != nil, "it is refused")
	equal(r, "inbox", r.inbox(s), []string{"a pending"})
	e.m = r.load()
	e.one()
}

func eventStrict(r *rig) {
	e := r.events()
	s := r.consumer("c", []string{"orders"})
	e.look()
	r.publish("orders", "a=1")
	p := r.publication("orders", "b", "a=2")
	p.Strict = true
	_, err := r.Publish(r.ctx, p)
	r.hold(err != nil, "other data are refused")
	equal(r, "inbox", r.inbox(s), []string{"a pending"})
	r.ok(func() error {
		_, err := r.Publish(r.ctx, &eventtopic.Publication{UserID: r.user, Now: r.now, Strict: true, Events: r.publication("orders", "a=1").Events})
		return err
	}(), "the same data")
}

func eventRace(r *rig) {
	const publishers, each = 8, 40
	e := r.events()
	var all []schedule.Schedule
	for i := range 3 {
		all = append(all, r.consumer(fmt.Sprint("c", i), []string{"orders.*"}, func(s *schedule.Schedule) { s.Consume.MaxEvents = 7 }))
	}
	now := r.now
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.crowd(publishers, func(n int) {
			for i := range each {
				if _, err := r.Publish(r.ctx, r.publicationAt(now, fmt.Sprint("orders.", i%3), fmt.Sprint(n, "-", i), fmt.Sprint(n, "+", i))); err != nil {
					r.Errorf("publish: %v", err)
				}
			}
		})
	}()
	seen := make(map[string]int)
	for round, quiet := 0, 0; quiet < 3; round++ {
		r.now = r.at(time.Second)
		if round%10 == 9 { // another leader, with what the tables have
			r.lead()
			e.m = r.load()
		}
		launches := e.lookOnce()
		for i := range launches {
			for _, id := range r.batchOf(launches[i].Run.Key) {
				seen[launches[i].Run.ScheduleID+" "+id]++
			}
			r.succeed(launches[i].Run)
		}
		select {
		case <-done:
			if len(launches) == 0 {
				quiet++
			}
		default:
		}
	}
	for _, s := range all {
		for _, line := range r.inbox(s) {
			id, state, _ := strings.Cut(line, " ")
			r.hold(state == "consumed" && seen[s.ScheduleID+" "+id] == 1, "%s is consumed by one run, got %s by %d", id, state, seen[s.ScheduleID+" "+id])
		}
		r.hold(len(r.inbox(s)) == publishers*each*2, "each event is in the inbox, got %d", len(r.inbox(s)))
	}
}

// lookOnce is one pass of a leader: it claims, looks at what is due, and claims what was taken. Rows that
// publishers have locked are left for the next.
func (e *events) lookOnce() []schedule.Launch {
	launches := e.m.pass().Launches
	if due := e.m.state.Due(e.now, 100); len(due) > 0 {
		e.take(due...)
		launches = append(launches, e.m.pass().Launches...)
	}
	return launches
}

func eventSameRace(r *rig) {
	s := r.consumer("c", []string{"a", "b"})
	r.crowd(6, func(n int) {
		for i := range 20 {
			p := r.publication("a", fmt.Sprint(i), fmt.Sprint(i, "x"))
			p.Events = append(p.Events, r.publication("b", fmt.Sprint(i)).Events...)
			if n%2 == 1 {
				slices.Reverse(p.Events)
			}
			if _, err := r.Publish(r.ctx, p); err != nil {
				r.Errorf("publish: %v", err)
			}
		}
	})
	found := r.inbox(s)
	slices.Sort(found)
	equal(r, "entries", len(slices.Compact(found)), 60-20) // "i pending" of a and b are alike
	equal(r, "all", len(r.inbox(s)), 60)
}

func eventEditRace(r *rig) {
	e := r.events()
	s := r.consumer("c", []string{"orders"})
	now := r.now
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.crowd(4, func(n int) {
			for i := range 20 {
				if _, err := r.Publish(r.ctx, r.publicationAt(now, "orders", fmt.Sprint(n, "-", i))); err != nil {
					r.Errorf("publish: %v", err)
				}
			}
		})
	}()
	for quiet, round := 0, 0; quiet < 3; round++ {
		r.now = r.at(time.Second)
		switch round % 4 {
		case 0:
			s = r.revise(s, func(s *schedule.Schedule) { s.Consume.MaxEvents = uint32(3 + round%5) })
		case 1:
			s = r.rewrite(s, func(s *schedule.Schedule) { s.Pause.Paused = true })
		case 2:
			s = r.rewrite(s, func(s *schedule.Schedule) { s.Pause.Paused = false })
		}
		launches := e.lookOnce()
		for i := range launches {
			r.succeed(launches[i].Run)
		}
		select {
		case <-done:
			if len(launches) == 0 && round%4 == 3 {
				quiet++
			}
		default:
		}
	}
	for _, line := range r.inbox(s) {
		r.hold(strings.HasSuffix(line, " consumed"), "each event is consumed, got %s", line)
	}
	equal(r, "events", len(r.inbox(s)), 80)
}

func eventRetention(r *rig) {
	e := r.events()
	s := r.consumer("c", []string{"orders"})
	r.publish("orders", "done")
	r.publish("nobody", "unrouted")
	r.succeed(e.one())
	r.now = r.at(time.Second)
	paused := r.consumer("p", []string{"bills"}, func(s *schedule.Schedule) { s.Pause.Paused = true })
	r.publish("bills", "waits")
	r.publish("orders", "held")
	run := e.one()
	r.now = r.at(40 * 24 * time.Hour)
	for {
		n, err := r.Prune(r.ctx, r.term, r.now.Add(-30*24*time.Hour), 1)
		r.ok(err, "prune")
		if n == 0 {
			break
		}
	}
	equal(r, "what is left", r.inbox(s), []string{"held reserved"})
	equal(r, "what waits", r.inbox(paused), []string{"waits pending"})
	equal(r, "batch", r.batchOf(run.Key), []string{"held"})
	for topicName, want := range map[string]int{"orders": 1, "nobody": 0, "bills": 1} {
		found, err := r.ListTopicEvents(r.ctx, eventtopic.EventFilter{UserID: r.user, Topic: topicName, Limit: 10})
		r.ok(err, "list")
		equal(r, topicName, len(found), want)
	}
	r.hold(!r.publish("orders", "done")[0].Duplicate, "a deleted id counts as new")
}

// eventWaitRace loses a wake for good if a look misses an event whose publisher found the wake row: no
// later event wakes the consumer.
func eventWaitRace(r *rig) {
	const consumers, each = 4, 30
	e := r.events()
	for i := range consumers {
		r.consumer(fmt.Sprint("c", i), []string{fmt.Sprint("t", i)})
	}
	now := r.now
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.crowd(2*consumers, func(n int) {
			for i := range each {
				topicName, id := fmt.Sprint("t", n/2), fmt.Sprint(n, "-", i)
				if _, err := r.Publish(r.ctx, r.publicationAt(now, topicName, id)); err != nil {
					r.Errorf("publish: %v", err)
					return
				}
				for began := time.Now(); ; {
					_, entries, err := r.GetEvent(r.ctx, r.user, eventtopic.ID{Topic: topicName, EventID: id})
					if err != nil || time.Since(began) > 20*time.Second {
						r.Errorf("event %s is %v: %v", id, entries, err)
						return
					}
					if entries[0].State == eventtopic.Consumed {
						break
					}
				}
			}
		})
	}()
	for over := false; !over; {
		r.now = r.at(time.Second)
		launches := e.lookOnce()
		for i := range launches {
			r.succeed(launches[i].Run)
		}
		select {
		case <-done:
			over = true
		default:
		}
	}
}
