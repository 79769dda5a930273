package topic

import "time"

// Name names a topic of an owner.
type Name struct{ UserID, Topic string }

// NameFilter selects topics that have events, or a consumer that names them, by owner and name.
type NameFilter struct {
	UserID string // "": of all owners
	After  Name   // a page begins after it
	Limit  int
}

// StatsAsk says how much is looked at for the numbers of a topic.
type StatsAsk struct {
	Now  time.Time
	Most int // the newest events, and for each consumer the oldest pending and dead entries
}

// Stats are the numbers of a topic.
type Stats struct {
	Name
	LastHour, LastDay int // published
	LastAt            time.Time
	Consumers         []ConsumerStats // by schedule_id
	// AtLeast: there may be more events or entries than were looked at.
	AtLeast bool
}

// Any reports whether there is an event or a consumer.
func (s *Stats) Any() bool { return !s.LastAt.IsZero() || len(s.Consumers) > 0 }

// ConsumerStats are the numbers of a consumer, of the events of one topic.
type ConsumerStats struct {
	ScheduleID    string
	By            string // the topic as the consumer names it, such as orders.*
	Pending, Dead int
	OldestAt      time.Time // of the oldest pending entry; zero: none
}

// Waiting are the pending and dead entries of all consumers, and since when the oldest waits.
func (s *Stats) Waiting() (pending, dead int, oldest time.Time) {
	for i := range s.Consumers {
		c := &s.Consumers[i]
		pending, dead = pending+c.Pending, dead+c.Dead
		if !c.OldestAt.IsZero() && (oldest.IsZero() || c.OldestAt.Before(oldest)) {
			oldest = c.OldestAt
		}
	}
	return pending, dead, oldest
}

// By is the topic as a consumer names it.
func (s *Subscription) By() string {
	if s.Prefix {
		return s.Topic + "*"
	}
	return s.Topic
}
