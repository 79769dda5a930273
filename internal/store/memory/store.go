// Package memory is step 3 of a slot's life, the commit, in memory: the same
// contract as the stores on Postgres and SQLite (package storetest runs against
// all three), for the simulator, which makes millions of ledgers. One mutex;
// every method is one transaction, undone whole if it errs.
//
// It is no store for users: nothing of it outlives the process.
package memory

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
)

// Options tune a store; the zero value is ready to use.
type Options struct {
	// Clock judges the expiry of terms, as the database's clock does on
	// Postgres; nil: the callers' now, as on SQLite.
	Clock func() time.Time
	// Changes is how many changes are kept at least; 0: enough for any leader that
	// reads them each second.
	Changes int
	// QueuedRetry decides on the retries of runs in queues where neither their schedule nor their
	// queue has a policy; zero: schedule.DefaultRetry.
	QueuedRetry schedule.RetryPolicy
	// Watch is told of every write once it is committed.
	Watch Watch
}

// Watch are observers of what is committed, called in the order of the writes
// under the store's lock: they must not call the store. Each may be nil.
type Watch struct {
	// Run: before is nil for a row that is new, after for one that is gone. term
	// is nil where the write was not one of a leader.
	Run func(term *schedule.Term, before, after *schedule.Run)
	// Schedule: before is nil for one that is new. term is the planner's.
	Schedule func(term *schedule.Term, before, after *schedule.Schedule)
	Event    func(schedule.Event)
	Grant    func(before, after *schedule.Grant) // before is nil for one that is new
	// Backfill: before is nil for one that is new; slots are those that came, or
	// that are now another run's. It comes before the runs of the same transaction.
	Backfill func(term *schedule.Term, before, after *schedule.Backfill, slots []schedule.BackfillSlot)
	Queue    func(before, after *schedule.Queue) // before is nil for one that is new
	Limit    func(after *schedule.Limit)
	Group    func(before, after *schedule.JobGroup) // before is nil for one that is new
	// Reservation: before is nil for one that is new, after for one that has ended.
	Reservation func(before, after *schedule.Reservation)
	Takeover    func(schedule.Term)
	// Result comes after the end of its run.
	Result func(schedule.Key, *schedule.RunResult)
	// Guarded: the index of one run in flight per overlap key refused a claim.
	Guarded func(schedule.Run)
	// Late: readers have passed the number of a transaction whose changes come now.
	Late func(open time.Duration)
	// Published is told of an event that is new; Entry of an entry of an inbox: before is nil for one
	// that is new, after for one that is gone. Entries of one transaction come in no order.
	Published func(*topic.Event)
	Entry     func(term *schedule.Term, before, after *topic.Entry)
	// Wake is told of a wake row; zero: it is gone.
	Wake func(scheduleID string, when time.Time)
	// Commit comes after all others of a transaction.
	Commit func()
}

// Store is a ledger in memory.
type Store struct {
	opts  Options
	wakes wakes

	queueWakes wakes

	mu         sync.Mutex
	schedules  map[string]*schedule.Schedule
	unreadable map[string]error
	revisions  map[revisionID]*schedule.Revision
	runs       map[schedule.Key]*schedule.Run
	live       living                             // those of runs that have not ended
	leases     map[schedule.Key]schedule.KeyLease // of open runs
	firstSent  map[schedule.Key]time.Time         // the first call of a run that may have reached the executor
	requests   map[schedule.Key]*request          // of keys without a run
	failing    map[string]*schedule.Failure       // by schedule; nil: it does not fail any more
	workflows  map[schedule.WorkflowUse]schedule.WorkflowVersion
	shares     map[shareID]schedule.WorkflowShare
	deploys    map[deployID]deploy
	grants     map[schedule.GrantRef]*schedule.Grant // never changed, only replaced
	queues     map[string]*schedule.Queue            // never changed, only replaced
	queueLog   []schedule.QueueEvent

	jobGroups   map[string]*schedule.JobGroup // never changed, only replaced
	lastGroupNo int32

	lastQueueEvent int64
	limitTables
	eventTables

	stalls     map[int32]schedule.QueueStall // by queue
	workers    map[schedule.WorkerRef]schedule.QueueWorker
	fairShares map[ledger.FairTurns]fairShare // what each key of a fair queue has drawn last
	clocks     map[clockOf]int64              // of fair queues
	enqueued   map[enqueueID]enqueueRecord
	uniques    map[uniqueID]schedule.UniqueHold
	minutes    map[minuteID]schedule.QueueMinute
	position   int64                      // the last that was drawn
	queuedDue  map[schedule.Key]time.Time // when the next sweep looks at a run of a queue; zero: never
	backfills  map[string]*backfill
	leaders    map[int]*leadership
	changes    changeLog
	terms      []*termRow
	instances  map[int32]*instance
	lastNo     int32 // of instances
	generation int   // of the server; see Restart
	events     []schedule.Event
	lastEvent  int64
	trail      []schedule.AuditEntry
	lastAudit  int64
	expected   map[schedule.ExpectationID]schedule.ExpectationState
	alerts     map[string]schedule.Alert
	deliveries map[string]schedule.AlertDelivery
	notices    map[noticeID]notice
	groups     map[noticeID]group
	gone       map[string]bool // targets of deliveries
	shards     int             // recorded; 0: none
	buckets    map[string]int  // of overlap keys, once worked out
	closed     bool

	logs        map[schedule.Key][]schedule.LogPart
	results     map[schedule.Key]*schedule.RunResult
	lateReports map[schedule.Key]int // LateReportBit of those that have their event
	attempts    map[schedule.Key]string
}

type revisionID struct {
	scheduleID string
	revision   int64
}

// request is the record of a key without a run.
type request struct {
	schedule.ExecutionRequest
	createdAt time.Time
}

// New makes an empty store.
func New(o Options) *Store {
	return &Store{
		eventTables: newEventTables(),
		opts:        o, schedules: make(map[string]*schedule.Schedule), unreadable: make(map[string]error),
		revisions: make(map[revisionID]*schedule.Revision), runs: make(map[schedule.Key]*schedule.Run), live: newLiving(),
		lateReports: make(map[schedule.Key]int), logs: make(map[schedule.Key][]schedule.LogPart), results: make(map[schedule.Key]*schedule.RunResult),
		attempts: make(map[schedule.Key]string), failing: make(map[string]*schedule.Failure),
		leases: make(map[schedule.Key]schedule.KeyLease), requests: make(map[schedule.Key]*request), workflows: make(map[schedule.WorkflowUse]schedule.WorkflowVersion),
		shares:  make(map[shareID]schedule.WorkflowShare),
		deploys: make(map[deployID]deploy), backfills: make(map[string]*backfill),
		grants: make(map[schedule.GrantRef]*schedule.Grant), limitTables: newLimitTables(),
		queues: make(map[string]*schedule.Queue), jobGroups: make(map[string]*schedule.JobGroup),
		stalls: make(map[int32]schedule.QueueStall), workers: make(map[schedule.WorkerRef]schedule.QueueWorker), fairShares: make(map[ledger.FairTurns]fairShare), clocks: make(map[clockOf]int64), enqueued: make(map[enqueueID]enqueueRecord), uniques: make(map[uniqueID]schedule.UniqueHold), minutes: make(map[minuteID]schedule.QueueMinute), queuedDue: make(map[schedule.Key]time.Time),
		changes: changeLog{most: cmp.Or(o.Changes, keptChanges)},
		leaders: make(map[int]*leadership),
		buckets: make(map[string]int), firstSent: make(map[schedule.Key]time.Time), instances: make(map[int32]*instance),
		expected: make(map[schedule.ExpectationID]schedule.ExpectationState), alerts: make(map[string]schedule.Alert),
		deliveries: make(map[string]schedule.AlertDelivery), gone: make(map[string]bool),
		notices: make(map[noticeID]notice), groups: make(map[noticeID]group),
	}
}

// Now is the machine's clock.
func (s *Store) Now() time.Time { return time.Now() }

// Ping answers until the store is closed.
func (s *Store) Ping(ctx context.Context) error { return s.read(ctx, func() error { return nil }) }

// Close ends all answers.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// open says why nothing can be read or written.
func (s *Store) open() error {
	if s.closed {
		return schedule.Explain(schedule.ErrUnavailable, "the store was closed")
	}
	return nil
}

// Listen calls wake, for all hash buckets, after each commit by which somebody
// other than a term gave it something to do, until ctx ends. wake must not block.
func (s *Store) Listen(ctx context.Context, wake func(first, last int)) error {
	defer s.wakes.add(wake)()
	<-ctx.Done()
	return nil
}

// ListenQueues calls wake after each commit by which runs have entered a queue or left one, a
// queue was changed, or a run is to be cancelled, until ctx ends. wake must not block.
func (s *Store) ListenQueues(ctx context.Context, wake func()) error {
	defer s.queueWakes.add(func(int, int) { wake() })()
	<-ctx.Done()
	return nil
}

// wakes are the functions that Listen registered, in that order.
type wakes struct {
	mu    sync.Mutex
	calls []*func(first, last int)
}

func (w *wakes) add(wake func(first, last int)) (remove func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, &wake)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for i := range w.calls {
			if w.calls[i] == &wake {
				w.calls = append(w.calls[:i:i], w.calls[i+1:]...)
				return
			}
		}
	}
}

func (w *wakes) call() {
	w.mu.Lock()
	calls := w.calls
	w.mu.Unlock()
	for _, wake := range calls {
		(*wake)(0, schedule.Buckets-1)
	}
}

// at is an instant as the stores keep it: in UTC, to the microsecond.
func at(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

func either(t, otherwise time.Time) time.Time {
	if t.IsZero() {
		return at(otherwise)
	}
	return at(t)
}
