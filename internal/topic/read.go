package topic

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// InboxFilter selects entries of one consumer, in the order of the events.
type InboxFilter struct {
	ScheduleID string
	State      State // 0: any
	AfterSeq   int64 // a page begins after this entry
	AfterRound int32
	Limit      int
}

// InboxEntry is an entry with its event, without the data.
type InboxEntry struct {
	Entry
	Event Event
}

// EventFilter selects events of one owner, the newest first.
type EventFilter struct {
	UserID string
	Topic  string // "": any
	Before int64  // a page begins before this number; 0: at the newest
	Limit  int
}

// Consumption is an entry with what decides on it, read at one instant.
type Consumption struct {
	Entry
	Deleted    bool // the consumer
	Pause      schedule.Pause
	OverlapKey string // qualified, of the consumer
	// WakeAt is when the consumer is looked at; zero: it has no wake row.
	WakeAt time.Time
	// Own is a run of the consumer that has taken events and is not over; zero: there is none.
	Own schedule.Key
	// TakenAt is when Run got its events, and RunOpen reports whether it is not over.
	TakenAt time.Time
	RunOpen bool
}
