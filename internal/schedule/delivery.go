package schedule

import "time"

// DeliveryState is the state of a message.
type DeliveryState string

// The states of a delivery.
const (
	DeliveryPending   DeliveryState = "PENDING"   // not sent yet, or to be sent again
	DeliveryDelivered DeliveryState = "DELIVERED" // the receiver answered 2xx
	DeliveryDead      DeliveryState = "DEAD"      // given up; it can be sent again by hand
)

// AlertDelivery is one row of the outbox: one message to one target.
type AlertDelivery struct {
	DeliveryID string // the webhook-id: the same at every attempt
	AlertID    string // empty: a test, or about a run
	RunKey     Key    // of the run that it is about, or the end key of a group; zero: about an alert, or a test
	GroupNo    int32  // of the group that it is about; 0: none
	ScheduleID string
	UserID     string
	Type       string
	Target     string // a name in NOTIFY_FILE, a hash of a URL, which may hold a secret itself, or a WebhookTarget
	TargetKind string // webhook, email, slack, pagerduty, teams, ntfy
	Host       string // of the target, for people
	Payload    string // about a run: empty, it is made when the message is sent
	State      DeliveryState
	Attempts   int32
	Round      int32     // starts at 1; each manual redelivery adds 1
	RoundAt    time.Time // start of the round: retries are bounded from here
	NextAt     time.Time // PENDING: not sent before; also the lease of an attempt in progress
	LastStatus int32     // the answer's; 0: there was none
	LastError  string
	CreatedAt  time.Time
	EndedAt    time.Time
	Disabled   bool // the target answered that it is gone; set by a claim only
	// GroupKey is set for messages to people: they are sent together with others of the same
	// target and key (AlertGroup). It is not stored in the outbox.
	GroupKey string
}

// DeliveryClaim asks for messages to send.
type DeliveryClaim struct {
	Now   time.Time
	Lease time.Duration // no other claim returns them before it ends
	Limit int
	// Target limits the claim to one target; empty: all except Except.
	Target string
	Except []string
}

// Redelivery sends a message again.
type Redelivery struct {
	DeliveryID string
	Now        time.Time
	// Lease is that of a claim. A message with a later NextAt is not in progress: it
	// waits for its next attempt.
	Lease time.Duration
}

// DeadRedelivery sends messages about runs again that were given up, oldest first.
type DeadRedelivery struct {
	Target string // "": to any
	UserID string // the owner of the runs; "": any
	Limit  int
	Now    time.Time
}

// DeliverySettlement is the result of an attempt. It counts only for the newest attempt: Attempts
// and Round are as claimed.
type DeliverySettlement struct {
	DeliveryID string
	Attempts   int32
	Round      int32
	State      DeliveryState
	NextAt     time.Time // PENDING: when again
	Status     int32
	Error      string
	// Gone disables the target until a manually sent message arrives there; Arrived enables it.
	Gone, Arrived bool
	Now           time.Time
}

// DeliveryFilter narrows a list of deliveries, newest first. Zero fields do not
// filter.
type DeliveryFilter struct {
	Runs         bool   // messages about runs; else those about alerts, and tests
	AlertID      string // includes grouped messages with this alert
	ScheduleID   string // likewise
	State        DeliveryState
	AfterCreated time.Time
	AfterID      string
	Limit        int
}
