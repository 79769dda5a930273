package schedule

import "time"

// DeliveryState is a message's place in its life.
type DeliveryState string

// The states of a delivery.
const (
	DeliveryPending   DeliveryState = "PENDING"   // to be sent, or sent again
	DeliveryDelivered DeliveryState = "DELIVERED" // the receiver has answered 2xx
	DeliveryDead      DeliveryState = "DEAD"      // given up; it can be sent again by hand
)

// AlertDelivery is one row of the outbox: one message to one target.
type AlertDelivery struct {
	DeliveryID string // the webhook-id: the same at every attempt
	AlertID    string // empty: a test
	ScheduleID string
	UserID     string
	Type       string
	Target     string // a name in NOTIFY_FILE, or a hash of a URL, which may hold a secret itself
	TargetKind string // webhook, email, slack, pagerduty, teams, ntfy
	Host       string // of the target, for people
	Payload    string
	State      DeliveryState
	Attempts   int32
	Round      int32     // 1, and one more with every time that it is sent again by hand
	RoundAt    time.Time // when that was: retries are bounded from here
	NextAt     time.Time // PENDING: not sent before; it is also the lease of an attempt under way
	LastStatus int32     // the answer's; 0: there was none
	LastError  string
	CreatedAt  time.Time
	EndedAt    time.Time
	Disabled   bool // the target has said that it is gone; read with a claim only
	// GroupKey is set for messages to people: it is not sent by itself, but with
	// others of the same target and key (AlertGroup). It is not kept in the outbox.
	GroupKey string
}

// DeliveryClaim asks for messages to send.
type DeliveryClaim struct {
	Now   time.Time
	Lease time.Duration // nobody else is given them before
	Limit int
	// Target narrows it to one; empty: all but those of Except.
	Target string
	Except []string
}

// Redelivery has a message sent again.
type Redelivery struct {
	DeliveryID string
	Now        time.Time
	// Lease is that of a claim: what is to be sent later than that is under way
	// with nobody, and waits for its next attempt.
	Lease time.Duration
}

// DeliverySettlement is what became of an attempt. It counts only while it is
// the newest one: Attempts and Round are as claimed.
type DeliverySettlement struct {
	DeliveryID string
	Attempts   int32
	Round      int32
	State      DeliveryState
	NextAt     time.Time // PENDING: when again
	Status     int32
	Error      string
	// Gone disables the target until a message sent by hand arrives there; Arrived
	// enables it.
	Gone, Arrived bool
	Now           time.Time
}

// DeliveryFilter narrows a list of deliveries, newest first. Zero fields do not
// filter.
type DeliveryFilter struct {
	AlertID      string // also messages that tell of this alert together with others
	ScheduleID   string // likewise
	State        DeliveryState
	AfterCreated time.Time
	AfterID      string
	Limit        int
}
