package schedule

import "time"

// Reservation is the next slot of a dispatch queue, for work outside Carillon. It is not a run.
type Reservation struct {
	ID          Key
	QueueNo     int32
	QueueID     string // as it is read; not stored
	UserID      string // the owner
	RequestedBy string // the caller; "": unknown
	Limits      Limits // that it uses from its grant to its end
	Position    int64  // position_key: lower goes first
	HoldMS      uint32 // how long it lasts from its grant on
	GrantedAt   time.Time
	// EndsAt is when it ends by itself. Until its grant, each wait for it moves this.
	EndsAt    time.Time
	CreatedAt time.Time
}

// Granted reports whether it holds its slot.
func (r *Reservation) Granted() bool { return !r.GrantedAt.IsZero() }

// Over reports whether it has ended by an instant. Its row may still be there.
func (r *Reservation) Over(now time.Time) bool { return !r.EndsAt.After(now) }

// Bounds and defaults of reservations.
const (
	MaxHold                = time.Hour
	DefaultMaxReservations = 10
	MaxMaxReservations     = 1000
	// WaitedFor is how long a reservation waits after somebody has waited for it last.
	WaitedFor = 30 * time.Second
)

// ReserveRequest asks for a change of the reservations of a queue.
type ReserveRequest struct {
	QueueID   string
	UserID    string
	RequestID string // "": the request cannot be repeated
}

// ReserveChange is what a request makes of the reservations of a queue.
type ReserveChange struct {
	Now      time.Time
	Add      *Reservation // the store gives it its position
	BodyHash [32]byte     // of the request that adds it
	Extend   Key          // moves EndsAt
	EndsAt   time.Time
	Release  []Key
	Actor    string // who releases
	Audit    *AuditEntry
}
