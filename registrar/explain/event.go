package explain

import (
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
	"github.com/carillon/carillon/internal/topic"
)

// EventVerdict says in one word what a consumer has of an event; a closed set.
type EventVerdict string

// The verdicts.
const (
	EventConsumed      EventVerdict = "consumed"
	EventHeldByRun     EventVerdict = "held_by_run" // a run that is not over has it
	EventWaits         EventVerdict = "waits"       // no run has it yet; the reason is an EventWait
	EventSkipped       EventVerdict = "skipped"
	EventDead          EventVerdict = "dead"
	EventNotSubscribed EventVerdict = "not_subscribed" // the consumer did not name the topic
	EventNotMatched    EventVerdict = "not_matched"    // the filter of the consumer left it out
	EventPruned        EventVerdict = "pruned"         // the entry is older than what retention keeps
	EventUnrecorded    EventVerdict = "unrecorded"     // the rows contradict each other: a defect
)

// EventVerdicts is the closed set.
var EventVerdicts = []EventVerdict{EventConsumed, EventHeldByRun, EventWaits, EventSkipped, EventDead, EventNotSubscribed, EventNotMatched, EventPruned, EventUnrecorded}

// Why an event waits.
const (
	WaitOverlapBusy = "overlap_busy" // a run of the overlap key is in flight, or one of the consumer is planned
	WaitPaused      = "paused"       // the consumer is
	WaitBackoff     = "backoff"      // the consumer is looked at later
	WaitDue         = "due"          // the leader of the shard looks next
)

// subscribeMargin is how long before its first subscription an event may have been published so that
// it is unknown which came first. No publish takes longer.
const subscribeMargin = 40 * time.Second

// EventFacts is the input of DeriveEvent.
type EventFacts struct {
	Event     *topic.Event
	Consumers []ConsumerFacts    // of the newest round of each consumer
	Entries   int                // of the first round
	Asked     *SubscriptionFacts // nil: the question is about all consumers
	Now       time.Time
	KeptSince time.Time // entries that ended before it may be deleted
}

// ConsumerFacts is what a consumer has of an event.
type ConsumerFacts struct {
	topic.Consumption
	Run      *schedule.Run // that has it or has ended it; nil: it is not kept
	Blocking *schedule.Run // in flight under the overlap key, or planned for the consumer; nil: none
}

// SubscriptionFacts are about the one consumer that is asked for.
type SubscriptionFacts struct {
	ScheduleID string
	Since      time.Time       // when it first named the topic without a break; zero: it does not
	Mismatch   *topic.Mismatch // of the filter that was in force; nil: the event matches
}

// EventAnswer says where an event is for its consumers.
type EventAnswer struct {
	Event     *topic.Event
	Now       time.Time
	Consumers []ConsumerAnswer
}

// ConsumerAnswer says what a consumer has of an event.
type ConsumerAnswer struct {
	ScheduleID string // "": a consumer that has no entry
	Round      int32
	Verdict    EventVerdict
	Reason     string // of waits, skipped and dead
	Run        schedule.Key
	BlockedBy  schedule.Key // of overlap_busy
	Since      time.Time    // of the verdict; of not_subscribed: of the subscription; zero: never
	Until      time.Time    // of a wait; zero: unknown
	Attempts   int          // that failed
	Wait       time.Duration
	Pause      schedule.Pause
	Lines      []string
}

// DeriveEvent explains an event by its facts, for each consumer or for the one that is asked for.
func DeriveEvent(f *EventFacts) EventAnswer {
	out := EventAnswer{Event: f.Event, Now: f.Now}
	for i := range f.Consumers {
		if c := &f.Consumers[i]; f.Asked == nil || f.Asked.ScheduleID == c.ScheduleID {
			out.Consumers = append(out.Consumers, f.consumer(c))
		}
	}
	switch missing := f.Event.Fanout - f.Entries; {
	case f.Asked != nil && len(out.Consumers) == 0:
		out.Consumers = append(out.Consumers, f.withoutEntry())
	case f.Asked == nil && missing > 0:
		out.Consumers = append(out.Consumers, f.missing(missing))
	}
	return out
}

// eventText collects the answer for one consumer.
type eventText struct {
	*ConsumerFacts
	now time.Time
	out ConsumerAnswer
	sentences
}

func (f *EventFacts) consumer(c *ConsumerFacts) ConsumerAnswer {
	x := &eventText{ConsumerFacts: c, now: f.Now}
	x.out = ConsumerAnswer{ScheduleID: c.ScheduleID, Round: c.Round, Run: c.Entry.Run, Reason: string(c.Reason), Attempts: int(c.Attempts), Since: c.EndedAt}
	until := f.Now
	if !c.OfferedAt.IsZero() {
		until = c.OfferedAt
	}
	x.out.Wait = max(0, until.Sub(c.CreatedAt))
	switch c.State {
	case topic.Pending:
		x.waits()
	case topic.Reserved:
		x.held()
	case topic.Consumed:
		x.consumed()
	case topic.Skipped:
		x.out.Verdict = EventSkipped
		x.say("%s at %s: %s", x.subject("skipped it"), describe.Instant(c.EndedAt), skippedWords[c.Reason])
	case topic.Dead:
		x.dead()
	}
	x.out.Lines = x.lines
	return x.out
}

var skippedWords = map[topic.Reason]string{
	topic.ReasonDeleted:      "the consumer was deleted before a run got the event",
	topic.ReasonUnsubscribed: "it named the topic no more when the event's turn came",
	topic.ReasonLoop:         fmt.Sprintf("more than %d runs came one after the other before the event", topic.MaxHops),
}

func (x *eventText) subject(what string) string {
	return fmt.Sprintf("Consumer %s %s", x.ScheduleID, what)
}

// waits: the order is that in which a look decides.
func (x *eventText) waits() {
	x.out.Verdict, x.out.Since = EventWaits, x.CreatedAt
	waits := func(why string) { x.out.Reason = why }
	switch {
	case x.WakeAt.IsZero() && x.Own.IsZero():
		x.broken("nothing will look at it: there is no wake row and no open run")
	case !x.Deleted && x.Pause.Active(x.now):
		waits(WaitPaused)
		x.out.Pause, x.out.Until = x.Pause, x.Pause.Until
		x.say("%s: the consumer is paused%s, %s", x.subject("waits with it"), by(x.Pause.By), pauseEnd(x.Pause))
	case x.Blocking != nil:
		waits(WaitOverlapBusy)
		x.out.BlockedBy = x.Blocking.Key
		x.say("%s for run %s of %s, %s", x.subject("waits with it"), x.Blocking.Key, x.Blocking.ScheduleID, openWords(x.Blocking, x.now))
	case x.WakeAt.IsZero(): // its own run has the wake row's place, and could not be read
		waits(WaitOverlapBusy)
		x.out.BlockedBy = x.Own
		x.say("%s for its run %s", x.subject("waits with it"), x.Own)
	case x.WakeAt.After(x.now):
		waits(WaitBackoff)
		x.out.Until = x.WakeAt
		x.say("%s until %s: its last run was not permitted to start, or its definition cannot be read", x.subject("waits with it"), describe.Instant(x.WakeAt))
	default:
		waits(WaitDue)
		x.say("%s, and is due since %s; `carillon doctor` shows whether there is a leader", x.subject("waits with it"), describe.Instant(x.WakeAt))
	}
	if x.Deleted && x.out.Verdict == EventWaits {
		x.say("The consumer was deleted: its next look skips the event")
	}
	if x.Attempts > 0 {
		x.say("%s with it failed before", describe.Count(int(x.Attempts), "attempt"))
	}
}

func pauseEnd(p schedule.Pause) string {
	s := "until it is resumed"
	if !p.Until.IsZero() {
		s = "until " + describe.Instant(p.Until)
	}
	if p.Note != "" {
		s += ", note " + schedule.Quote(p.Note)
	}
	return s
}

// openWords is where a run is that is not over.
func openWords(r *schedule.Run, now time.Time) string {
	switch {
	case r.Status.InFlight():
		return "in flight since " + describe.Instant(r.FlightSince())
	case !r.WaitingSince.IsZero():
		return "which waits for its overlap key since " + describe.Instant(r.WaitingSince)
	case r.FireAt.After(now):
		return fmt.Sprintf("attempt %d of %d, which starts at %s at the earliest", r.Attempt, r.MaxAttempts, describe.Instant(r.FireAt))
	}
	return "which is due since " + describe.Instant(r.FireAt)
}

func (x *eventText) held() {
	x.out.Verdict, x.out.Since = EventHeldByRun, x.TakenAt
	if !x.RunOpen {
		x.broken(fmt.Sprintf("run %s has it, and is over", x.Entry.Run))
		return
	}
	s := fmt.Sprintf("%s, which has it since %s", x.subject("has run "+x.Entry.Run.String()), describe.Instant(x.TakenAt))
	if x.Run != nil && !x.Run.Status.Terminal() {
		s += ": it is " + openWords(x.Run, x.now)
	}
	x.say("%s", s)
	x.failedBefore()
}

func (x *eventText) consumed() {
	x.out.Verdict = EventConsumed
	if x.Run != nil && x.Run.Status != schedule.StatusSuccess {
		x.broken(fmt.Sprintf("it is consumed by run %s, which is %s", x.Entry.Run, x.Run.Status))
		return
	}
	x.say("%s: run %s succeeded at %s. The event had waited %s for a run", x.subject("consumed it"), x.Entry.Run, describe.Instant(x.EndedAt), describe.Span(x.out.Wait.Round(time.Millisecond)))
	x.failedBefore()
}

func (x *eventText) failedBefore() {
	if x.Attempts > 0 {
		x.say("%s failed before it", describe.Count(int(x.Attempts), "attempt"))
	}
}

func (x *eventText) dead() {
	x.out.Verdict = EventDead
	if x.Entry.Reason == topic.ReasonCancelled {
		x.say("%s at %s: its run %s was cancelled", x.subject("gave it up"), describe.Instant(x.EndedAt), x.Entry.Run)
	} else {
		x.say("%s at %s, after %s: run %s was the last", x.subject("gave it up"), describe.Instant(x.EndedAt), describe.Count(max(1, int(x.Attempts)), "failed attempt"), x.Entry.Run)
	}
	if r := x.Run; r != nil && r.Status == schedule.StatusFailed {
		s := "The last error is " + r.Reason.WithCode(r.ErrorCode)
		if r.ErrorMessage != "" {
			s += ": " + r.ErrorMessage
		}
		if r.FailureClass != "" {
			s += fmt.Sprintf(" (class %s)", r.FailureClass)
		}
		x.say("%s", s)
	}
	x.say("It never gets the event again. Publish it under a new event_id once the cause is gone")
}

// broken is for rows that contradict each other.
func (x *eventText) broken(what string) {
	x.out.Verdict, x.out.Reason = EventUnrecorded, ""
	x.say("%s, but %s. This is a bug: please report it with the answer", x.subject("has it "+x.State.String()), what)
}

// withoutEntry answers for the consumer that is asked for and has nothing of the event.
func (f *EventFacts) withoutEntry() ConsumerAnswer {
	x := &eventText{ConsumerFacts: &ConsumerFacts{}}
	x.ScheduleID = f.Asked.ScheduleID
	x.out = ConsumerAnswer{ScheduleID: f.Asked.ScheduleID, Since: f.Asked.Since, Verdict: EventNotSubscribed}
	published := describe.Instant(f.Event.PublishedAt)
	switch since := f.Asked.Since; {
	case since.IsZero():
		x.say("Schedule %s does not consume topic %s", x.ScheduleID, f.Event.Topic)
	case since.Add(subscribeMargin).After(f.Event.PublishedAt):
		x.say("%s topic %s since %s, and the event was published at %s", x.subject("names"), f.Event.Topic, describe.Instant(since), published)
	case f.Asked.Mismatch != nil:
		m := f.Asked.Mismatch
		x.out.Verdict = EventNotMatched
		has := "has no " + m.Member
		if m.Value != "" {
			has = fmt.Sprintf("has %s %s", m.Member, m.Value)
		}
		x.say("%s topic %s, but its filter left the event out: the event %s, and the filter asks for %s", x.subject("names"), f.Event.Topic, has, m.Condition)
	case f.Event.PublishedAt.Before(f.KeptSince):
		x.out.Verdict = EventPruned
		x.say("%s nothing of it any more: the event was published at %s, and ended entries are kept since %s", x.subject("has"), published, describe.Instant(f.KeptSince))
	default:
		x.out.Verdict = EventUnrecorded
		x.say("%s topic %s since %s, but has nothing of the event of %s. This is a bug: please report it with the answer", x.subject("names"), f.Event.Topic, describe.Instant(since), published)
	}
	x.out.Lines = x.lines
	return x.out
}

// missing answers for entries that are not there.
func (f *EventFacts) missing(n int) ConsumerAnswer {
	x := &eventText{}
	x.out.Verdict = EventPruned
	if f.Event.PublishedAt.Before(f.KeptSince) {
		x.say("The entries of %s were deleted: ended ones are kept since %s", describe.Count(n, "other consumer"), describe.Instant(f.KeptSince))
	} else {
		x.out.Verdict = EventUnrecorded
		x.say("The event was published to %s, and the entries of %d are missing. This is a bug: please report it with the answer", describe.Count(f.Event.Fanout, "consumer"), n)
	}
	x.out.Lines = x.lines
	return x.out
}

// SubscribedSince is since when a consumer names a topic without a break; zero: it does not. revisions
// are those since its last creation, the newest first.
func SubscribedSince(revisions []schedule.Revision, name string) (since time.Time) {
	for i := range revisions {
		if !topic.Consumes(&revisions[i].Definition.Consume, name) {
			return since
		}
		since = revisions[i].CreatedAt
	}
	return since
}

// FilteredOut is why a consumer's filter left an event out; nil: it did not. revisions are those since the
// consumer's last creation, the newest first. Of an edit just before the publish it is unknown which came
// first.
func FilteredOut(revisions []schedule.Revision, e *topic.Event) *topic.Mismatch {
	for i := range revisions {
		r := &revisions[i]
		if r.CreatedAt.After(e.PublishedAt) {
			continue
		}
		mismatch := topic.NotMatched(r.Definition.Consume.Filter, e)
		if mismatch != nil || r.CreatedAt.Add(subscribeMargin).Before(e.PublishedAt) {
			return mismatch
		}
	}
	return nil
}
