package topic

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
