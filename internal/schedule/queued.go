package schedule

import (
	"errors"
	"time"
)

// QueueState says where an open run of a dispatch queue is.
type QueueState string

// The states of a run in a queue.
const (
	QueueDelayed     QueueState = "delayed"     // until its fire_at
	QueueWaiting     QueueState = "waiting"     // the next admission may take it
	QueueChained     QueueState = "chained"     // it waits for the member of its group that comes before it
	QueueDispatching QueueState = "dispatching" // admitted: the executor may have been called
	QueueRunning     QueueState = "running"     // the executor has it
)

// QueueStates is the closed set. The tables have the places in it, counted from 1.
var QueueStates = []QueueState{QueueDelayed, QueueWaiting, QueueChained, QueueDispatching, QueueRunning}

// Code is the number of a state in the tables; 0: none.
func (s QueueState) Code() int16 { return codeOf(QueueStates, s) }

// QueueStateOf is the state with a number; ok = false: there is none.
func QueueStateOf(code int16) (s QueueState, ok bool) { return wordOf(QueueStates, code) }

// Admitted reports whether the run counts as in flight.
func (s QueueState) Admitted() bool { return s == QueueDispatching || s == QueueRunning }

// Admittance says how an admission chose a run.
type Admittance string

// The admittances.
const (
	AdmittedInOrder Admittance = "order" // nothing that could start was before it
	AdmittedAged    Admittance = "aged"  // it had waited for promote_after_ms, and passed others
)

// Admittances is the closed set. The tables have the places in it, counted from 1.
var Admittances = []Admittance{AdmittedInOrder, AdmittedAged}

// Code is the number of an admittance in the tables; 0: none.
func (a Admittance) Code() int16 { return codeOf(Admittances, a) }

// AdmittanceOf is the admittance with a number; ok = false: there is none.
func AdmittanceOf(code int16) (a Admittance, ok bool) { return wordOf(Admittances, code) }

// QueuePlace is the place of a run in its dispatch queue. The zero value is that of a run
// outside of queues.
type QueuePlace struct {
	No         int32      // of the queue
	ID         string     // of the queue; the registrar sets it
	State      QueueState // of an open run
	Priority   int32      // effective_priority: lower goes first
	FairKey    string     // takes turns with other keys in a fair queue; "": that of the owner
	FairOrder  int64      // fair_order: lower goes first; 0: the run has drawn none
	Position   int64      // position_key: lower goes first
	EnqueuedAt time.Time
	AdmittedAs Admittance // how the last admission chose it; "": there was none
	// KeepHistory: the end of the open run gets a row of history, whatever its queue keeps: a caller
	// waits for it, or its schedule needs it.
	KeepHistory bool

	Limits Limits // that it uses while it is in flight
	Kept   Limits // of them the ordered ones that it has from the attempt before: it uses them also while it waits

	GroupNo  int32  // of its group; 0: none
	GroupSeq int32  // its number in the group, counted from 1; a retry has that of the run before it
	GroupID  string // of the group; the registrar sets it

	Worker     string // caller/worker_id of the worker that has fetched the run; "": the executor was called
	WorkerSlot int32  // of an open run: which slot of the worker it takes, from 1

	Unique *UniqueHold // the unique key that it holds; GetRun of the registrar sets it
}

// In reports whether the run is, or was, in a queue.
func (p QueuePlace) In() bool { return p.No != 0 }

// IsJob reports whether a client has put the run into its queue, or it retries such a run. No
// leader has claimed it: it takes no part in overlap. A run of a slot has the epoch of the term
// that put it into the queue.
func (r *Run) IsJob() bool { return r.Queue.In() && r.Epoch == 0 }

// Stage is how far the launch of a run is, as rules judge it: PLANNED, LAUNCHING, ENQUEUED
// (accepted), STARTED, or its end. It is the status, unless the run is in a dispatch queue:
// there it is ENQUEUED until the executor has it, and then STARTED.
func (r *Run) Stage() Status {
	switch {
	case !r.Queue.In() || r.Status.Terminal() || r.Queue.State == QueueRunning:
		return r.Status
	case r.Queue.State == QueueDispatching:
		return StatusLaunching
	}
	return StatusPlanned
}

// Enter moves a run to a stage.
func (r *Run) Enter(stage Status) {
	r.Status = stage
	if !r.Queue.In() || stage.Terminal() {
		return
	}
	switch stage {
	case StatusPlanned:
		r.Status = StatusEnqueued // its queue state says why it waits
	case StatusLaunching:
		r.Status, r.Queue.State = StatusEnqueued, QueueDispatching
	default:
		r.Status, r.Queue.State = StatusStarted, QueueRunning
	}
}

// QueuePriority is the effective priority of a run.
func QueuePriority(priority int32) int32 { return -priority }

// Reprioritize gives a run another priority. What it has drawn in a fair queue is for the priority
// that it had: it draws again.
func (r *Run) Reprioritize(priority int32) {
	if priority == r.Priority {
		return
	}
	r.Queue.Priority += QueuePriority(priority) - QueuePriority(r.Priority)
	r.Queue.FairOrder, r.Priority = 0, priority
}

// behindOthers is added to the effective priority of catch-up and backfill.
const behindOthers = 10_000

// SlotPriority is the effective priority of a run that its schedule puts into a queue: catch-up
// and backfill go behind all others.
func SlotPriority(r *Run) int32 {
	if r.Trigger.AfterOthers() {
		return QueuePriority(r.Priority) + behindOthers
	}
	return QueuePriority(r.Priority)
}

// EnqueueRequest asks to put runs into a queue.
type EnqueueRequest struct {
	QueueID   string
	UserID    string
	RequestID string // "": the request cannot be repeated
	// Position, from 1, is where the first run goes among the waiting runs of its priority;
	// those from there on move back. 0: all go to the end.
	Position int
	GroupID  string // of the group that the runs join; "": none
	Uniques  []Key  // hashes of the unique keys of the runs, ascending, each once
	// Templates are those of the runs whose use is to be noted, ascending, each once: see NotesUse. A
	// template that is gone is ErrTemplateGone.
	Templates []string
	Now       time.Time // of the note
}

// EnqueueFacts is what a transaction reads for an EnqueueRequest.
type EnqueueFacts struct {
	Queue   *Queue         // nil: no queue ever had the id
	Earlier *EnqueueRecord // of the same request; nil: there is none
	// Group is the group of the request, locked; nil: there is none. GroupOpen: members of it are
	// not over.
	Group     *JobGroup
	GroupOpen bool
	// Uniques are the keys of the request that have a row, by hash. Nobody takes or frees one of them
	// before the transaction is over.
	Uniques map[Key]UniqueFact
}

// EnqueueRecord is what is kept of a request with an id.
type EnqueueRecord struct {
	BodyHash [32]byte
	Keys     []Key
	Marks    Marks
}

// Enqueue is the decision on an EnqueueRequest. The store gives the runs their positions, in
// their order.
type Enqueue struct {
	Runs []Run // new ones
	// Keys are the answer, a key for each run of the request; nil: those of Runs. With neither of
	// them, and no Group, nothing is written.
	Keys     []Key
	Marks    Marks        // of Keys
	Replaced []Run        // runs of EnqueueFacts.Uniques as they are now
	Uniques  []UniqueHold // keys as they are now
	Group    *JobGroup    // of the runs, as it is afterwards; No = 0: it is new. It ends if nothing of it is left
	Audit    *AuditEntry
	BodyHash [32]byte
	Now      time.Time
}

// Empty reports whether nothing is written.
func (e *Enqueue) Empty() bool { return len(e.Runs) == 0 && len(e.Keys) == 0 && e.Group == nil }

// Answer has a key for each run of the request.
func (e *Enqueue) Answer() []Key {
	if e.Keys != nil {
		return e.Keys
	}
	keys := make([]Key, len(e.Runs))
	for i := range e.Runs {
		keys[i] = e.Runs[i].Key
	}
	return keys
}

// QueueCounts counts the open runs of a queue.
type QueueCounts struct {
	Delayed, Waiting, InFlight int
	Chained                    int       // they wait for another member of their group
	WaitingSince               time.Time // when the waiting run that came first entered, or could start; zero: none
	Reserving, Reserved        int       // reservations that wait, and granted ones
	Stall                      QueueStall
	At                         time.Time // when a registrar counted them
}

// QueueMeasure is a queue as metrics and doctor see it.
type QueueMeasure struct {
	Queue
	QueueCounts
	Pace    QueuePace
	Dead    int           // dead runs, where the queue promises something about them: as QueueExpect.CountsDead says
	Workers []QueueWorker // of a pull queue
}

// Fetching counts the workers that have fetched runs within their heartbeat.
func (m *QueueMeasure) Fetching(now time.Time) (n int) {
	for i := range m.Workers {
		if !m.Workers[i].Silent(&m.QueueDefinition, now) {
			n++
		}
	}
	return n
}

// QueuedChange is what a request makes of a run that waits in a queue.
type QueuedChange struct {
	Run   *Run // input, priority, run_at, fire_at and its place; nil: nothing changes
	Audit *AuditEntry
	Now   time.Time
}

// QueueMove moves runs that wait in one queue, as one block, among those of their priority.
type QueueMove struct {
	QueueID  string
	Runs     []Run // of one priority, as they were read, in the order of the block
	Position int   // of the first one, 1 = next; 0: behind all others
	Anchor   *Run  // instead of Position: a waiting run that they go before
	After    bool  // they go behind Anchor
	Audit    *AuditEntry
	Now      time.Time
}

// ErrMoveStale refuses a move: a run of it has changed since it was read.
var ErrMoveStale = errors.New("a run was admitted, changed or ended meanwhile: nothing was moved; look again, and repeat the call")

// WaitingFilter selects runs of a queue that are not admitted.
type WaitingFilter struct {
	QueueNo       int32
	Offset, Limit int // waiting runs come first, in the order of the queue; then delayed and chained ones
}

// QueueNow is a queue with runs that may be admitted.
type QueueNow struct {
	No      int32
	QueueID string
}

// AdmitRequest asks for the next runs of a queue.
type AdmitRequest struct {
	QueueNo  int32
	Now      time.Time
	Free     int                     // calls of the launcher
	Share    func(owner string) int  // how many of its calls the queues of an owner may still take; nil: any number
	Holder   int32                   // instance_no of the process that will call; 0: it has no presence lock
	Lease    func(Key) time.Duration // of the call
	RetryFor time.Duration           // how long the launch of a run is tried where its schedule does not say
	// RequireGrant: a run without an execution grant is refused.
	RequireGrant bool
	Fetch        *Fetch // of a worker: the runs are handed over with the admission; nil: a launcher calls the executor
}

// QueueStall is a pause of a queue because its executor cannot take work. The zero instant: it can.
type QueueStall struct {
	QueueNo int32
	Until   time.Time
	Level   int // how often in a row nobody was reached
	Reason  string
}

// StallChange is a stall that begins, goes on or ends.
type StallChange struct {
	QueueStall
	Event *QueueEvent // nil: it goes on
}

// PutBack is an admitted run that the executor certainly does not have: it waits again, at
// its place.
type PutBack struct {
	Key    Key
	FireAt time.Time // later than now: it is delayed until then
	Reason string    // of the last attempt
}

// QueueSweep asks for what an instant has made due in all queues.
type QueueSweep struct {
	SweepRequest                         // Term is not used
	Free         int                     // at most so many runs are sent again
	DeletedSince time.Time               // what waits in a queue that was deleted later ends
	Orphans      bool                    // uses of limits without a run or reservation are deleted
	Seen         map[WorkerRef]time.Time // the last fetches of the workers of the runs; the store reads them
}

// QueueCopyRequest asks for a copy of a queue with its open runs.
type QueueCopyRequest struct {
	QueueNo int32
	Runs    int      // at most so many that are not admitted
	Limits  []Limits // are read too, besides those of the runs
	Now     time.Time
}
