package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	eventtopic "github.com/carillon/carillon/internal/topic"
)

// commitChecks are what runs change with their success.
var commitChecks = []check{
	{"a success keeps its state for the next run of the schedule, and each change has a revision", commitState},
	{"a run that ends otherwise commits nothing", commitOfFailure},
	{"an answer or a report after the end commits nothing", commitLate},
	{"a success publishes to the consumers of its owner, and the events name the run", commitPublishes},
	{"an event that exists is not published again by a commit", commitTwice},
	{"runs that each publish to the consumer of the next stop after 32", commitLoop},
	{"a new schedule under the id of a deleted one has no state", commitRecreated},
	{"a state is set only in place of the revision that is named", commitSet},
	{"runs that end at the same time publish to each other's consumers: no event is lost, and none waits in a circle", commitRace},
}

func committing(state string, events ...schedule.CommitEvent) *schedule.Commit {
	c := &schedule.Commit{Events: events}
	if state != "" {
		c.State = []byte(state)
	}
	return c
}

func committed(topicName, id string) schedule.CommitEvent {
	return schedule.CommitEvent{Topic: topicName, EventID: id, Data: []byte(`{"id": "` + id + `"}`), DataHash: schedule.ManualKey("data", id)}
}

// commits ends a run in flight with a success.
func (r *rig) commits(run schedule.Run, c *schedule.Commit) {
	r.Helper()
	r.hold(r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusSuccess, CompletedAt: r.now, Commit: c})[0], "the run succeeds")
}

func (r *rig) state(s schedule.Schedule) schedule.State {
	r.Helper()
	got, err := r.GetState(r.ctx, s.ScheduleID)
	r.ok(err, "get state")
	r.inUTC("State", got)
	return got
}

func (r *rig) inFlight(s schedule.Schedule, name string) schedule.Run {
	r.Helper()
	return r.bring(r.manual(s, name, r.now), schedule.StatusLaunching)
}

func commitState(r *rig) {
	r.lead()
	s := r.create("s")
	equal(r, "state of a new schedule", r.state(s), schedule.State{})
	first := r.inFlight(s, "1")
	equal(r, "state that the first run gets", r.permits(r.beginRequest(first), schedule.Granted).State, schedule.State{})
	r.answered(first.Key, schedule.Outcome{Status: schedule.StatusSuccess, Commit: committing(`{"b": 1.50, "a": "ü"}`)})
	equal(r, "state", r.state(s), schedule.State{Value: []byte(`{"b": 1.50, "a": "ü"}`), Revision: 1, Run: first.Key, At: r.now})
	second := r.inFlight(s, "2")
	given := r.permits(r.beginRequest(second), schedule.Granted).State
	r.hold(string(given.Value) == `{"b": 1.50, "a": "ü"}` && given.Revision == 1, "the next run gets it, got %+v", given)
	_, moved := r.report(schedule.Settlement{Key: second.Key, To: schedule.StatusSuccess, CompletedAt: r.now, Commit: committing(`[2]`)})
	r.hold(moved, "the report ends the run")
	third := r.inFlight(s, "3")
	r.begin(r.beginRequest(third))
	r.release(third.Key, true)
	again := r.begin(r.beginRequest(third))[0].State
	r.hold(string(again.Value) == `[2]` && again.Revision == 2, "a run that is sent again gets the newest, got %+v", again)
	r.commits(third, nil)
	equal(r, "a success without a state leaves it", r.state(s).Revision, int64(2))
	other := r.create("other")
	equal(r, "another schedule", r.state(other), schedule.State{})
}

func commitOfFailure(r *rig) {
	e := r.events()
	s, c := r.create("s"), r.consumer("c", []string{"orders"})
	e.look()
	for i, to := range []schedule.Settlement{
		{To: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed},
		{To: schedule.StatusCancelled, Reason: schedule.ReasonCancelled},
		{To: schedule.StatusSkipped, Reason: schedule.ReasonSnoozed, SnoozeUntil: r.at(time.Hour)},
	} {
		run := r.inFlight(s, fmt.Sprint(i))
		to.Key, to.CompletedAt, to.Commit = run.Key, r.now, committing(`{}`, committed("orders", fmt.Sprint(i)))
		r.hold(r.settle(to)[0], "the run ends")
	}
	equal(r, "state", r.state(s), schedule.State{})
	equal(r, "inbox", r.inbox(c), nil)
}

func commitLate(r *rig) {
	e := r.events()
	s, c := r.create("s"), r.consumer("c", []string{"orders"})
	e.look()
	run := r.inFlight(s, "1")
	late := committing(`{"late": true}`, committed("orders", "late"))
	r.commits(run, committing(`{"first": true}`))
	r.answered(run.Key, schedule.Outcome{Status: schedule.StatusSuccess, Commit: late})
	r.hold(!r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusSuccess, CompletedAt: r.now, Commit: late})[0], "it has ended")
	equal(r, "state", string(r.state(s).Value), `{"first": true}`)
	equal(r, "inbox", r.inbox(c), nil)
}

func commitPublishes(r *rig) {
	e := r.events()
	s, c := r.create("s"), r.consumer("c", []string{"orders"})
	other := r.consumer("other", []string{"orders"}, func(s *schedule.Schedule) { s.UserID = r.user + "2" })
	e.look()
	run := r.inFlight(s, "1")
	given := committed("orders", "b")
	given.Source, given.Type, given.Subject, given.Time = "src", "dev.x", "sub", odd(3)
	r.commits(run, committing("", given, committed("orders", "a"), committed("bills", "c")))
	equal(r, "inbox", r.inbox(c), []string{"b pending", "a pending"})
	equal(r, "inbox of another owner", r.inbox(other), nil)
	got, _, err := r.GetEvent(r.ctx, r.user, eventtopic.ID{Topic: "orders", Source: "src", EventID: "b"})
	r.ok(err, "get event")
	equal(r, "event", *got, eventtopic.Event{
		Seq: got.Seq, UserID: r.user, Topic: "orders", Source: "src", EventID: "b", Type: "dev.x", Subject: "sub", Time: stored(odd(3)), Data: given.Data,
		DataHash: given.DataHash, Fanout: 1, PublishedBy: "schedules/" + s.ScheduleID, PublishedAt: stored(r.now), CausedBy: run.Key,
	})
	next := e.one()
	equal(r, "batch", r.batchOf(next.Key), []string{"b", "a"})
	equal(r, "trigger", next.Trigger, schedule.TriggerEvent)
}

func commitTwice(r *rig) {
	e := r.events()
	s, c := r.create("s"), r.consumer("c", []string{"orders"})
	e.look()
	r.publish("orders", "a=1")
	r.commits(r.inFlight(s, "1"), committing("", committed("orders", "a"), committed("orders", "b"), committed("orders", "b")))
	equal(r, "inbox", r.inbox(c), []string{"a pending", "b pending"})
}

func commitLoop(r *rig) {
	e := r.events()
	c := r.consumer("c", []string{"loop"})
	r.publish("loop", "0")
	for i := 1; i <= eventtopic.MaxHops; i++ {
		r.now = r.at(time.Second)
		r.commits(e.one(), committing("", committed("loop", fmt.Sprint(i))))
	}
	r.now = r.at(time.Second)
	r.commits(e.one(), committing("", committed("loop", "more")))
	r.hold(len(e.look()) == 0, "nothing follows")
	entries := r.inbox(c)
	equal(r, "the last ones", entries[len(entries)-2:], []string{fmt.Sprint(eventtopic.MaxHops, " consumed"), "more skipped(loop)"})
}

func commitRecreated(r *rig) {
	r.lead()
	s := r.create("s")
	r.commits(r.inFlight(s, "1"), committing(`{}`))
	r.now = r.at(time.Second)
	r.delete(s)
	r.now = r.at(time.Minute)
	s.Revision++
	s.DeletedAt, s.CreatedAt, s.UpdatedAt = time.Time{}, r.now, r.now
	r.change(schedule.Change{Row: &s, Created: true, NewRevision: true, ChangedBy: s.UserID})
	equal(r, "state", r.state(s), schedule.State{})
}

func commitSet(r *rig) {
	r.lead()
	s := r.create("s")
	set := func(revision int64, state string) schedule.State {
		after, err := r.SetState(r.ctx, s.ScheduleID, revision, []byte(state), r.now)
		r.ok(err, "set state")
		return after
	}
	equal(r, "of a revision that does not exist", set(1, `1`), schedule.State{})
	equal(r, "the first", set(0, `{"a": 1}`), schedule.State{Value: []byte(`{"a": 1}`), Revision: 1, At: r.now.Truncate(time.Microsecond)})
	equal(r, "the first once more", set(0, `2`), schedule.State{})
	run := r.inFlight(s, "1")
	r.commits(run, committing(`3`))
	equal(r, "an older revision", set(1, `4`), schedule.State{})
	equal(r, "what the run has kept", string(r.state(s).Value), `3`)
	equal(r, "the next", set(2, `5`).Revision, int64(3))
	equal(r, "no run has kept it", r.state(s).Run, schedule.Key{})
}

func commitRace(r *rig) {
	const rounds = 20
	e := r.events()
	names := []string{"a", "b", "c"}
	var consumers, producers []schedule.Schedule
	for _, name := range names {
		consumers = append(consumers, r.consumer("of-"+name, []string{name}))
		producers = append(producers, r.create("to-"+name, func(s *schedule.Schedule) { s.OverlapPolicy = schedule.OverlapAllow }))
	}
	e.look()
	now := r.now
	for round := range rounds {
		var runs []schedule.Run
		for _, s := range producers {
			runs = append(runs, r.inFlight(s, fmt.Sprint(round)))
		}
		var ends sync.WaitGroup
		for i, run := range runs {
			ends.Go(func() {
				var events []schedule.CommitEvent
				for j := range names { // each in another order
					events = append(events, committed(names[(i+j)%len(names)], fmt.Sprint(round, "-", i)))
				}
				_, err := r.Finish(r.ctx, []schedule.FinishRequest{{Key: run.Key, LaunchedAt: now, Outcome: schedule.Outcome{
					Status: schedule.StatusSuccess, Commit: committing(fmt.Sprint(round), events...),
				}}}, now)
				r.ok(err, "finish")
			})
		}
		ends.Wait()
	}
	for i := range names {
		equal(r, "events", len(r.inbox(consumers[i])), rounds*len(names))
		equal(r, "revision", r.state(producers[i]).Revision, int64(rounds))
	}
	r.hold(len(e.look()) == len(names), "each consumer is woken")
}
