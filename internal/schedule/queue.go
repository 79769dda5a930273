package schedule

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// QueueDefinition is what a user says about a dispatch queue, with every default resolved. Its
// JSON form is stored.
type QueueDefinition struct {
	QueueID      string         `json:"queue_id"`
	UserID       string         `json:"user_id"`              // the owner
	Shared       bool           `json:"shared"`               // other owners enqueue for themselves, and see their own runs
	MaxInFlight  uint32         `json:"max_in_flight"`        // runs that were handed over and are not over
	RunTimeoutMS uint32         `json:"run_timeout_ms"`       // as of a schedule; 0: that of the run's schedule
	MaxRunMS     uint32         `json:"max_run_ms,omitempty"` // as of a schedule, for runs whose schedule has none; 0: no bound
	ExpiresMS    uint32         `json:"expires_ms,omitempty"` // a run that waits for so long ends, unless its schedule or itself has a bound; 0: no bound
	Retry        RetryPolicy    `json:"retry,omitzero"`       // of runs whose schedule has none; zero: that of runs in queues
	MaxWaiting   uint32         `json:"max_waiting"`          // 0: any number
	Backpressure Backpressure   `json:"backpressure"`
	Rate         RateDefinition `json:"rate,omitzero"`    // of starts
	Limits       []string       `json:"limits,omitempty"` // that each run uses, as LimitRef has them
	// PromoteAfterMS: a run that has waited for so long passes runs of higher priorities, every
	// second start at most; 0: never.
	PromoteAfterMS uint32 `json:"promote_after_ms,omitempty"`
	// Fair: keys take turns within a priority, in proportion to Weights. "" of older releases: none.
	Fair    Fairness          `json:"fair,omitempty"`
	Weights map[string]uint32 `json:"weights,omitempty"` // of fair keys; 1 of one that is not in it
	// MaxReservations is how many reservations may wait. A definition of an older release has none.
	MaxReservations uint32   `json:"max_reservations,omitempty"`
	Delivery        Delivery `json:"delivery,omitempty"`     // "" of older releases: push
	Workers         []string `json:"workers,omitempty"`      // with delivery pull: the subjects that may fetch; none: any
	HeartbeatMS     uint32   `json:"heartbeat_ms,omitempty"` // with delivery pull: the runs of a worker that was silent for so long are lost
	// Webhook is a name in WEBHOOK_TARGETS_FILE: it is told of the ends of runs.
	Webhook       string            `json:"webhook,omitempty"`
	WebhookEvents []WebhookEvent    `json:"webhook_events,omitempty"` // in the order of the closed set; none: the default
	History       History           `json:"history,omitempty"`        // "" of older releases: all
	Expect        QueueExpect       `json:"expect,omitzero"`
	Labels        map[string]string `json:"labels,omitempty"`
	ManagedBy     string            `json:"managed_by,omitempty"`
}

// Backpressure says what waits when the executor answers that it cannot take a run now.
type Backpressure string

// The backpressures.
const (
	BackpressureQueue Backpressure = "queue" // the whole queue, so that the order is kept
	BackpressureRun   Backpressure = "run"   // only that run
)

// Bounds and defaults of queues.
const (
	MaxInFlightLimit  = 10_000
	DefaultMaxWaiting = 100_000
	MaxMaxWaiting     = 100_000_000
	// DefaultQueueID is the queue that exists without a definition.
	DefaultQueueID = "default"
	// OperatorOwner owns it.
	OperatorOwner = "operator"
	// MaxDelay bounds delay_ms.
	MaxDelay = 30 * 24 * time.Hour
	// ManagedByQueue begins the manager of schedules that a queue made for bare workflow versions.
	ManagedByQueue = "queue:"
)

// Resolved fills in the defaults. maxInFlight is DEFAULT_MAX_IN_FLIGHT.
func (d QueueDefinition) Resolved(maxInFlight uint32) QueueDefinition {
	if d.MaxInFlight == 0 {
		d.MaxInFlight = maxInFlight
	}
	if d.Backpressure == "" {
		d.Backpressure = BackpressureQueue
	}
	if d.MaxReservations == 0 {
		d.MaxReservations = DefaultMaxReservations
	}
	if d.Fair == "" {
		d.Fair = FairNone
	}
	if d.History == "" {
		d.History = HistoryAll
	}
	d.resolvePull()
	d.Rate, d.Retry = d.Rate.Resolved(), d.Retry.Resolved()
	d.WebhookEvents = resolvedEvents(d.WebhookEvents)
	return d
}

// Check adds what is wrong with a resolved definition, its owner and labels aside.
func (d *QueueDefinition) Check(c *Collect) {
	if !ValidID(d.QueueID) {
		c.Add("queue_id", d.QueueID, "must be 1–128 characters of A–Z a–z 0–9 . _ : -", "")
	}
	if d.MaxInFlight < 1 || d.MaxInFlight > MaxInFlightLimit {
		c.Add("max_in_flight", d.MaxInFlight, "is not within 1 to 10000", "to stop a queue, pause it")
	}
	checkBound(c, "run_timeout_ms", d.RunTimeoutMS, "0 takes that of the run's schedule")
	CheckMaxRun(c, d.MaxRunMS)
	CheckExpires(c, d.ExpiresMS)
	d.Retry.Check(c)
	if d.MaxWaiting > MaxMaxWaiting {
		c.Add("max_waiting", d.MaxWaiting, "is above 100000000", "0 is without a limit")
	}
	if d.MaxReservations < 1 || d.MaxReservations > MaxMaxReservations {
		c.Add("max_reservations", d.MaxReservations, "is not within 1 to 1000", "")
	}
	for _, e := range d.WebhookEvents {
		if !slices.Contains(WebhookEvents, e) {
			c.Add("webhook_events", e, "is not one of "+joinEvents(WebhookEvents, ", "), "leave it out for all of them except run.retrying")
		}
	}
	if d.Backpressure != BackpressureQueue && d.Backpressure != BackpressureRun {
		c.Add("backpressure", d.Backpressure, "is not queue or run", "")
	}
	if after := millis(d.PromoteAfterMS); after > MaxDelay {
		c.Add("promote_after_ms", d.PromoteAfterMS, "is over "+Milliseconds(MaxDelay), "0 is never")
	}
	d.checkFair(c)
	d.checkPull(c)
	d.checkHistory(c)
	d.Expect.check(c)
	d.Rate.Check(c, "rate")
	CheckLimitRefs(c, "limits", d.Limits)
}

// WebhookOf is what the end of a run reads of its queue.
func (d *QueueDefinition) WebhookOf() QueueWebhook {
	w := QueueWebhook{d.Webhook, d.WebhookEvents}
	if len(w.Events) == 0 {
		w.Events = DefaultWebhookEvents
	}
	return w
}

// Equal reports whether two definitions are the same, so that registering one again writes
// nothing.
func (d *QueueDefinition) Equal(o *QueueDefinition) bool {
	return d.QueueID == o.QueueID && d.UserID == o.UserID && d.Shared == o.Shared && d.MaxInFlight == o.MaxInFlight &&
		d.RunTimeoutMS == o.RunTimeoutMS && d.MaxRunMS == o.MaxRunMS && d.ExpiresMS == o.ExpiresMS && d.Retry == o.Retry && d.MaxWaiting == o.MaxWaiting && d.Backpressure == o.Backpressure &&
		d.Webhook == o.Webhook && slices.Equal(d.WebhookEvents, o.WebhookEvents) && d.Rate == o.Rate && d.PromoteAfterMS == o.PromoteAfterMS &&
		d.MaxReservations == o.MaxReservations && slices.Equal(d.Limits, o.Limits) && d.Fair == o.Fair && maps.Equal(d.Weights, o.Weights) && maps.Equal(d.Labels, o.Labels) && d.ManagedBy == o.ManagedBy &&
		d.Delivery == o.Delivery && slices.Equal(d.Workers, o.Workers) && d.HeartbeatMS == o.HeartbeatMS && d.History == o.History && d.Expect.Equal(o.Expect)
}

// Text is the stored form.
func (d *QueueDefinition) Text() string {
	raw, err := json.Marshal(d)
	if err != nil {
		panic("a queue definition is not JSON: " + err.Error()) // it has texts and numbers only
	}
	return string(raw)
}

// ParseQueue reads the stored form.
func ParseQueue(text string) (d QueueDefinition, err error) {
	if err = json.Unmarshal([]byte(text), &d); d.MaxReservations == 0 {
		d.MaxReservations = DefaultMaxReservations
	}
	if d.Fair == "" {
		d.Fair = FairNone
	}
	if d.Delivery == "" {
		d.Delivery = DeliveryPush
	}
	if d.History == "" {
		d.History = HistoryAll
	}
	return d, err
}

// Queue is a dispatch queue: runs wait in it in order, and at most MaxInFlight of them are with
// the executor.
type Queue struct {
	No int32 // given by the store, never used again
	QueueDefinition
	Revision   int64 // of the definition, from 1
	Pause      Pause // an operator's: nothing is handed over
	Closed     bool  // it takes no new runs
	CreatedAt  time.Time
	UpdatedAt  time.Time
	DeletedAt  time.Time // zero: it exists
	Unreadable bool      // its stored definition is damaged: nothing is handed over until it is registered again
}

// RunTimeout is the run timeout of a run: its queue's, else that of its definition, else the
// default. Either may be nil.
func RunTimeout(q *Queue, d *Definition) time.Duration {
	switch {
	case q != nil && q.RunTimeoutMS > 0:
		return millis(q.RunTimeoutMS)
	case d != nil:
		return d.RunTimeout()
	}
	return DefaultRunTimeout
}

// MaxRun is how long a run may take from its acceptance on: as its definition says, else its queue;
// 0: any time. Either may be nil.
func MaxRun(q *Queue, d *Definition) time.Duration {
	switch {
	case d != nil && d.MaxRunMS > 0:
		return millis(d.MaxRunMS)
	case q != nil:
		return millis(q.MaxRunMS)
	}
	return 0
}

// CheckMaxRun adds what is wrong with max_run_ms.
func CheckMaxRun(c *Collect, ms uint32) { checkBound(c, "max_run_ms", ms, "0 is without a bound") }

// CheckExpires adds what is wrong with expires_ms.
func CheckExpires(c *Collect, ms uint32) {
	checkBound(c, "expires_ms", ms, "0 is without a bound of its own")
}

// checkBound adds a bound that is neither 0 nor within a second and MaxRunTimeout.
func checkBound(c *Collect, field string, ms uint32, hint string) {
	if d := millis(ms); ms != 0 && (d < time.Second || d > MaxRunTimeout) {
		c.Add(field, ms, "is not within 1000 to 2592000000", hint)
	}
}

// StartBy is the end of a wait in a queue that may begin at an instant: that of the first of some
// bounds that is not 0; zero: the wait may take any time.
func StartBy(from time.Time, bounds ...uint32) time.Time {
	for _, ms := range bounds {
		if ms > 0 {
			return from.Add(millis(ms))
		}
	}
	return time.Time{}
}

// RetryOfQueue is the retry policy in a stored definition; zero: it has none, is missing or cannot
// be read.
func RetryOfQueue(text string) RetryPolicy {
	d, err := ParseQueue(text)
	if err != nil {
		return RetryPolicy{}
	}
	return d.Retry
}

// Takes reports whether runs of an owner may enter the queue, its state aside.
func (q *Queue) Takes(owner string) bool { return q.Alive() && (q.Shared || q.UserID == owner) }

// Alive reports whether the queue exists.
func (q *Queue) Alive() bool { return q != nil && q.DeletedAt.IsZero() }

// QueueEventKind names what happened to a queue; a closed set.
type QueueEventKind string

// The kinds of queue_events.
const (
	QueueCreated    QueueEventKind = "created"
	QueueChanged    QueueEventKind = "changed"
	QueuePaused     QueueEventKind = "paused"
	QueueResumed    QueueEventKind = "resumed"
	QueuePauseEnded QueueEventKind = "pause_ended" // paused_until was reached
	QueueClosed     QueueEventKind = "closed"
	QueueOpened     QueueEventKind = "opened"
	QueueDeleted    QueueEventKind = "deleted"
	QueueStalled    QueueEventKind = "stalled" // the executor cannot take work
	QueueUnstalled  QueueEventKind = "unstalled"
	QueueUngrouped  QueueEventKind = "ungrouped" // a run entered without the group that its schedule names

	QueueReservationGranted   QueueEventKind = "reservation_granted"
	QueueReservationReleased  QueueEventKind = "reservation_released"
	QueueReservationExpired   QueueEventKind = "reservation_expired"   // it was held for its whole time
	QueueReservationWithdrawn QueueEventKind = "reservation_withdrawn" // before its grant
)

// QueueEvent is one row of a queue's log, which is only appended to.
type QueueEvent struct {
	ID       int64 // given by the store, grows
	QueueID  string
	Time     time.Time
	Kind     QueueEventKind
	Actor    string
	Note     string
	Revision int64
}

// QueueChange is what a request makes of a queue, in one transaction.
type QueueChange struct {
	After  *Queue // nil: nothing changes
	Events []QueueEvent
	Audit  *AuditEntry
	// OwnerLimit is how many living queues the owner of a new queue may have, this one included: above
	// it the change is refused, and nothing is written. 0: any number.
	OwnerLimit int
}

// QueueFilter selects queues.
type QueueFilter struct {
	UserID string // of this owner, or shared; "": all
	After  string // queue ids above it
	Limit  int    // of a page; 0: DefaultPageSize
}

// OfQueue reports whether a queue made the schedule for a bare workflow version. Such a schedule
// counts in no quota, and lists show it only by its manager.
func (d *Definition) OfQueue() bool { return strings.HasPrefix(d.ManagedBy, ManagedByQueue) }

// templateNoted is how often an entry notes that it uses a template: seldom, since it writes the
// row of the template, and much more often than the shortest retention ends.
const templateNoted = 24 * time.Hour

// NotesUse reports whether an entry that names a template has to write that it does so. Retention
// deletes a template if nobody has written this for long, so such an entry locks the row. Other
// entries need no lock.
func (s *Schedule) NotesUse(now time.Time) bool {
	return s.OfQueue() && now.Sub(s.UpdatedAt) >= templateNoted
}
