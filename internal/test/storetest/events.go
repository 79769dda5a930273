package storetest

import (
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
	{"events that do not match a consumer's filter are not for it, and a new filter is for later events", eventFilter},
	{"the pending events of an owner are counted, up to a limit", eventPending},
	{"events that come while a run is in flight are one batch of the next run, in the order of the publication", eventBatch},
	{"a run gets at most max_events, and its end wakes for the rest", eventMost},
	{"a look that finds nothing leaves no wake row and no run", eventNothing},
	{"the next attempt has the batch, and the events are dead after the last", eventAttempts},
	{"a cancelled run leaves dead events, and later ones are taken", eventCancelled},
	{"an event says of each consumer what decides on it", eventConsumptions},
	{"topics are those of events and of consumers, in order, and each has its numbers", eventTopics},
	{"an audit passes each event with its entries, and what the runs of consumed ones have taken", eventAudit},
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
	{"two publishers of a consumer, each waiting for its event: each event is taken", eventWaitRace},
	{"publishers of the same events at once: each event exists once, and none waits for another in a circle", eventSameRace},
	{"an edit, a pause or a deletion during publishes loses no wake", eventEditRace},
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
	return r.publicationAt(r.now, topicName, ids...)
}

// publicationAt is for publishers during a check that moves its now.
func (r *rig) publicationAt(now time.Time, topicName string, ids ...string) *eventtopic.Publication {
	p := &eventtopic.Publication{UserID: r.user, Now: now}
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
	r.succeed(run)
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
	r.succeed(run)
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
	r.hold(len(e.look()) == 0, "nothing runs while it does")
	r.succeed(run)
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
		r.succeed(run)
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
				r.succeed(retried[i].Run)
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
