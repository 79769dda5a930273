// Package topic has the events of topics and what consumers have of them, and the pure rules that match
// events with consumers.
package topic

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Event is an event of a topic. It never changes.
type Event struct {
	Seq         int64 // the order of publishing, within one publisher; 0: not published yet
	UserID      string
	Topic       string
	Source      string // with EventID it names the event within its topic; may be empty
	EventID     string
	Type        string
	Subject     string
	Time        time.Time       // the publisher's; it schedules nothing
	Data        json.RawMessage // as sent
	DataHash    schedule.Key    // sha256 of the canonical data
	Fanout      int             // consumers that it matched when it was published
	PublishedBy string
	PublishedAt time.Time
	CausedBy    schedule.Key // the run that published it; zero: a client has
	Hops        int32        // runs that came one after the other before it
}

// ID names an event of an owner.
type ID struct{ Topic, Source, EventID string }

// ID is the name of the event.
func (e *Event) ID() ID { return ID{e.Topic, e.Source, e.EventID} }

// Limits of events.
const (
	MaxEventID     = 256         // bytes of event_id, source, type and subject
	MaxData        = 64 << 10    // bytes
	MaxPublished   = 1000        // events of one call
	MaxCallBytes   = 1 << 20     // data of one call
	MaxBatchBytes  = 1 << 20     // data of one run; one event is always taken
	MaxHops        = 32          // no run gets an event with more
	ReservedPrefix = "carillon." // of topics that Carillon itself publishes to
)

// State is the state of an event for one consumer. The numbers are stored.
type State int16

// The states of an inbox entry.
const (
	Pending  State = 1
	Reserved State = 2 // a run has it
	Consumed State = 3
	Skipped  State = 4 // it ended without a run
	Dead     State = 5 // its run failed for good
)

var stateWords = []string{"", "pending", "reserved", "consumed", "skipped", "dead"}

// String is the word of a state.
func (s State) String() string {
	if s < Pending || s > Dead {
		return fmt.Sprintf("state %d", int16(s))
	}
	return stateWords[s]
}

// StateOf is the state with a word; ok = false: there is none.
func StateOf(word string) (s State, ok bool) {
	for i, w := range stateWords {
		if i > 0 && w == word {
			return State(i), true
		}
	}
	return 0, false
}

// Ended reports whether the entry never changes again.
func (s State) Ended() bool { return s >= Consumed }

// Reason says why an entry was skipped or is dead.
type Reason string

// The reasons.
const (
	ReasonDeleted      Reason = "deleted"      // skipped: the consumer was deleted
	ReasonUnsubscribed Reason = "unsubscribed" // skipped: the consumer names the topic no more
	ReasonLoop         Reason = "loop"         // skipped: more than MaxHops runs came before the event
	ReasonFailed       Reason = "failed"       // dead: the last attempt has failed
	ReasonCancelled    Reason = "cancelled"    // dead: its run was cancelled
)

// Entry is the state of an event for one consumer.
type Entry struct {
	SID        int32
	ScheduleID string
	Seq        int64
	Round      int32 // 1 = published; later ones are redrives
	State      State
	Reason     Reason
	Run        schedule.Key // the attempt that holds it or ended it
	Attempts   int32        // that failed
	CreatedAt  time.Time
	OfferedAt  time.Time // first taken
	EndedAt    time.Time
}

// Subscription is one topic of a consumer.
type Subscription struct {
	SID        int32
	ScheduleID string
	OverlapKey string // qualified
	Topic      string
	Prefix     bool
	Filter     json.RawMessage // a pattern; empty: all events
}

// Matches reports whether the consumer gets the events of a topic.
func (s *Subscription) Matches(topic string) bool {
	if s.Prefix {
		return strings.HasPrefix(topic, s.Topic)
	}
	return topic == s.Topic
}

// Consumers are the consumers of a topic, each once, in the order of the subscriptions.
func Consumers(subscriptions []Subscription, topic string) (of []*Subscription) {
	seen := make(map[int32]bool)
	for i := range subscriptions {
		if s := &subscriptions[i]; !seen[s.SID] && s.Matches(topic) {
			seen[s.SID] = true
			of = append(of, s)
		}
	}
	return of
}

// Consumes reports whether a consumer names a topic.
func Consumes(c *schedule.Consume, topic string) bool {
	for _, text := range c.Topics {
		var s Subscription
		if s.Topic, s.Prefix = schedule.Subscription(text); s.Matches(topic) {
			return true
		}
	}
	return false
}

// Digest names a batch: sha256 over topic, source, event_id and round of each event, each with a NUL
// behind it.
func Digest(batch []Offered) schedule.Key {
	h := sha256.New()
	for i := range batch {
		e := &batch[i]
		_, _ = fmt.Fprintf(h, "%s\x00%s\x00%s\x00%d\x00", e.Topic, e.Source, e.EventID, e.Round)
	}
	return schedule.Key(h.Sum(nil))
}

// Offered is an event that a consumer may take, or that a run has.
type Offered struct {
	Event
	Round     int32
	CreatedAt time.Time // of the entry
	Bytes     int       // of the data, which is not always read
}

// Batch is what a run of a consumer has taken.
type Batch struct {
	Root   schedule.Key // the first attempt
	Count  int
	Digest schedule.Key // see Digest
	Events []Offered
}
