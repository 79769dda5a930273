package explain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
	"github.com/carillon/carillon/registrar/explain"
)

func TestAnEventIsExplained(t *testing.T) {
	run, other := schedule.EventsKey("ship", now.Add(-time.Minute)), schedule.SlotKey("poll", now)
	inState := func(state topic.State, edits ...func(*explain.ConsumerFacts)) func(*explain.EventFacts) {
		return func(f *explain.EventFacts) {
			c := explain.ConsumerFacts{Consumption: topic.Consumption{
				Entry:      topic.Entry{ScheduleID: "ship", Seq: 7, Round: 1, State: state, CreatedAt: now.Add(-time.Minute)},
				OverlapKey: "ada/ship", WakeAt: now.Add(-time.Minute),
			}}
			if state != topic.Pending {
				c.Entry.Run, c.OfferedAt, c.TakenAt, c.WakeAt = run, now.Add(-50*time.Second), now.Add(-40*time.Second), time.Time{}
			}
			if state.Ended() {
				c.EndedAt = now.Add(-30 * time.Second)
			}
			for _, edit := range edits {
				edit(&c)
			}
			f.Consumers, f.Entries = []explain.ConsumerFacts{c}, 1
		}
	}
	ended := func(status schedule.Status) func(*explain.ConsumerFacts) {
		return func(c *explain.ConsumerFacts) {
			c.Run = &schedule.Run{Key: run, ScheduleID: "ship", Status: status, Attempt: 1, MaxAttempts: 3}
		}
	}
	flying := func(c *explain.ConsumerFacts) {
		c.Blocking = &schedule.Run{Key: other, ScheduleID: "poll", Status: schedule.StatusStarted, ClaimedAt: now.Add(-5 * time.Second)}
	}
	paused := func(c *explain.ConsumerFacts) {
		c.Pause = schedule.Pause{Paused: true, By: "bob", Note: "repair", Until: now.Add(time.Hour)}
	}
	old := func(f *explain.EventFacts) { f.Event.PublishedAt = now.Add(-31 * 24 * time.Hour) }
	asked := func(since time.Time) func(*explain.EventFacts) {
		return func(f *explain.EventFacts) { f.Asked = &explain.SubscriptionFacts{ScheduleID: "ship", Since: since} }
	}
	for _, c := range []struct {
		name    string
		facts   func(*explain.EventFacts)
		more    func(*explain.EventFacts)
		verdict explain.EventVerdict
		reason  string
		says    []string
		check   func(explain.ConsumerAnswer) bool
	}{
		{
			name: "a run has consumed it", facts: inState(topic.Consumed, ended(schedule.StatusSuccess)), verdict: explain.EventConsumed,
			says: []string{"run " + run.String() + " succeeded at 2026-03-08T12:00:00Z", "waited 10 seconds for a run"},
			check: func(a explain.ConsumerAnswer) bool {
				return a.Run == run && a.Wait == 10*time.Second && a.Attempts == 0
			},
		},
		{
			name: "its run is no longer kept", facts: inState(topic.Consumed), verdict: explain.EventConsumed,
		},
		{
			name: "an earlier attempt has failed", facts: inState(topic.Consumed, func(c *explain.ConsumerFacts) { c.Attempts = 1 }), verdict: explain.EventConsumed,
			says: []string{"1 attempt failed before it"},
		},
		{
			name: "the run that has consumed it did not succeed", facts: inState(topic.Consumed, ended(schedule.StatusFailed)), verdict: explain.EventUnrecorded,
			says: []string{"which is FAILED", "This is a bug"},
		},
		{
			name: "a run in flight has it", facts: inState(topic.Reserved, ended(schedule.StatusStarted), func(c *explain.ConsumerFacts) { c.RunOpen, c.Run.ClaimedAt = true, now.Add(-39*time.Second) }),
			verdict: explain.EventHeldByRun, says: []string{"has it since 2026-03-08T11:59:50Z: it is in flight since 2026-03-08T11:59:51Z"},
		},
		{
			name: "the next attempt has it, and its backoff is not over", facts: inState(topic.Reserved, ended(schedule.StatusPlanned), func(c *explain.ConsumerFacts) {
				c.RunOpen, c.Attempts, c.Run.Attempt, c.Run.FireAt = true, 1, 2, now.Add(time.Minute)
			}), verdict: explain.EventHeldByRun, says: []string{"attempt 2 of 3, which starts at 2026-03-08T12:01:30Z at the earliest", "1 attempt failed before it"},
		},
		{
			name: "its run waits for its overlap key", facts: inState(topic.Reserved, ended(schedule.StatusPlanned), func(c *explain.ConsumerFacts) {
				c.RunOpen, c.Run.WaitingSince = true, now.Add(-time.Second)
			}), verdict: explain.EventHeldByRun, says: []string{"waits for its overlap key since"},
		},
		{
			name: "the run that has it is over", facts: inState(topic.Reserved, ended(schedule.StatusSuccess)), verdict: explain.EventUnrecorded, says: []string{"is over", "This is a bug"},
		},
		{
			name: "the next look takes it", facts: inState(topic.Pending), verdict: explain.EventWaits, reason: explain.WaitDue,
			says:  []string{"is due since 2026-03-08T11:59:30Z"},
			check: func(a explain.ConsumerAnswer) bool { return a.Wait == time.Minute && a.Run.IsZero() },
		},
		{
			name: "a run of the overlap key is in flight", facts: inState(topic.Pending, flying), verdict: explain.EventWaits, reason: explain.WaitOverlapBusy,
			says:  []string{"run " + other.String() + " of poll, in flight since 2026-03-08T12:00:25Z"},
			check: func(a explain.ConsumerAnswer) bool { return a.BlockedBy == other },
		},
		{
			name: "its own run is over the events that one run may have", facts: inState(topic.Pending, func(c *explain.ConsumerFacts) { c.WakeAt, c.Own = time.Time{}, run }),
			verdict: explain.EventWaits, reason: explain.WaitOverlapBusy, check: func(a explain.ConsumerAnswer) bool { return a.BlockedBy == run },
		},
		{
			name: "the consumer is paused, also while a run is in flight", facts: inState(topic.Pending, paused, flying), verdict: explain.EventWaits, reason: explain.WaitPaused,
			says:  []string{`paused by bob, until 2026-03-08T13:00:30Z, note "repair"`},
			check: func(a explain.ConsumerAnswer) bool { return a.Until.Equal(now.Add(time.Hour)) && a.Pause.By == "bob" },
		},
		{
			name: "the pause is over", facts: inState(topic.Pending, func(c *explain.ConsumerFacts) { c.Pause = schedule.Pause{Paused: true, Until: now} }),
			verdict: explain.EventWaits, reason: explain.WaitDue,
		},
		{
			name: "its run was not permitted", facts: inState(topic.Pending, func(c *explain.ConsumerFacts) { c.WakeAt = now.Add(time.Minute) }),
			verdict: explain.EventWaits, reason: explain.WaitBackoff, check: func(a explain.ConsumerAnswer) bool { return a.Until.Equal(now.Add(time.Minute)) },
		},
		{
			name: "the consumer was deleted, and was paused then", facts: inState(topic.Pending, paused, func(c *explain.ConsumerFacts) { c.Deleted = true }),
			verdict: explain.EventWaits, reason: explain.WaitDue, says: []string{"its next look skips the event"},
		},
		{
			name: "nothing would ever look at it", facts: inState(topic.Pending, func(c *explain.ConsumerFacts) { c.WakeAt = time.Time{} }), verdict: explain.EventUnrecorded,
			says: []string{"no wake row", "This is a bug"},
		},
		{
			name: "a paused consumer without a wake row", facts: inState(topic.Pending, paused, func(c *explain.ConsumerFacts) { c.WakeAt = time.Time{} }), verdict: explain.EventUnrecorded,
		},
		{
			name: "the consumer was deleted before", facts: inState(topic.Skipped, func(c *explain.ConsumerFacts) { c.Entry.Reason = topic.ReasonDeleted }),
			verdict: explain.EventSkipped, reason: "deleted", says: []string{"was deleted before a run got the event"},
		},
		{
			name: "the topic is not named any more", facts: inState(topic.Skipped, func(c *explain.ConsumerFacts) { c.Entry.Reason = topic.ReasonUnsubscribed }),
			verdict: explain.EventSkipped, reason: "unsubscribed", says: []string{"named the topic no more"},
		},
		{
			name: "its last attempt has failed", facts: inState(topic.Dead, ended(schedule.StatusFailed), func(c *explain.ConsumerFacts) {
				c.Entry.Reason, c.Attempts = topic.ReasonFailed, 3
				c.Run.Reason, c.Run.ErrorCode, c.Run.ErrorMessage, c.Run.FailureClass = schedule.ReasonWorkflowFailed, "EXIT", "exit status 1", schedule.ClassTransient
			}), verdict: explain.EventDead, reason: "failed",
			says:  []string{"after 3 failed attempts: run " + run.String(), "workflow_failed: EXIT: exit status 1 (class transient)", "under a new event_id"},
			check: func(a explain.ConsumerAnswer) bool { return a.Attempts == 3 },
		},
		{
			name: "its run was cancelled", facts: inState(topic.Dead, ended(schedule.StatusCancelled), func(c *explain.ConsumerFacts) { c.Entry.Reason = topic.ReasonCancelled }),
			verdict: explain.EventDead, reason: "cancelled", says: []string{"was cancelled"},
		},
		{
			name: "one of two entries is missing", facts: inState(topic.Consumed), more: func(f *explain.EventFacts) {
				f.Event.Fanout, f.Consumers = 2, nil
			}, verdict: explain.EventUnrecorded, says: []string{"published to 2 consumers, and the entries of 1 are missing"},
		},
		{
			name: "one of two entries was deleted", facts: inState(topic.Consumed), more: func(f *explain.EventFacts) {
				old(f)
				f.Event.Fanout, f.Consumers = 2, nil
			}, verdict: explain.EventPruned, says: []string{"1 other consumer"},
		},
		{name: "a schedule that has it is asked for", facts: inState(topic.Consumed), more: asked(time.Time{}), verdict: explain.EventConsumed},
		{name: "a schedule that does not name the topic is asked for", facts: asked(time.Time{}), verdict: explain.EventNotSubscribed, says: []string{"does not consume topic orders"}},
		{
			name: "a schedule is asked for that names the topic since later", facts: asked(now.Add(-time.Second)), verdict: explain.EventNotSubscribed,
			says: []string{"since 2026-03-08T12:00:29Z"}, check: func(a explain.ConsumerAnswer) bool { return a.Since.Equal(now.Add(-time.Second)) },
		},
		{
			name: "the subscription and the publish came together", facts: asked(now.Add(-61 * time.Second)), verdict: explain.EventNotSubscribed,
		},
		{
			name: "a schedule is asked for that named the topic before, and has nothing", facts: asked(now.Add(-time.Hour)), verdict: explain.EventUnrecorded, says: []string{"This is a bug"},
		},
		{
			name: "a schedule is asked for whose filter left the event out", facts: asked(now.Add(-time.Hour)),
			more: func(f *explain.EventFacts) {
				f.Asked.Mismatch = &topic.Mismatch{Member: "data.n", Value: "3", Condition: `[{"numeric":[">",5]}]`}
			},
			verdict: explain.EventNotMatched, says: []string{`the event has data.n 3, and the filter asks for [{"numeric":[">",5]}]`},
		},
		{
			name: "a schedule is asked for whose entry is not kept", facts: asked(now.Add(-365 * 24 * time.Hour)), more: old, verdict: explain.EventPruned,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := explain.EventFacts{
				Event: &topic.Event{Seq: 7, Topic: "orders", EventID: "o-1", Fanout: 1, PublishedAt: now.Add(-time.Minute)}, Now: now, KeptSince: now.Add(-30 * 24 * time.Hour),
			}
			c.facts(&f)
			if c.more != nil {
				c.more(&f)
			}
			got := explain.DeriveEvent(&f)
			if len(got.Consumers) != 1 {
				t.Fatalf("%d answers: %+v", len(got.Consumers), got.Consumers)
			}
			a := got.Consumers[0]
			text := strings.Join(a.Lines, "\n")
			if a.Verdict != c.verdict || a.Reason != c.reason {
				t.Errorf("%s (%s), want %s (%s):\n%s", a.Verdict, a.Reason, c.verdict, c.reason, text)
			}
			for _, part := range c.says {
				if !strings.Contains(text, part) {
					t.Errorf("%q is missing in:\n%s", part, text)
				}
			}
			if len(a.Lines) == 0 || c.check != nil && !c.check(a) {
				t.Errorf("it has %+v", a)
			}
		})
	}
}

func TestAnEventWithoutConsumersHasNoAnswers(t *testing.T) {
	a := explain.DeriveEvent(&explain.EventFacts{Event: &topic.Event{Topic: "orders", EventID: "o-1"}, Now: now})
	if len(a.Consumers) > 0 {
		t.Errorf("it has %+v", a.Consumers)
	}
}

func TestAConsumerNamesATopicSinceTheOldestRevisionWithoutABreak(t *testing.T) {
	revision := func(minutes int, topics ...string) schedule.Revision {
		return schedule.Revision{Definition: schedule.Definition{Consume: schedule.Consume{Topics: topics}}, CreatedAt: now.Add(time.Duration(minutes) * time.Minute)}
	}
	for _, c := range []struct {
		name      string
		revisions []schedule.Revision
		want      time.Time
	}{
		{"since its creation", []schedule.Revision{revision(-1, "orders", "bills"), revision(-5, "orders.*", "orders")}, now.Add(-5 * time.Minute)},
		{"it named it once before", []schedule.Revision{revision(-1, "orders"), revision(-3, "bills"), revision(-9, "orders")}, now.Add(-time.Minute)},
		{"it names it no more", []schedule.Revision{revision(-1, "bills"), revision(-9, "orders")}, time.Time{}},
		{"it was deleted", nil, time.Time{}},
	} {
		if got := explain.SubscribedSince(c.revisions, "orders"); !got.Equal(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestTheFilterThatWasInForceDecides(t *testing.T) {
	t.Parallel()
	revision := func(age time.Duration, filter string) schedule.Revision {
		r := schedule.Revision{CreatedAt: now.Add(-age)}
		r.Definition.Consume = schedule.Consume{Topics: []string{"t"}, Filter: []byte(filter)}
		return r
	}
	five, six := `{"data":{"n":[5]}}`, `{"data":{"n":[6]}}`
	for _, tc := range []struct {
		name      string
		revisions []schedule.Revision // the newest first; the event was published an hour ago
		left      bool
	}{
		{"no filter", []schedule.Revision{revision(2*time.Hour, "")}, false},
		{"a filter that matches", []schedule.Revision{revision(2*time.Hour, five)}, false},
		{"a filter that does not", []schedule.Revision{revision(2*time.Hour, six)}, true},
		{"a later filter does not count", []schedule.Revision{revision(time.Minute, six), revision(2*time.Hour, five)}, false},
		{"an earlier one does not count", []schedule.Revision{revision(2*time.Hour, five), revision(3*time.Hour, six)}, false},
		{"of an edit just before the publish both count", []schedule.Revision{revision(time.Hour+time.Second, five), revision(3*time.Hour, six)}, true},
	} {
		e := topic.Event{Topic: "t", Data: []byte(`{"n": 5}`), PublishedAt: now.Add(-time.Hour)}
		if got := explain.FilteredOut(tc.revisions, &e); (got != nil) != tc.left {
			t.Errorf("%s: %+v", tc.name, got)
		}
	}
}
