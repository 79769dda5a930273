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

// eventChecks are events, their consumers, and what the runs of these take.
var eventChecks = []check{
	{"an event starts a run with it, and is consumed by its success", eventConsumed},
	{"the same event again is a duplicate: it writes nothing and wakes nobody", eventDuplicate},
	{"an event goes to each consumer that names its topic or a prefix of it, once, and to no other owner's", eventFanout},
	{"an event without a consumer is stored, or refused with all others if one is required", eventUnrouted},
	{"events that come while a run is in flight are one batch of the next run, in the order of the publication", eventBatch},
	{"a run gets at most max_events, and its end wakes for the rest", eventMost},
	{"a look that finds nothing leaves no wake row and no run", eventNothing},
	{"the next attempt has the batch, and the events are dead after the last", eventAttempts},
	{"a cancelled run leaves dead events, and later ones are taken", eventCancelled},
	{"a run that was not started gives its events back", eventSkipped},
	{"while the consumer is paused its events gather; after the pause they are taken", eventPaused},
	{"a planned run of a paused consumer waits for the end of the pause", eventPlannedPaused},
	{"events of a deleted consumer, and of a topic that it names no more, are skipped", eventSkips},
	{"a new schedule under the id of a deleted one does not get its events", eventRecreated},
	{"a leader that takes over knows the wake rows, and its memory reads those that come", eventTakeover},
	{"a consumer goes before the slots of its overlap group", eventFirst},
	{"of two consumers of a group one is looked at, the one with the higher priority", eventPriority},
	{"a take of a leader that leads no more writes nothing", eventFenced},
	{"a publisher that fails leaves nothing", eventStrict},
	{"retention deletes events whose entries have ended, and none that waits", eventRetention},
	{"eight publishers and two leaders: no event is lost, none is taken twice", eventRace},
	{"publishers of the same events at once: each event exists once, and none waits for another in a circle", eventSameRace},
	{"an edit, a pause or a deletion beside publishers loses no wake", eventEditRace},
}

// consumer is a schedule without a time rule that consumes topics.
func (r *rig) consumer(name string, topics []string, edits ...func(*schedule.Schedule)) schedule.Schedule {
	r.Helper()
	return r.create(name, append([]func(*schedule.Schedule){func(s *schedule.Schedule) {
		s.CronExpr, s.NextRunAt, s.PlanAt = "", time.Time{}, time.Time{}
		s.OverlapPolicy = schedule.OverlapQueue
		s.Consume = schedule.Consume{Topics: topics, MaxEvents: 100}
	}}, edits...)...)
}

// events are the consumers of a check with the memory of their leader.
type events struct {
	*rig
	m *memory
}

func (r *rig) events() *events {
	r.Helper()
	r.lead()
	return &events{rig: r, m: r.load()}
}

// publish publishes events of a topic by id; the data of "a=1" is 1.
func (r *rig) publish(topicName string, ids ...string) []eventtopic.Published {
	r.Helper()
	out, err := r.Publish(r.ctx, r.publication(topicName, ids...))
	r.ok(err, "publish")
	return out
}

func (r *rig) publication(topicName string, ids ...string) *eventtopic.Publication {
	p := &eventtopic.Publication{UserID: r.user, Now: r.now}
	for _, id := range ids {
		name, data, _ := strings.Cut(id, "=")
		if data == "" {
			data = "{}"
		}
		p.Events = append(p.Events, eventtopic.Event{
			Topic: topicName, EventID: name, Data: []byte(data), DataHash: schedule.ManualKey("data", data), PublishedBy: "tester",
		})
	}
	return p
}

// look lets the leader look at its consumers until nothing is due, and claims. It returns what was
// launched.
func (e *events) look() []schedule.Launch {
	e.Helper()
	launches := e.m.pass().Launches
	for range 20 {
		due := e.m.state.Due(e.now, 100)
		if len(due) == 0 {
			return launches
		}
		e.take(due...)
		launches = append(launches, e.m.pass().Launches...)
	}
	e.Fatalf("looks do not end")
	return nil
}

func (e *events) take(ids ...string) ledger.Taken {
	e.Helper()
	taken, err := e.Take(e.ctx, ledger.TakeRequest{Term: e.term, Now: e.now, ScheduleIDs: ids})
	e.ok(err, "take")
	e.m.state.Took(&taken, e.now)
	return taken
}

// one is the only run that is launched now.
func (e *events) one() schedule.Run {
	e.Helper()
	launches := e.look()
	e.hold(len(launches) == 1, "one run is launched, got %d", len(launches))
	return launches[0].Run
}

// batchOf are the ids of the events that a run has.
func (r *rig) batchOf(key schedule.Key) (ids []string) {
	r.Helper()
	b, err := r.EventsOf(r.ctx, key)
	r.ok(err, "events of a run")
	if b == nil {
		return nil
	}
	r.hold(b.Count == len(b.Events) && b.Digest == eventtopic.Digest(b.Events), "count and digest are those of the batch")
	for i := range b.Events {
		ids = append(ids, b.Events[i].EventID)
	}
	return ids
}

// inbox are the entries of a consumer as texts.
func (r *rig) inbox(s schedule.Schedule) (lines []string) {
	r.Helper()
	found, err := r.ListInbox(r.ctx, eventtopic.InboxFilter{ScheduleID: s.ScheduleID, Limit: 1000})
	r.ok(err, "list inbox")
	for i := range found {
		e := &found[i]
		line := e.Event.EventID + " " + e.State.String()
		if e.Reason != "" {
			line += "(" + string(e.Reason) + ")"
		}
		lines = append(lines, line)
		r.hold(e.State.Ended() == !e.EndedAt.IsZero(), "an entry has an end if it has ended: %s", line)
	}
	return lines
}

func (r *rig) succeeds(run schedule.Run) {
	r.Helper()
	r.hold(r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusSuccess})[0], "the run succeeds")
}

func (r *rig) fails(run schedule.Run) {
	r.Helper()
	r.hold(r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed})[0], "the run fails")
}

func eventConsumed(r *rig) {
	e := r.events()
	s := r.consumer("c", []string{"orders"})
	e.look()
	got := r.publish("orders", "o-1={\"n\": 1}")
	equal(r, "answer", got, []eventtopic.Published{{Seq: got[0].Seq, Fanout: 1}})
	equal(r, "inbox", r.inbox(s), []string{"o-1 pending"})
	run := e.one()
	equal(r, "trigger", run.Trigger, schedule.TriggerEvent)
	equal(r, "run_at", run.RunAt, r.now)
	equal(r, "batch", r.batchOf(run.Key), []string{"o-1"})
	b, err := r.EventsOf(r.ctx, run.Key)
	r.ok(err, "events")
	equal(r, "data", string(b.Events[0].Data), `{"n": 1}`)
	equal(r, "inbox", r.inbox(s), []string{"o-1 reserved"})
	r.succeeds(run)
	equal(r, "inbox", r.inbox(s), []string{"o-1 consumed"})
	event, entries, err := r.GetEvent(r.ctx, r.user, eventtopic.ID{Topic: "orders", EventID: "o-1"})
	r.ok(err, "get event")
	r.hold(event.Fanout == 1 && len(entries) == 1 && entries[0].Run == run.Key && entries[0].OfferedAt.Equal(r.now), "the event names its run, got %+v", entries)
	r.hold(len(e.look()) == 0, "nothing follows")
	counts, err := r.CountInbox(r.ctx, s.ScheduleID)
	r.ok(err, "count")
	equal(r, "counts", counts, map[eventtopic.State]int{eventtopic.Consumed: 1})
}

func eventDuplicate(r *rig) {
	e := r.events()
	s := r.consumer("c", []string{"orders"})
	first := r.publish("orders", "a=1", "b=2")
	run := e.one()
	again := r.publish("orders", "b=2", "a=3", "a=3", "c")
	equal(r, "answers", again[:3], []eventtopic.Published{
		{Seq: first[1].Seq, Duplicate: true, Fanout: 1}, {Seq: first[0].Seq, Duplicate: true, Differs: true, Fanout: 1}, {Seq: first[0].Seq, Duplicate: true, Differs: true, Fanout: 1},
	})
	r.hold(!again[3].Duplicate && again[3].Seq > first[1].Seq, "the new one is published")
	r.succeeds(run)
	r.publish("orders", "a=1")
	r.now = r.at(time.Second)
	run = e.one()
	equal(r, "batch", r.batchOf(run.Key), []string{"c"})
	twice := r.publish("orders", "d", "d")
	r.hold(!twice[0].Duplicate && twice[1].Duplicate && twice[0].Seq == twice[1].Seq, "one name twice in a call is one event, got %v", twice)
	equal(r, "inbox", r.inbox(s), []string{"a consumed", "b consumed", "c reserved", "d pending"})
}

func eventFanout(r *rig) {
	e := r.events()
	a, b := r.consumer("a", []string{"orders", "orders.*", "bills"}), r.consumer("b", []string{"orders.*"})
	other := r.consumer("other", []string{"orders"}, func(s *schedule.Schedule) { s.UserID = r.user + "2" })
	fanouts := func(topicName, id string) int { return r.publish(topicName, id)[0].Fanout }
	equal(r, "orders", fanouts("orders", "1"), 1)
	equal(r, "orders.eu", fanouts("orders.eu", "2"), 2)
	equal(r, "ordersx", fanouts("ordersx", "3"), 0)
	equal(r, "bills", fanouts("bills", "4"), 1)
	equal(r, "a", r.inbox(a), []string{"1 pending", "2 pending", "4 pending"})
	equal(r, "b", r.inbox(b), []string{"2 pending"})
	equal(r, "another owner", r.inbox(other), nil)
	r.hold(len(e.look()) == 2, "both consumers run")
	_, _, err := r.GetEvent(r.ctx, r.user+"2", eventtopic.ID{Topic: "orders", EventID: "1"})
	r.hold(err != nil, "another owner does not find the event")
}

func eventUnrouted(r *rig) {
	equal(r, "fanout", r.publish("nobody", "a")[0].Fanout, 0)
	r.consumer("c", []string{"orders"})
	p := r.publication("orders", "b")
	p.Events = append(p.Events, r.publication("nobody", "c").Events...)
	p.RequireSubscriber = true
	_, err := r.Publish(r.ctx, p)
	r.hold(err != nil && strings.Contains(err.Error(), "no_subscriber"), "it is refused, got %v", err)
	for topicName, want := range map[string][]string{"nobody": {"a"}, "orders": nil} {
		found, err := r.ListTopicEvents(r.ctx, eventtopic.EventFilter{UserID: r.user, Topic: topicName, Limit: 10})
		r.ok(err, "list")
		var ids []string
		for i := range found {
			ids = append(ids, found[i].EventID)
		}
		equal(r, topicName, ids, want)
	}
}

func eventBatch(r *rig) {
	e := r.events()
	s := r.consumer("c", []string{"orders"})
	r.publish("orders", "first")
	run := e.one()
	r.now = r.at(time.Second)
	r.publish("orders", "z", "10", "9")
	r.publish("orders", "a")
	r.hold(len(e.look()) == 0, "nothing runs beside it")
	r.succeeds(run)
	r.now = r.at(time.Second)
	run = e.one()
	equal(r, "batch", r.batchOf(run.Key), []string{"z", "10", "9", "a"})
	equal(r, "run_at", run.RunAt, r.at(-time.Second))
	equal(r, "inbox", r.inbox(s)[1:], []string{"z reserved", "10 reserved", "9 reserved", "a reserved"})
}

func eventMost(r *rig) {
	e := r.events()
	s := r.consumer("c", []string{"orders"}, func(s *schedule.Schedule) { s.Consume.MaxEvents = 2 })
	r.publish("orders", "a", "b", "c", "d", "e")
	for _, want := range [][]string{{"a", "b"}, {"c", "d"}, {"e"}} {
		r.now = r.at(time.Second)
		run := e.one()
		equal(r, "batch", r.batchOf(run.Key), want)
		r.succeeds(run)
	}
	r.now = r.at(time.Second)
	r.hold(len(e.look()) == 0, "nothing is left, inbox %v", r.inbox(s))
	big := strings.Repeat("x", eventtopic.MaxBatchBytes/2)
	r.publish("orders", `f="`+big+`"`, `g="`+big+`"`)
	run := e.one()
	equal(r, "a batch ends at its bytes", r.batchOf(run.Key), []string{"f"})
}

func eventNothing(r *rig) {
	e := r.events()
	s := r.consumer("c", []string{"orders"})
	e.m.read()
	equal(r, "due", e.m.state.Due(r.now, 10), []string{s.ScheduleID})
	taken := e.take(s.ScheduleID)
	equal(r, "gone", taken.Gone, []string{s.ScheduleID})
	r.hold(len(taken.Runs) == 0 && len(r.runsOf(s)) == 0, "there is no run")
	equal(r, "due", e.m.state.Due(r.now, 10), nil)
	equal(r, "a row that is gone", e.take(s.ScheduleID, r.id("nobody")).Gone, []string{s.ScheduleID, r.id("nobody")})
}

func eventAttempts(r *rig) {
	e := r.events()
	s := r.consumer("c", []string{"orders"}, func(s *schedule.Schedule) {
		s.Retry = schedule.RetryPolicy{MaxAttempts: 2, BackoffMS: 1000}.Resolved()
	})
	r.publish("orders", "a")
	run := e.one()
	r.fails(run)
	equal(r, "inbox", r.inbox(s), []string{"a reserved"})
	equal(r, "batch of the next attempt", r.batchOf(schedule.AttemptKey(run.Key)), []string{"a"})
	r.publish("orders", "b")
	r.now = r.at(10 * time.Second)
	retried := e.look()
	r.hold(len(retried) >= 1, "runs go on")
	for len(retried) > 0 {
		for i := range retried {
			if retried[i].Run.Key == schedule.AttemptKey(run.Key) {
				r.fails(retried[i].Run)
			} else {
				equal(r, "the other run", r.batchOf(retried[i].Run.Key), []string{"b"})
				r.succeeds(retried[i].Run)
			}
		}
		r.now = r.at(10 * time.Second)
		retried = e.look()
	}
	equal(r, "inbox", r.inbox(s), []string{"a dead(failed)", "b consumed"})
	entries, err := r.ListInbox(r.ctx, eventtopic.InboxFilter{ScheduleID: s.ScheduleID, State: eventtopic.Dead, Limit: 5})
	r.ok(err, "list")
	r.hold(len(entries) == 1 && entries[0].Attempts == 2 && entries[0].Run == schedule.AttemptKey(run.Key), "it names its last attempt and how many failed, got %+v", entries)
}

func eventCancelled(r *rig) {
	e := r.events()
	s := r.consumer("c", []string{"orders"})
	r.publish("orders", "a")
	run := e.one()
	r.publish("orders", "b")
	r.hold(r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusCancelled, Reason: schedule.ReasonCancelled})[0], "it is cancelled")
	r.now = r.at(time.Second)
	equal(r, "batch", r.batchOf(e.one().Key), []string{"b"})
	equal(r, "inbox", r.inbox(s), []string{"a dead(cancelled)", "b reserved"})
}

func eventSkipped(r *rig) {
	e := r.events()
	s := r.consumer("c", []string{"orders"})
	r.publish("orders", "a")
	run := e.one()
	r.hold(r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusSkipped, Reason: schedule.ReasonGrantExpired})[0], "it is skipped")
	equal(r, "inbox", r.inbox(s), []string{"a pending"})
	r.hold(len(e.look()) == 0, "it is not taken again at once")
	r.now = r.at(2 * time.Minute)
	equal(r, "batch", r.batchOf(e.one().Key), []string{"a"})
}

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
	s = r.revise(s, func(s *schedule.Schedule) { s.DeletedAt, s.CreatedAt = time.Time{}, r.now })
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
	r.succeeds(first)
	run := e.one()
	equal(r, "the consumer goes first", run.ScheduleID, s.ScheduleID)
	r.succeeds(run)
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
	r.succeeds(run)
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
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.crowd(publishers, func(n int) {
			for i := range each {
				if _, err := r.Publish(r.ctx, r.publication(fmt.Sprint("orders.", i%3), fmt.Sprint(n, "-", i), fmt.Sprint(n, "+", i))); err != nil {
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
			r.succeeds(launches[i].Run)
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
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.crowd(4, func(n int) {
			for i := range 20 {
				if _, err := r.Publish(r.ctx, r.publication("orders", fmt.Sprint(n, "-", i))); err != nil {
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
			r.succeeds(launches[i].Run)
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
	r.succeeds(e.one())
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
